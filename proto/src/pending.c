/* Bounds the connections to a listening socket that nobody has used with a key. Called by
 * connections.c for a job's sockets, and by budget-service for its own. */
#include "proto/pending.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/grow.h"

enum { CAPACITY_AT_FIRST = 64 };

void proto_pending_fini(proto_pending *pending)
{
    free(pending->fds);
    *pending = (proto_pending){.fds = NULL};
}

void proto_pending_add(proto_pending *pending, int fd)
{
    int *grown = base_grow(pending->fds, (size_t)pending->count, &pending->capacity,
                           CAPACITY_AT_FIRST, sizeof *grown);
    if (grown == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
        return;
    }
    pending->fds = grown;
    pending->fds[pending->count++] = fd;
}

static void drop(proto_pending *pending, int first, int count)
{
    pending->count -= count;
    memmove(&pending->fds[first], &pending->fds[first + count],
            (size_t)(pending->count - first) * sizeof pending->fds[0]);
}

bool proto_pending_remove(proto_pending *pending, int fd)
{
    for (int i = 0; i < pending->count; i++) {
        if (pending->fds[i] == fd) {
            drop(pending, i, 1);
            return true;
        }
    }
    return false;
}

void proto_pending_limit(proto_pending *pending, int count_max)
{
    const int surplus = pending->count - count_max;
    for (int i = 0; i < surplus; i++) {
        (void)shutdown(pending->fds[i], SHUT_RDWR);
    }
    if (surplus > 0) {
        drop(pending, 0, surplus);
    }
}
