/* Looks whether enough file descriptors are left. Called by the transports before their exchange. */
#include "core/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "common/limits.h"
#include "ringfence/coll_error.h"

enum { COUNT_MAX = 3 * COLL_RANKS_MAX };

coll_status coll_descriptors_check(const char *what, int count, coll_error *reterr)
{
    int fds[COUNT_MAX];
    int got = 0;
    int error = 0;
    BASE_ASSERT(count <= COUNT_MAX);
    while (got < count && error == 0) {
        fds[got] = got == 0 ? eventfd(0, EFD_CLOEXEC) : fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
        if (fds[got] >= 0) {
            got++;
        } else {
            error = errno;
        }
    }
    for (int i = 0; i < got; i++) {
        (void)close(fds[i]);
    }
    return error == 0 ? COLL_OK
                      : coll_fail_errno(reterr, error,
                                        "%s needs %d more file descriptors and gets %d (ulimit -n)",
                                        what, count, got);
}
