/* Tracks the connections of one endpoint by its monitor events, and closes them when memory grows.
 * Called by sockets.c and batch.c. */
#include "connections.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/socket.h"

enum { EVENT_BYTES = 6, ENDPOINT_BYTES = 256 };

base_status service_connections_open(service_connections *connections, void *context, void *socket,
                                     base_error *reterr)
{
    const proto_socket_options options = {.kind = PROTO_SOCKET_MONITOR, .message_bytes_max = -1};
    char address[64];
    void *monitor = NULL;
    *connections = (service_connections){.socket = socket};
    (void)snprintf(address, sizeof address, "inproc://connections-%" PRIxPTR, (uintptr_t)socket);
    const base_status status = proto_socket_open(context, &options, &monitor, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (zmq_socket_monitor(socket, address, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) != 0 ||
        zmq_connect(monitor, address) != 0) {
        (void)zmq_close(monitor);
        return proto_zmq_fail(reterr, "cannot watch a socket's connections");
    }
    connections->monitor = monitor;
    return BASE_OK;
}

void service_connections_close(service_connections *connections)
{
    if (connections->monitor != NULL) {
        (void)zmq_socket_monitor(connections->socket, NULL, 0);
        (void)zmq_close(connections->monitor);
        connections->monitor = NULL;
    }
}

static void forget(service_connections *connections, int i)
{
    connections->count--;
    memmove(&connections->list[i], &connections->list[i + 1],
            (size_t)(connections->count - i) * sizeof connections->list[0]);
}

static void came(service_connections *connections, int fd)
{
    int silent = 0;
    while (silent < connections->count && connections->list[silent].user[0] != '\0') {
        silent++;
    }
    if (connections->count == SERVICE_CONNECTIONS_MAX && silent < connections->count) {
        (void)shutdown(connections->list[silent].fd, SHUT_RDWR);
        forget(connections, silent);
    }
    if (connections->count == SERVICE_CONNECTIONS_MAX) {
        (void)shutdown(fd, SHUT_RDWR);
        return;
    }
    connections->list[connections->count++] = (service_connection){.fd = fd};
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
        forget(connections, i);
    }
}

bool service_connections_asked(service_connections *connections, int fd, const char *user,
                               int key_max)
{
    int same = 0;
    service_connections_update(connections);
    const int mine = find(connections, fd);
    if (mine < 0 || user == NULL || connections->list[mine].user[0] != '\0') {
        return true;
    }
    for (int i = 0; i < connections->count; i++) {
        same += strcmp(connections->list[i].user, user) == 0 ? 1 : 0;
    }
    if (same >= key_max) {
        (void)shutdown(fd, SHUT_RDWR);
        return false;
    }
    (void)snprintf(connections->list[mine].user, sizeof connections->list[mine].user, "%s", user);
    return true;
}

void service_connections_update(service_connections *connections)
{
    for (;;) {
        uint8_t event_frame[EVENT_BYTES];
        char endpoint[ENDPOINT_BYTES];
        uint16_t event = 0;
        int32_t fd = -1;
        int got = -1;
        do {
            got = zmq_recv(connections->monitor, event_frame, sizeof event_frame, ZMQ_DONTWAIT);
        } while (got < 0 && zmq_errno() == EINTR);
        if (got < 0) {
            return;
        }
        (void)zmq_recv(connections->monitor, endpoint, sizeof endpoint, 0);
        if (got != EVENT_BYTES) {
            continue;
        }
        memcpy(&event, event_frame, sizeof event);
        memcpy(&fd, event_frame + sizeof event, sizeof fd);
        if (event == ZMQ_EVENT_ACCEPTED) {
            came(connections, fd);
        } else {
            went(connections, fd);
        }
    }
}

void service_connections_end(service_connections *connections, int fd)
{
    if (find(connections, fd) >= 0) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}

void service_connections_end_all(service_connections *connections)
{
    for (int i = 0; i < connections->count; i++) {
        (void)shutdown(connections->list[i].fd, SHUT_RDWR);
    }
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
