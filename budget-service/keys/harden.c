/* Forbids core dumps and tracing of this process. Called at the start of every command (cli/main.c)
 * and by the service itself. */
#include "budget/harden.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>

base_status budget_harden_process(base_error *reterr)
{
    const struct rlimit none = {0};
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return base_fail_errno(reterr, errno, "cannot make the process undumpable");
    }
    if (setrlimit(RLIMIT_CORE, &none) != 0) {
        return base_fail_errno(reterr, errno, "cannot forbid core dumps");
    }
    return BASE_OK;
}
