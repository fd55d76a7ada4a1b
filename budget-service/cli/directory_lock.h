/* Keeps the service from running while its directory's keys are changed. */
#ifndef BUDGET_CLI_DIRECTORY_LOCK_H
#define BUDGET_CLI_DIRECTORY_LOCK_H

#include "base/status.h"

/* The lock that the service holds while it runs. BASE_ERR_BUSY: it runs. */
BASE_MUST_CHECK base_status directory_lock(const char *dir, int *lock, base_error *reterr);
void directory_unlock(int lock);

#endif
