/* Tells which rank's connection an event is about. Called by bus.c for sockets that listen. */
#include "connections.h"

#include <stdlib.h>

#include "base/grow.h"
#include "proto/monitor.h"
#include "proto/pending.h"

enum { NO_FD = -1, KEPT_AT_FIRST = 16 };

typedef struct kept_event {
    proto_bus_event event;
    int fd;
} kept_event;

struct proto_connections {
    void *monitor;
    int world_size;
    int *fds;              /* (world_size) of the ranks' connections */
    proto_pending pending; /* those that have not shown a key yet */
    kept_event *kept;      /* (capacity) events from `first` to `count` that were taken in early */
    size_t capacity;
    int first;
    int count;
};

base_status proto_connections_create(void *monitor, int world_size, proto_connections **connections,
                                     base_error *reterr)
{
    proto_connections *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->monitor = monitor;
        made->world_size = world_size;
        made->fds = calloc((size_t)world_size, sizeof made->fds[0]);
    }
    if (made == NULL || made->fds == NULL) {
        free(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for connections");
    }
    for (int rank = 0; rank < world_size; rank++) {
        made->fds[rank] = NO_FD;
    }
    *connections = made;
    return BASE_OK;
}

void proto_connections_destroy(proto_connections *connections)
{
    if (connections != NULL) {
        free(connections->fds);
        proto_pending_fini(&connections->pending);
        free(connections->kept);
        free(connections);
    }
}

void proto_connections_forget(proto_connections *connections, int rank)
{
    connections->fds[rank] = NO_FD;
    for (int i = connections->first; i < connections->count; i++) {
        if (connections->kept[i].event.rank == rank) {
            connections->kept[i].event.rank = PROTO_NO_RANK;
        }
    }
}

/* Reads the next event, and finds its rank by the connections as they are now. */
static bool read_event(proto_connections *connections, kept_event *read)
{
    read->event.rank = PROTO_NO_RANK;
    if (!proto_monitor_next(connections->monitor, &read->event.kind, &read->fd)) {
        return false;
    }
    if (read->event.kind == PROTO_BUS_ACCEPTED) {
        proto_pending_add(&connections->pending, read->fd);
    } else if (read->event.kind == PROTO_BUS_DISCONNECTED ||
               read->event.kind == PROTO_BUS_CONNECTED) { /* it has ended, or has a key */
        (void)proto_pending_remove(&connections->pending, read->fd);
    }
    for (int rank = 0; rank < connections->world_size; rank++) {
        if (read->event.kind == PROTO_BUS_DISCONNECTED && read->fd != NO_FD &&
            connections->fds[rank] == read->fd) {
            read->event.rank = rank;
            connections->fds[rank] = NO_FD;
        }
    }
    return true;
}

static base_status keep(proto_connections *connections, const kept_event *event, base_error *reterr)
{
    kept_event *grown = base_grow(connections->kept, (size_t)connections->count,
                                  &connections->capacity, KEPT_AT_FIRST, sizeof *grown);
    if (grown == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for events of connections");
    }
    connections->kept = grown;
    connections->kept[connections->count++] = *event;
    return BASE_OK;
}

/* Takes in all events that have come. */
static base_status take_in(proto_connections *connections, base_error *reterr)
{
    kept_event event;
    while (read_event(connections, &event)) {
        const base_status status = keep(connections, &event, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

base_status proto_connections_add(proto_connections *connections, int rank, int fd,
                                  base_error *reterr)
{
    const base_status status = take_in(connections, reterr);
    int ended = NO_FD; /* the event of its end, behind that of its beginning */
    for (int i = connections->first; i < connections->count; i++) {
        const kept_event *kept = &connections->kept[i];
        if (kept->fd == fd && kept->event.kind == PROTO_BUS_ACCEPTED) {
            ended = NO_FD;
        } else if (kept->fd == fd && kept->event.kind == PROTO_BUS_DISCONNECTED &&
                   kept->event.rank == PROTO_NO_RANK) {
            ended = i;
        }
    }
    if (ended == NO_FD) {
        connections->fds[rank] = fd;
        (void)proto_pending_remove(&connections->pending, fd);
    } else {
        connections->kept[ended].event.rank = rank;
    }
    return status;
}

bool proto_connections_next(proto_connections *connections, proto_bus_event *event)
{
    kept_event next;
    do {
        if (connections->first < connections->count) {
            next = connections->kept[connections->first++];
        } else {
            connections->first = connections->count = 0;
            if (!read_event(connections, &next)) {
                proto_pending_limit(&connections->pending,
                                    connections->world_size + PROTO_PENDING_EXTRA_MAX);
                return false;
            }
        }
    } while (next.event.kind == PROTO_BUS_ACCEPTED);
    *event = next.event;
    return true;
}
