/* Finds out whether ranks that have not connected still can. Called by what connects the ranks of a
 * context over shared memory (fdpass_open.c) and TCP (links.c). */
#include "core/missing.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/text.h"
#include "ringfence/coll_error.h"

/* False also where the system does not say, as under a seccomp filter without pidfd_open. A process
 * that nobody has waited for yet has ended. */
static bool has_ended(const coll_identity *identity)
{
    const int fd = (int)syscall(SYS_pidfd_open, (pid_t)identity->pid, 0);
    struct pollfd item = {.fd = fd, .events = POLLIN};
    if (fd < 0) {
        return errno == ESRCH;
    }
    const bool ended = poll(&item, 1, 0) > 0;
    (void)close(fd);
    return ended;
}

static bool has_hung_up(int sock)
{
    struct pollfd item = {.fd = sock, .events = POLLRDHUP};
    return sock >= 0 && poll(&item, 1, 0) > 0;
}

coll_status coll_missing_blame(const coll_context *context, uint64_t missing, coll_status status,
                               coll_error *reterr)
{
    char text[400];
    coll_context_list_ranks(context, missing, NULL, text, sizeof text);
    return coll_error_prepend(reterr, status, "waiting for %s to connect", text);
}

/* The first of `missing` that has ended, or of socks that has hung up; -1. */
static int find_gone(const coll_context *context, uint64_t missing, const int *socks)
{
    for (int rank = 0; rank < context->size; rank++) {
        /* Of another host, or PID namespace, the number says nothing here. */
        if ((missing >> rank & 1) != 0 && coll_context_is_here(context, rank) &&
            has_ended(&context->identities[rank])) {
            return rank;
        }
    }
    int rank = context->size - 1;
    while (rank >= 0 && !has_hung_up(socks[rank])) {
        rank--;
    }
    return rank;
}

coll_status coll_missing_check(const coll_context *context, uint64_t missing,
                               const int socks[COLL_RANKS_MAX], coll_error *reterr)
{
    char name[160];
    const int gone = find_gone(context, missing, socks);
    if (gone < 0) {
        return COLL_OK;
    }
    coll_context_rank_text(context, gone, name, sizeof name);
    return coll_missing_blame(context, missing,
                              coll_fail(reterr, COLL_ERR_PEER, "%s has gone", name), reterr);
}
