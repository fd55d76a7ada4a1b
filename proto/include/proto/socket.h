/* ZeroMQ sockets with every option set in one place. This header needs no ZeroMQ header: sockets
 * and contexts are void pointers. */
#ifndef PROTO_SOCKET_H
#define PROTO_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/key.h"

struct zmq_msg_t;

typedef enum proto_socket_kind {
    PROTO_SOCKET_LISTEN,  /* ROUTER, CURVE server: a job's launcher */
    PROTO_SOCKET_CONNECT, /* DEALER, CURVE client: a rank */
    PROTO_SOCKET_MONITOR, /* PAIR, inside the process */
    PROTO_SOCKET_ZAP,     /* REP, inside the process */
    PROTO_SOCKET_SERVE,   /* ROUTER, CURVE server: a service that outlives its clients */
    PROTO_SOCKET_ASK,     /* DEALER, CURVE client: one request at a time */
} proto_socket_kind;

typedef struct proto_socket_options {
    proto_socket_kind kind;
    int64_t message_bytes_max; /* a larger message closes the connection */
    const proto_keypair *keys; /* of this side; NULL inside the process */
    const uint8_t *server_key; /* CONNECT, ASK: the other side's public key */
    const char *zap_domain;    /* LISTEN, SERVE: named in each access check; not empty */
    bool ipv6;                 /* its address is one of IPv6 */
} proto_socket_options;

/* Makes a socket with all its options; the caller closes it. */
BASE_MUST_CHECK base_status proto_socket_open(void *context, const proto_socket_options *options,
                                              void **socket, base_error *reterr);

/* Makes a context for few sockets, with one I/O thread. */
BASE_MUST_CHECK base_status proto_socket_context(void **context, base_error *reterr);

/* zmq_send and zmq_msg_recv, repeated after a signal (a debugger, SIGCONT). With ZMQ_DONTWAIT
 * neither blocks. Negative: zmq_errno has the reason. */
int proto_zmq_send(void *socket, const void *data, size_t size_bytes, int flags);
int proto_zmq_recv(void *socket, struct zmq_msg_t *message, int flags);

/* Takes one whole message, if one waits. Its first frames go into `frames`, which are initialised and
 * stay the caller's to close; those beyond `kept` are dropped. *count: how many frames there were;
 * 0: no message waits. BASE_ERR_IO: "what: …". */
BASE_MUST_CHECK base_status proto_zmq_take(void *socket, struct zmq_msg_t *frames, int kept,
                                           int *count, const char *what, base_error *reterr);

/* base_fail with ZeroMQ's error text. */
base_status proto_zmq_fail(base_error *reterr, const char *what);

#endif
