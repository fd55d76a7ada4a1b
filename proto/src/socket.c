/* Opens ZeroMQ contexts and sockets with every option set from one table, and sends and receives
 * single frames. All ZeroMQ code outside collectives/ opens its sockets here. */
#include "proto/socket.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <zmq.h>

#include "proto/limits.h"

enum { CONTEXT_SOCKETS_MAX = 32 };

/* The library has this option, but its header names it only with drafts. */
#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#endif

#define KIND(name) (1u << PROTO_SOCKET_##name)

enum {
    JOB = KIND(LISTEN) | KIND(CONNECT),
    SERVICE = KIND(SERVE) | KIND(ASK),
    INSIDE = KIND(MONITOR) | KIND(ZAP),
    SERVER = KIND(LISTEN) | KIND(SERVE),
    ANY = JOB | SERVICE | INSIDE,
};

typedef struct int_option {
    unsigned kinds;
    int option;
    int value;
    const char *name;
} int_option;

#define INT_OPTION(kinds, option, value)                                                           \
    {                                                                                              \
        kinds, option, value, #option                                                              \
    }

/* In a job, heartbeats are off. A rank's death shows in its pidfd, and the launcher's in the
 * lifeline. A job that a debugger or Ctrl-Z has stopped must be able to continue. A service knows
 * its clients only by their connections. So there both sides send heartbeats. Nobody reconnects (for
 * 24 days): a rank whose connection broke has failed, and a client that asks again makes a new
 * socket. ZeroMQ's own way to say so, -1, drops messages that came before the connection ended. */
static const int_option int_options[] = {
    INT_OPTION(JOB | INSIDE, ZMQ_SNDHWM, PROTO_SEND_MESSAGES_MAX),
    INT_OPTION(JOB | INSIDE, ZMQ_RCVHWM, PROTO_RECV_MESSAGES_MAX),
    INT_OPTION(SERVICE, ZMQ_SNDHWM, PROTO_SERVICE_MESSAGES_MAX),
    INT_OPTION(SERVICE, ZMQ_RCVHWM, PROTO_SERVICE_MESSAGES_MAX),
    INT_OPTION(ANY, ZMQ_SNDTIMEO, 0),
    INT_OPTION(ANY & ~KIND(ZAP), ZMQ_RCVTIMEO, 0),
    INT_OPTION(KIND(ZAP), ZMQ_RCVTIMEO, -1), /* its context ends it */
    INT_OPTION(JOB | KIND(SERVE), ZMQ_LINGER, PROTO_LINGER_MS),
    INT_OPTION(INSIDE | KIND(ASK), ZMQ_LINGER, 0),
    INT_OPTION(ANY, ZMQ_IPV6, 0),
    INT_OPTION(ANY & ~KIND(ASK), ZMQ_IMMEDIATE, 0),
    INT_OPTION(KIND(ASK), ZMQ_IMMEDIATE, 1), /* sends only after the handshake */
    INT_OPTION(ANY, ZMQ_BACKLOG, PROTO_BACKLOG),
    INT_OPTION(ANY, ZMQ_HANDSHAKE_IVL, PROTO_HANDSHAKE_MS),
    INT_OPTION(ANY, ZMQ_CONNECT_TIMEOUT, PROTO_HANDSHAKE_MS),
    INT_OPTION(JOB | INSIDE, ZMQ_HEARTBEAT_IVL, 0),
    INT_OPTION(JOB | INSIDE, ZMQ_HEARTBEAT_TTL, 0),
    INT_OPTION(SERVICE, ZMQ_HEARTBEAT_IVL, PROTO_SERVICE_HEARTBEAT_MS),
    INT_OPTION(SERVICE, ZMQ_HEARTBEAT_TIMEOUT, PROTO_SERVICE_SILENCE_MS),
    INT_OPTION(SERVICE, ZMQ_HEARTBEAT_TTL, PROTO_SERVICE_SILENCE_MS),
    INT_OPTION(ANY, ZMQ_RECONNECT_IVL, INT32_MAX),
    INT_OPTION(ANY, ZMQ_RECONNECT_IVL_MAX, 0),
    INT_OPTION(ANY, ZMQ_TCP_KEEPALIVE, 1),
    INT_OPTION(SERVER, ZMQ_ROUTER_MANDATORY, 1),
    INT_OPTION(SERVER, ZMQ_ROUTER_HANDOVER, 0),
    INT_OPTION(SERVER, ZMQ_ZAP_ENFORCE_DOMAIN, 1),
    INT_OPTION(SERVER, ZMQ_CURVE_SERVER, 1),
};

base_status proto_zmq_fail(base_error *reterr, const char *what)
{
    return base_fail(reterr, BASE_ERR_IO, "%s: %s", what, zmq_strerror(zmq_errno()));
}

int proto_zmq_send(void *socket, const void *data, size_t size_bytes, int flags)
{
    int sent = -1;
    do {
        sent = zmq_send(socket, data, size_bytes, flags);
    } while (sent < 0 && zmq_errno() == EINTR);
    return sent;
}

int proto_zmq_recv(void *socket, struct zmq_msg_t *message, int flags)
{
    int got = -1;
    do {
        got = zmq_msg_recv(message, socket, flags);
    } while (got < 0 && zmq_errno() == EINTR);
    return got;
}

base_status proto_zmq_take(void *socket, struct zmq_msg_t *frames, int kept, int *count,
                           const char *what, base_error *reterr)
{
    bool more = true;
    *count = 0;
    while (more) {
        zmq_msg_t frame;
        (void)zmq_msg_init(&frame);
        if (proto_zmq_recv(socket, &frame, ZMQ_DONTWAIT) < 0) {
            const int code = zmq_errno();
            (void)zmq_msg_close(&frame);
            return *count == 0 && code == EAGAIN ? BASE_OK : proto_zmq_fail(reterr, what);
        }
        more = zmq_msg_more(&frame) != 0;
        if (*count < kept) {
            (void)zmq_msg_move(&frames[*count], &frame);
        }
        (void)zmq_msg_close(&frame);
        *count += 1;
    }
    return BASE_OK;
}

base_status proto_socket_context(void **context, base_error *reterr)
{
    void *made = zmq_ctx_new();
    if (made == NULL || zmq_ctx_set(made, ZMQ_IO_THREADS, 1) != 0 ||
        zmq_ctx_set(made, ZMQ_MAX_SOCKETS, CONTEXT_SOCKETS_MAX) != 0 ||
        zmq_ctx_set(made, ZMQ_IPV6, 0) != 0) {
        const base_status status = proto_zmq_fail(reterr, "cannot make a ZeroMQ context");
        if (made != NULL) {
            (void)zmq_ctx_term(made);
        }
        return status;
    }
    *context = made;
    return BASE_OK;
}

static base_status set_option(void *socket, int option, const void *value, size_t value_bytes,
                              base_error *reterr)
{
    return zmq_setsockopt(socket, option, value, value_bytes) == 0
               ? BASE_OK
               : proto_zmq_fail(reterr, "cannot set a ZeroMQ option");
}

static base_status set_int_options(void *socket, proto_socket_kind kind, base_error *reterr)
{
    for (size_t i = 0; i < sizeof int_options / sizeof int_options[0]; i++) {
        const int_option *entry = &int_options[i];
        if ((entry->kinds & (1u << kind)) == 0) {
            continue;
        }
        const base_status status =
            set_option(socket, entry->option, &entry->value, sizeof entry->value, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s", entry->name);
        }
    }
    return BASE_OK;
}

static base_status set_curve(void *socket, const proto_socket_options *options, base_error *reterr)
{
    base_status status = BASE_OK;
    if (options->keys == NULL) {
        return BASE_OK;
    }
    if (options->server_key != NULL) {
        status =
            set_option(socket, ZMQ_CURVE_SERVERKEY, options->server_key, PROTO_KEY_BYTES, reterr);
    } else {
        status = set_option(socket, ZMQ_ZAP_DOMAIN, options->zap_domain,
                            strlen(options->zap_domain), reterr);
    }
    if (status == BASE_OK) {
        status = set_option(socket, ZMQ_CURVE_PUBLICKEY, options->keys->public_key, PROTO_KEY_BYTES,
                            reterr);
    }
    if (status == BASE_OK) {
        status = set_option(socket, ZMQ_CURVE_SECRETKEY, options->keys->secret_key, PROTO_KEY_BYTES,
                            reterr);
    }
    return status;
}

base_status proto_socket_open(void *context, const proto_socket_options *options, void **socket,
                              base_error *reterr)
{
    static const int types[] = {
        [PROTO_SOCKET_LISTEN] = ZMQ_ROUTER, [PROTO_SOCKET_CONNECT] = ZMQ_DEALER,
        [PROTO_SOCKET_MONITOR] = ZMQ_PAIR,  [PROTO_SOCKET_ZAP] = ZMQ_REP,
        [PROTO_SOCKET_SERVE] = ZMQ_ROUTER,  [PROTO_SOCKET_ASK] = ZMQ_DEALER,
    };
    void *made = zmq_socket(context, types[options->kind]);
    if (made == NULL) {
        return proto_zmq_fail(reterr, "cannot make a ZeroMQ socket");
    }
    base_status status = set_int_options(made, options->kind, reterr);
    if (status == BASE_OK) {
        status = set_option(made, ZMQ_MAXMSGSIZE, &options->message_bytes_max,
                            sizeof options->message_bytes_max, reterr);
    }
    if (status == BASE_OK && options->ipv6) {
        const int on = 1;
        status = set_option(made, ZMQ_IPV6, &on, sizeof on, reterr);
    }
    if (status == BASE_OK) {
        status = set_curve(made, options, reterr);
    }
    if (status != BASE_OK) {
        (void)zmq_close(made);
        return status;
    }
    *socket = made;
    return BASE_OK;
}
