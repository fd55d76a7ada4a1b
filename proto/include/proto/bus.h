/* The bus: one framed Envelope over one ZeroMQ socket, encrypted with CURVE.
 *
 * The launcher listens (ROUTER), and a rank connects (DEALER). In the same way the head listens for
 * the launchers of other hosts. What is said here of ranks holds for them, too. Each rank has a key pair of its own,
 * and the launcher admits exactly the ranks' public keys. The key of a connection decides which
 * rank a message is from, whatever the message says. So one rank cannot pose as another, and a
 * process without a key cannot connect. Connections that are no rank's yet are bounded
 * (PROTO_PENDING_EXTRA_MAX), so that they do not use up the descriptors.
 *
 * Nothing blocks: send and recv return at once. Poll proto_bus_polls. When one is ready,
 * and after every send, take messages and events until there are none, because the descriptors
 * report changes, not states. A connection that breaks is an event, and is not made again.
 *
 * A bus, with its I/O thread and its access-check thread, belongs to one thread of the caller. */
#ifndef PROTO_BUS_H
#define PROTO_BUS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ports.h"
#include "base/status.h"
#include "proto/envelope.h"
#include "proto/key.h"
#include "proto/limits.h"

struct ProtobufCMessage;

typedef struct proto_bus proto_bus;

enum {
    PROTO_BUS_FDS = 2,
    PROTO_NO_RANK = -1,
};

typedef struct proto_bus_listen_options {
    const char *address; /* numeric: "127.0.0.1", "fd00::1"; "*": all of this host's */
    int port;            /* 0: one of `ports` */
    base_ports ports;
    const proto_keypair *keys;
    int world_size;
    const uint8_t (*rank_public_keys)[PROTO_KEY_BYTES]; /* (world_size), copied */
    bool agents; /* the head listens for launchers of other hosts: world_size counts nodes */
} proto_bus_listen_options;

/* How an agent connects to the head. */
typedef struct proto_bus_agent_options {
    const char *endpoint; /* numeric: "tcp://10.0.0.1:29400" */
    const proto_keypair *keys;
    const uint8_t *head_public_key;
    int nodes;
} proto_bus_agent_options;

BASE_MUST_CHECK base_status proto_bus_listen(const proto_bus_listen_options *options,
                                             proto_bus **bus, base_error *reterr);

/* Starts to connect to key->endpoint. An event tells the result. */
BASE_MUST_CHECK base_status proto_bus_connect(const proto_key_file *key, int world_size,
                                              proto_bus **bus, base_error *reterr);

BASE_MUST_CHECK base_status proto_bus_connect_head(const proto_bus_agent_options *options,
                                                   proto_bus **bus, base_error *reterr);

/* Waits up to PROTO_LINGER_MS for queued messages to leave. NULL is fine. */
void proto_bus_close(proto_bus *bus);

/* The bound endpoint with its port: "tcp://127.0.0.1:40123". */
const char *proto_bus_endpoint(const proto_bus *bus);

/* What to poll. NULL is fine: nothing. */
void proto_bus_polls(const proto_bus *bus, struct pollfd polls[PROTO_BUS_FDS]);

/* Sends an envelope with this body to a rank (launcher), or to the launcher (rank; pass
 * PROTO_NO_RANK). BASE_ERR_PEER if that rank has not joined or has gone, BASE_ERR_BUSY if its queue
 * is full. */
BASE_MUST_CHECK base_status proto_bus_send(proto_bus *bus, int rank, struct ProtobufCMessage *body,
                                           base_error *reterr);

/* The same with a packed envelope. */
BASE_MUST_CHECK base_status proto_bus_send_packed(proto_bus *bus, int rank, const void *data,
                                                  size_t size_bytes, base_error *reterr);

/* Takes the next message, and checks it. *envelope is NULL if there is none, and lives until the
 * next call. *rank is the sender (launcher side), also if BASE_ERR_INVALID refuses the message.
 * BASE_ERR_BUSY: a second connection with that rank's key, which proto_bus_answer_second may
 * answer. */
BASE_MUST_CHECK base_status proto_bus_recv(proto_bus *bus, int *rank,
                                           struct Ringfence__Control__Envelope **envelope,
                                           base_error *reterr);

/* Sends to the connection that BASE_ERR_BUSY was about. */
BASE_MUST_CHECK base_status proto_bus_answer_second(proto_bus *bus, struct ProtobufCMessage *body,
                                                    base_error *reterr);

/* Lets the next connection with the rank's key take the place of the one that has ended. */
void proto_bus_forget(proto_bus *bus, int rank);

typedef enum proto_bus_event_kind {
    PROTO_BUS_CONNECTED = 1,    /* handshake done (rank side) */
    PROTO_BUS_REFUSED = 2,      /* handshake failed: a wrong key, or not our protocol */
    PROTO_BUS_UNREACHABLE = 3,  /* nobody listens there (rank side) */
    PROTO_BUS_DISCONNECTED = 4, /* an established connection has ended */
    PROTO_BUS_ACCEPTED = 5,     /* from proto_monitor_next alone: a connection has begun */
    PROTO_BUS_CUT = 6, /* the other side has ended it during the handshake, without a word */
} proto_bus_event_kind;

typedef struct proto_bus_event {
    proto_bus_event_kind kind;
    int rank; /* launcher side: the rank whose connection it was, if known; else PROTO_NO_RANK */
} proto_bus_event;

/* Takes the next event. False if there is none. Then, of the connections that are no rank's, the
 * oldest are closed if there are too many. */
bool proto_bus_next_event(proto_bus *bus, proto_bus_event *event);

#endif
