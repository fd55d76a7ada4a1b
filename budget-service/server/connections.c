/* Tracks the connections of one endpoint by its monitor events, and closes them when memory grows.
 * Called by sockets.c and batch.c. */
#include "connections.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "base/assert.h"
#include "proto/monitor.h"

base_status service_connections_open(service_connections *connections, void *context, void *socket,
                                     base_error *reterr)
{
    *connections = (service_connections){.socket = socket};
    return proto_monitor_start(context, socket, &connections->monitor, reterr);
}

void service_connections_close(service_connections *connections)
{
    if (connections->monitor != NULL) {
        proto_monitor_stop(connections->socket);
        (void)zmq_close(connections->monitor);
        connections->monitor = NULL;
    }
    proto_pending_fini(&connections->silent);
}

static int find(const service_connections *connections, int fd)
{
    int i = 0;
    while (i < connections->count && connections->list[i].fd != fd) {
        i++;
    }
    return i < connections->count ? i : -1;
}

static void went(service_connections *connections, int fd)
{
    const int i = find(connections, fd);
    if (i >= 0) {
        connections->list[i] = connections->list[--connections->count];
    }
    (void)proto_pending_remove(&connections->silent, fd);
}

bool service_connections_asked(service_connections *connections, int fd, const char *user,
                               int key_max)
{
    int same = 0;
    service_connections_update(connections);
    if (user == NULL || !proto_pending_remove(&connections->silent, fd)) {
        return true;
    }
    for (int i = 0; i < connections->count; i++) {
        same += strcmp(connections->list[i].user, user) == 0 ? 1 : 0;
    }
    if (same >= key_max) {
        (void)shutdown(fd, SHUT_RDWR);
        return false;
    }
    BASE_ASSERT(connections->count < SERVICE_CONNECTIONS_MAX); /* it was among the silent ones */
    service_connection *mine = &connections->list[connections->count++];
    mine->fd = fd;
    (void)snprintf(mine->user, sizeof mine->user, "%s", user);
    return true;
}

int service_connections_count(const service_connections *connections)
{
    return connections->count + connections->silent.count;
}

void service_connections_update(service_connections *connections)
{
    proto_bus_event_kind kind = 0;
    int fd = -1;
    while (proto_monitor_next(connections->monitor, &kind, &fd)) {
        if (kind == PROTO_BUS_ACCEPTED) {
            proto_pending_add(&connections->silent, fd);
        } else if (kind == PROTO_BUS_DISCONNECTED) {
            went(connections, fd);
        }
    }
    proto_pending_limit(&connections->silent, SERVICE_CONNECTIONS_MAX - connections->count);
}

void service_connections_end(service_connections *connections, int fd)
{
    if (find(connections, fd) >= 0 || proto_pending_remove(&connections->silent, fd)) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}

void service_connections_end_all(service_connections *connections)
{
    for (int i = 0; i < connections->count; i++) {
        (void)shutdown(connections->list[i].fd, SHUT_RDWR);
    }
    proto_pending_limit(&connections->silent, 0);
}

static size_t resident_bytes(void)
{
    char text[64] = "";
    unsigned long resident_pages = 0;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return SIZE_MAX;
    }
    const ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *second = got > 0 ? strchr(text, ' ') : NULL;
    if (second != NULL) {
        resident_pages = strtoul(second, NULL, 10);
    }
    return resident_pages * (size_t)sysconf(_SC_PAGESIZE);
}

size_t service_memory_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    const size_t given_bytes = info.uordblks + info.hblkhd;
    const size_t touched_bytes = resident_bytes();
    return given_bytes < touched_bytes ? given_bytes : touched_bytes;
}
