/* Looks whether enough file descriptors are left for ZeroMQ. Called by links.c before it starts. */
#include "transport/zmq/descriptors.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "ringfence/coll_error.h"

enum {
    CONTEXT_COUNT = 7, /* two threads, their mailboxes, ZAP's, and the eventfd of links.h */
    PEER_COUNT = 5,    /* a socket's mailbox, listener and connection; a monitor's two mailboxes */
    SPARE_COUNT = 4,   /* for short: name look-ups, the random generator, a stranger's connection */
};

/* How many are open; 0: not known. */
static uint64_t count_open(void)
{
    enum { NOT_OPEN_COUNT = 3 }; /* ".", "..", and the one that is read through */
    uint64_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        return 0;
    }
    while (readdir(directory) != NULL) { /* NOLINT(concurrency-mt-unsafe): its own directory */
        count++;
    }
    (void)closedir(directory);
    return count > NOT_OPEN_COUNT ? count - NOT_OPEN_COUNT : 0;
}

coll_status coll_zmq_descriptors_check(int ranks, coll_error *reterr)
{
    struct rlimit limit;
    const uint64_t needed =
        CONTEXT_COUNT + PEER_COUNT * (uint64_t)(ranks - 1) + (ranks > 1 ? SPARE_COUNT : 0);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return COLL_OK;
    }
    const uint64_t open = count_open();
    return limit.rlim_cur >= open + needed
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_IO,
                           "zmq needs %" PRIu64 " file descriptors for %d ranks: %" PRIu64
                           " are open, and the limit is %" PRIu64 " (ulimit -n)",
                           needed, ranks, open, (uint64_t)limit.rlim_cur);
}
