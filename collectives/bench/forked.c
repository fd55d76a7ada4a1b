/* Forks ranks and gives them an exchange over socket pairs. Called by run.c, by rank.c in each
 * child, and by tests that need real processes. */
#include "forked.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ringfence/coll_error.h"

/* Moves all of data over a link, in the direction of `events` (POLLIN or POLLOUT). */
static coll_status move(int link, short events, void *data, size_t size_bytes, int64_t deadline_ns,
                        coll_error *reterr)
{
    for (size_t done = 0; done < size_bytes;) {
        struct pollfd item = {.fd = link, .events = events};
        if (poll(&item, 1, base_deadline_poll_ms(deadline_ns, 100)) <= 0) {
            if (base_now_ns() >= deadline_ns) {
                return coll_fail(reterr, COLL_ERR_TIMEOUT, "the exchange timed out");
            }
            continue;
        }
        uint8_t *at = (uint8_t *)data + done;
        const ssize_t moved = events == POLLIN ? recv(link, at, size_bytes - done, 0)
                                               : send(link, at, size_bytes - done, MSG_NOSIGNAL);
        if (moved == 0 || (moved < 0 && errno != EINTR && errno != EAGAIN)) {
            return coll_fail(reterr, COLL_ERR_PEER, "a rank left during the exchange");
        }
        done += moved > 0 ? (size_t)moved : 0;
    }
    return COLL_OK;
}

coll_status forked_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    const forked_rank *rank = user;
    uint8_t *blocks = all;
    const size_t all_bytes = size_bytes * (size_t)rank->size;
    memcpy(blocks + (size_t)rank->rank * size_bytes, mine, size_bytes);
    if (rank->rank != 0) {
        coll_status status = move(rank->links[0], POLLOUT, blocks + (size_t)rank->rank * size_bytes,
                                  size_bytes, deadline_ns, reterr);
        if (status == COLL_OK) {
            status = move(rank->links[0], POLLIN, blocks, all_bytes, deadline_ns, reterr);
        }
        return status;
    }
    coll_status status = COLL_OK;
    for (int r = 1; status == COLL_OK && r < rank->size; r++) {
        status = move(rank->links[r], POLLIN, blocks + (size_t)r * size_bytes, size_bytes,
                      deadline_ns, reterr);
    }
    for (int r = 1; status == COLL_OK && r < rank->size; r++) {
        status = move(rank->links[r], POLLOUT, blocks, all_bytes, deadline_ns, reterr);
    }
    return status;
}

static void close_links(int (*links)[2], int size)
{
    for (int r = 1; r < size; r++) {
        for (int side = 0; side < 2; side++) {
            if (links[r][side] >= 0) {
                (void)close(links[r][side]);
            }
        }
    }
}

/* In the child: keeps its own links, closes the others. */
static void keep_own_links(forked_rank *self, int (*links)[2])
{
    for (int r = 1; r < self->size; r++) {
        if (self->rank == 0) {
            self->links[r] = links[r][0];
            links[r][0] = -1;
        } else if (self->rank == r) {
            self->links[0] = links[r][1];
            links[r][1] = -1;
        }
    }
    close_links(links, self->size);
}

coll_status forked_start(int size, forked_body body, void *user, pid_t *pids, coll_error *reterr)
{
    int links[FORKED_RANKS_MAX][2];
    coll_status status = COLL_OK;
    memset(links, -1, sizeof links);
    for (int r = 1; r < size && status == COLL_OK; r++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, links[r]) != 0) {
            status = coll_fail_errno(reterr, errno, "cannot make a socket pair");
        }
    }
    const pid_t parent = getpid();
    int started = 0;
    for (; status == COLL_OK && started < size; started++) {
        pids[started] = fork();
        if (pids[started] == 0) {
            forked_rank self = {.rank = started, .size = size};
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(1);
            }
            keep_own_links(&self, links);
            _exit(body(&self, user));
        }
        if (pids[started] < 0) {
            status = coll_fail_errno(reterr, errno, "cannot fork rank %d", started);
            break;
        }
    }
    close_links(links, size);
    for (int r = 0; status != COLL_OK && r < started; r++) {
        (void)kill(pids[r], SIGKILL);
        (void)waitpid(pids[r], NULL, 0);
    }
    return status;
}
