/* The checkpoint file, looked at from outside: a copy of it, kept elsewhere, shows whether the
 * ledger is still the one that was there when the copy was made. */
#ifndef BUDGET_CHECKPOINT_H
#define BUDGET_CHECKPOINT_H

#include "base/status.h"
#include "budget/ledger.h"

enum { BUDGET_CHECKPOINT_FILE_BYTES_MAX = 512 * 1024 * 1024 };

/* Every line of the file: its signature (when the ledger was opened with a verifier), and the row
 * it names. *newest: the highest row among them. BASE_ERR_MISMATCH: which line or row does not fit.
 * BASE_ERR_NOTFOUND, BASE_ERR_IO. */
BASE_MUST_CHECK base_status budget_checkpoint_check(budget_ledger *ledger, const char *path,
                                                    uint64_t *newest, base_error *reterr);

#endif
