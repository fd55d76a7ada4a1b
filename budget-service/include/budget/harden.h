/* A process that holds secrets: no core dumps, no tracing, memory that is never swapped. */
#ifndef BUDGET_HARDEN_H
#define BUDGET_HARDEN_H

#include "base/status.h"

/* PR_SET_DUMPABLE 0 and RLIMIT_CORE 0, so that another process of the same user can neither read
 * /proc/PID/mem nor trace. Call first in main, before any secret is read; an exec undoes it. */
BASE_MUST_CHECK base_status budget_harden_process(base_error *reterr);

#endif
