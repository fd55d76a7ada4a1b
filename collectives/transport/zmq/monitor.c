/* Reads the connection events of a zmq socket, and sets options on its descriptor. Called by zmq's
 * links.c. */
#include "transport/zmq/monitor.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

#include "transport/socket/options.h"

enum {
    ENDPOINT_BYTES = 32,
    SEND_BUFFER_BYTES = 512 * 1024, /* the system doubles it */
};

/* An event's first frame; the second is an address. */
typedef struct event {
    uint16_t kind;
    uint32_t value;
} event;

coll_status coll_zmq_monitor_open(void *zmq, void *socket, int number, void **monitor,
                                  coll_error *reterr)
{
    const int none = 0;
    const int events = ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED |
                       ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED;
    char endpoint[ENDPOINT_BYTES];
    (void)snprintf(endpoint, sizeof endpoint, "inproc://monitor-%d", number);
    *monitor = zmq_socket(zmq, ZMQ_PAIR);
    if (*monitor == NULL || zmq_setsockopt(*monitor, ZMQ_LINGER, &none, sizeof none) != 0 ||
        zmq_socket_monitor(socket, endpoint, events) != 0 || zmq_connect(*monitor, endpoint) != 0) {
        return coll_fail(reterr, COLL_ERR_IO, "cannot watch a socket: %s",
                         zmq_strerror(zmq_errno()));
    }
    return COLL_OK;
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) {
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    }
    return address->ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)address)->sin_port)
                                         : 0;
}

static bool has_port(int fd, uint16_t port)
{
    struct sockaddr_storage near = {.ss_family = AF_UNSPEC};
    struct sockaddr_storage far = {.ss_family = AF_UNSPEC};
    socklen_t near_bytes = sizeof near;
    socklen_t far_bytes = sizeof far;
    return port != 0 && getsockname(fd, (struct sockaddr *)&near, &near_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&far, &far_bytes) == 0 &&
           (port_of(&near) == port || port_of(&far) == port);
}

/* On a short path a socket holds little back: what waits in it is sent by whichever processor the
 * next acknowledgement comes to, and overtakes what ZeroMQ's thread sends from its own. Congestion
 * control takes that for loss (16 MiB took twice as long). */
static void set_connection(int fd, int64_t host_timeout_ns)
{
    const int bytes = SEND_BUFFER_BYTES;
    coll_tcp_options_fresh(fd, host_timeout_ns);
    if (coll_tcp_options_met(fd)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
}

/* One event; false if there is none. */
static bool take(void *monitor, event *taken)
{
    zmq_msg_t message;
    int more = 1;
    *taken = (event){.kind = 0};
    for (int frame = 0; more != 0; frame++) {
        (void)zmq_msg_init(&message);
        if (zmq_msg_recv(&message, monitor, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&message);
            return false;
        }
        if (frame == 0 && zmq_msg_size(&message) >= sizeof taken->kind + sizeof taken->value) {
            const uint8_t *data = zmq_msg_data(&message);
            memcpy(&taken->kind, data, sizeof taken->kind);
            memcpy(&taken->value, data + sizeof taken->kind, sizeof taken->value);
        }
        more = zmq_msg_more(&message);
        (void)zmq_msg_close(&message);
    }
    return true;
}

bool coll_zmq_monitor_read(void *monitor, uint16_t port, int64_t host_timeout_ns, int *fd)
{
    bool ended = false;
    event taken;
    while (take(monitor, &taken)) {
        const int reported = (int)taken.value;
        if (taken.kind == ZMQ_EVENT_LISTENING) {
            coll_tcp_options_fresh(reported,
                                   host_timeout_ns); /* accepted ones have theirs from it */
        } else if (taken.kind == ZMQ_EVENT_DISCONNECTED ||
                   taken.kind == ZMQ_EVENT_CONNECT_RETRIED) { /* which is as good as never */
            ended = true;
        } else if (has_port(reported, port)) {
            set_connection(reported, host_timeout_ns);
            *fd = *fd == COLL_ZMQ_FD_NONE ? reported : COLL_ZMQ_FD_SEVERAL;
        }
    }
    return ended;
}
