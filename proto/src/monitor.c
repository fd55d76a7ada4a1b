/* Connection events of a ZeroMQ socket, read from its monitor socket. Used by bus.c and by the
 * budget client's link.c to notice a lost peer or a failed handshake. */
#include "proto/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "proto/socket.h"

enum { EVENT_FRAME_BYTES = 6, ENDPOINT_FRAME_BYTES = 256 };

base_status proto_monitor_start(void *context, void *socket, void **monitor, base_error *reterr)
{
    const proto_socket_options options = {.kind = PROTO_SOCKET_MONITOR, .message_bytes_max = -1};
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED;
    char address[64];
    void *made = NULL;
    (void)snprintf(address, sizeof address, "inproc://monitor-%" PRIxPTR, (uintptr_t)socket);
    const base_status status = proto_socket_open(context, &options, &made, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (zmq_socket_monitor(socket, address, events) != 0 || zmq_connect(made, address) != 0) {
        (void)zmq_close(made);
        return proto_zmq_fail(reterr, "cannot watch a ZeroMQ socket");
    }
    *monitor = made;
    return BASE_OK;
}

void proto_monitor_stop(void *socket)
{
    (void)zmq_socket_monitor(socket, NULL, 0);
}

static bool event_kind(unsigned event, proto_bus_event_kind *kind)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        *kind = PROTO_BUS_CONNECTED;
        return true;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        *kind = PROTO_BUS_CUT;
        return true;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        *kind = PROTO_BUS_REFUSED;
        return true;
    case ZMQ_EVENT_CLOSED:
        *kind = PROTO_BUS_UNREACHABLE;
        return true;
    case ZMQ_EVENT_ACCEPTED:
        *kind = PROTO_BUS_ACCEPTED;
        return true;
    case ZMQ_EVENT_DISCONNECTED:
        *kind = PROTO_BUS_DISCONNECTED;
        return true;
    default:
        return false;
    }
}

bool proto_monitor_next(void *monitor, proto_bus_event_kind *kind, int *fd)
{
    for (;;) {
        uint8_t event_frame[EVENT_FRAME_BYTES];
        char endpoint_frame[ENDPOINT_FRAME_BYTES];
        uint16_t event = 0;
        int32_t value = -1;
        int got = -1;
        do {
            got = zmq_recv(monitor, event_frame, sizeof event_frame, 0);
        } while (got < 0 && zmq_errno() == EINTR);
        if (got < 0) {
            return false;
        }
        (void)zmq_recv(monitor, endpoint_frame, sizeof endpoint_frame, 0);
        if (got != EVENT_FRAME_BYTES) {
            continue;
        }
        memcpy(&event, event_frame, sizeof event);
        memcpy(&value, event_frame + sizeof event, sizeof value);
        if (event_kind(event, kind)) {
            *fd = *kind == PROTO_BUS_REFUSED || *kind == PROTO_BUS_CUT ? -1 : value;
            return true;
        }
    }
}
