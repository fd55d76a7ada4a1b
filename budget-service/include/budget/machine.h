/* Which machine this is: what a token of vendor "local" is bound to. */
#ifndef BUDGET_MACHINE_H
#define BUDGET_MACHINE_H

#include "base/status.h"
#include "budget/claims.h"

/* The text of /etc/machine-id; where there is none (a container, say), "boot-" and the kernel's
 * boot id, which lasts until the next boot. BASE_ERR_IO when neither can be read. */
BASE_MUST_CHECK base_status budget_machine_id(char id[BUDGET_NAME_BYTES], base_error *reterr);

#endif
