/* Raises the limit of open files where a job needs more. Called by cli.c, and by an agent that gets its
 * part. */
#include "job/descriptors.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "proto/limits.h"

/* Rounded up. A launcher has a process, a connection, two pipes and a log for each rank. A rank has at most
 * five connections to each other one (transport zmq). Each of the launcher's two sockets may have as many
 * connections more as there are ranks or nodes, and PROTO_PENDING_EXTRA_MAX. */
enum { OF_ANY = 48 + 2 * PROTO_PENDING_EXTRA_MAX, OF_RANK = 7, OF_NODE = 5 };

base_status launch_descriptors_ensure(int64_t ranks, int64_t nodes, base_error *reterr)
{
    struct rlimit limit;
    const rlim_t needed = (rlim_t)(OF_ANY + OF_RANK * ranks + OF_NODE * nodes);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
        return BASE_OK;
    }
    if (limit.rlim_max < needed) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "%" PRId64 " ranks need up to %ju open files in a process, and ulimit -Hn "
                         "allows %ju: raise it, or start fewer ranks",
                         ranks, (uintmax_t)needed, (uintmax_t)limit.rlim_max);
    }
    limit.rlim_cur = needed;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0
               ? BASE_OK
               : base_fail_errno(reterr, errno, "cannot raise ulimit -n to %ju", (uintmax_t)needed);
}
