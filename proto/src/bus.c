/* The encrypted ROUTER/DEALER link between launcher and ranks, and which rank a message came from.
 * Called by the launcher's job loop and by the control thread of a rank (proto/client). */
#include "proto/bus.h"

#include <control.pb-c.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/assert.h"
#include "connections.h"
#include "proto/body.h"
#include "proto/monitor.h"
#include "proto/socket.h"
#include "proto/zap.h"

enum {
    ROUTING_ID_BYTES = 8, /* ZeroMQ's have 5 */
    NO_FD = -1,
    ARENA_EXTRA_BYTES = 64 * 1024,
};

/* One rank's connection, launcher side. */
typedef struct bus_peer {
    uint8_t routing_id[ROUTING_ID_BYTES];
    size_t routing_id_bytes; /* 0: no message has come yet */
} bus_peer;

struct proto_bus {
    proto_side peer; /* the other side of the link */
    bool listens;
    int world_size;
    void *context;
    void *socket;
    void *monitor;
    proto_connections *connections; /* launcher side */
    proto_zap *zap;
    uint8_t (*admitted)[PROTO_KEY_BYTES]; /* (world_size) launcher side: rank i's public key */
    proto_arena arena;
    uint8_t *packed; /* (packed_bytes_max) an outgoing message */
    size_t packed_bytes_max;
    bus_peer *peers; /* (world_size) launcher side */
    bus_peer second; /* the last connection that had the key of another one */
    char endpoint[PROTO_ENDPOINT_BYTES];
};

static size_t message_bytes_max(proto_side from, int world_size)
{
    if (from == PROTO_SIDE_HEAD || from == PROTO_SIDE_AGENT) {
        return PROTO_HOST_MESSAGE_BYTES_MAX;
    }
    return from == PROTO_SIDE_RANK ? PROTO_RANK_MESSAGE_BYTES_MAX
                                   : PROTO_LAUNCHER_MESSAGE_BYTES_MAX +
                                         (size_t)world_size * PROTO_LAUNCHER_PART_BYTES_MAX;
}

static proto_side other_side(proto_side side)
{
    static const proto_side others[] = {
        [PROTO_SIDE_LAUNCHER] = PROTO_SIDE_RANK,
        [PROTO_SIDE_RANK] = PROTO_SIDE_LAUNCHER,
        [PROTO_SIDE_HEAD] = PROTO_SIDE_AGENT,
        [PROTO_SIDE_AGENT] = PROTO_SIDE_HEAD,
    };
    return others[side];
}

static base_status bus_alloc(proto_side side, int world_size, proto_bus **bus, base_error *reterr)
{
    const proto_side peer = other_side(side);
    const size_t arena_bytes = 2 * message_bytes_max(peer, world_size) + ARENA_EXTRA_BYTES;
    proto_bus *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the control socket");
    }
    made->peer = peer;
    made->listens = side == PROTO_SIDE_LAUNCHER || side == PROTO_SIDE_HEAD;
    made->world_size = world_size;
    made->packed_bytes_max = message_bytes_max(side, world_size);
    made->packed = malloc(made->packed_bytes_max);
    made->peers = calloc((size_t)world_size, sizeof made->peers[0]);
    base_status status = made->packed != NULL && made->peers != NULL
                             ? BASE_OK
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for messages");
    if (status == BASE_OK) {
        status = proto_arena_init(&made->arena, arena_bytes, reterr);
    }
    if (status == BASE_OK) {
        status = proto_socket_context(&made->context, reterr);
    }
    if (status != BASE_OK) {
        proto_bus_close(made);
        return status;
    }
    *bus = made;
    return BASE_OK;
}

static const char zap_domain[] = "ringfence";

/* Admits a rank's key. Its user id is the rank. */
static bool admit(void *user, const char *domain, const uint8_t key[PROTO_KEY_BYTES],
                  char user_id[PROTO_ZAP_USER_BYTES])
{
    const proto_bus *bus = user;
    for (int rank = 0; rank < bus->world_size && strcmp(domain, zap_domain) == 0; rank++) {
        if (memcmp(bus->admitted[rank], key, PROTO_KEY_BYTES) == 0) {
            (void)snprintf(user_id, PROTO_ZAP_USER_BYTES, "%d", rank);
            return true;
        }
    }
    return false;
}

static base_status start_admission(proto_bus *bus, const proto_bus_listen_options *options,
                                   base_error *reterr)
{
    const size_t keys_bytes = (size_t)bus->world_size * PROTO_KEY_BYTES;
    const proto_zap_options zap_options = {.admit = admit, .user = bus};
    bus->admitted = malloc(keys_bytes);
    if (bus->admitted == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the job's admission list");
    }
    memcpy(bus->admitted, options->rank_public_keys, keys_bytes);
    return proto_zap_start(bus->context, &zap_options, &bus->zap, reterr);
}

/* Binds to the address, and finds the endpoint with its port. */
static base_status bind_to(proto_bus *bus, const proto_bus_listen_options *options,
                           base_error *reterr)
{
    size_t endpoint_bytes = sizeof bus->endpoint;
    const bool brackets = strchr(options->address, ':') != NULL;
    int port = options->port > 0 ? options->port : options->ports.low;
    const int last = options->port > 0 ? port : options->ports.high;
    bool bound = false;
    do {
        (void)snprintf(bus->endpoint, sizeof bus->endpoint, "tcp://%s%s%s:%d", brackets ? "[" : "",
                       options->address, brackets ? "]" : "", port);
        bound = zmq_bind(bus->socket, bus->endpoint) == 0;
    } while (!bound && zmq_errno() == EADDRINUSE && port++ < last);
    if (!bound) {
        return base_fail(reterr, zmq_errno() == EADDRINUSE ? BASE_ERR_BUSY : BASE_ERR_IO,
                         "cannot listen on %s: %s", bus->endpoint, zmq_strerror(zmq_errno()));
    }
    return zmq_getsockopt(bus->socket, ZMQ_LAST_ENDPOINT, bus->endpoint, &endpoint_bytes) == 0
               ? BASE_OK
               : proto_zmq_fail(reterr, "cannot listen on the control socket");
}

base_status proto_bus_listen(const proto_bus_listen_options *options, proto_bus **bus,
                             base_error *reterr)
{
    proto_bus *made = NULL;
    BASE_ASSERT(options->world_size > 0 && options->world_size <= BASE_RANKS_MAX);
    const proto_side side = options->agents ? PROTO_SIDE_HEAD : PROTO_SIDE_LAUNCHER;
    base_status status = bus_alloc(side, options->world_size, &made, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const proto_socket_options socket_options = {
        .kind = PROTO_SOCKET_LISTEN,
        .message_bytes_max = (int64_t)message_bytes_max(made->peer, options->world_size),
        .keys = options->keys,
        .zap_domain = zap_domain,
        .ipv6 = strchr(options->address, ':') != NULL || strcmp(options->address, "*") == 0,
    };
    status = start_admission(made, options, reterr);
    if (status == BASE_OK) {
        status = proto_socket_open(made->context, &socket_options, &made->socket, reterr);
    }
    if (status == BASE_OK) {
        status = proto_monitor_start(made->context, made->socket, &made->monitor, reterr);
    }
    if (status == BASE_OK) {
        status =
            proto_connections_create(made->monitor, made->world_size, &made->connections, reterr);
    }
    if (status == BASE_OK) {
        status = bind_to(made, options, reterr);
    }
    if (status != BASE_OK) {
        proto_bus_close(made);
        return status;
    }
    *bus = made;
    return BASE_OK;
}

/* Starts to connect to the launcher (`what`). */
static base_status bus_connect(proto_side side, const proto_bus_agent_options *options,
                               const char *what, proto_bus **bus, base_error *reterr)
{
    proto_bus *made = NULL;
    base_status status = bus_alloc(side, options->nodes, &made, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const proto_socket_options socket_options = {
        .kind = PROTO_SOCKET_CONNECT,
        .message_bytes_max = (int64_t)message_bytes_max(made->peer, options->nodes),
        .keys = options->keys,
        .server_key = options->head_public_key,
        .ipv6 = strchr(options->endpoint, '[') != NULL,
    };
    (void)snprintf(made->endpoint, sizeof made->endpoint, "%s", options->endpoint);
    status = proto_socket_open(made->context, &socket_options, &made->socket, reterr);
    if (status == BASE_OK) {
        status = proto_monitor_start(made->context, made->socket, &made->monitor, reterr);
    }
    if (status == BASE_OK && zmq_connect(made->socket, made->endpoint) != 0) {
        status = proto_zmq_fail(reterr, what);
    }
    if (status != BASE_OK) {
        proto_bus_close(made);
        return status;
    }
    *bus = made;
    return BASE_OK;
}

base_status proto_bus_connect(const proto_key_file *key, int world_size, proto_bus **bus,
                              base_error *reterr)
{
    BASE_ASSERT(world_size > 0 && world_size <= BASE_RANKS_MAX);
    const proto_bus_agent_options options = {
        .endpoint = key->endpoint,
        .keys = &key->rank,
        .head_public_key = key->launcher_public_key,
        .nodes = world_size,
    };
    return bus_connect(PROTO_SIDE_RANK, &options, "cannot connect to the launcher", bus, reterr);
}

base_status proto_bus_connect_head(const proto_bus_agent_options *options, proto_bus **bus,
                                   base_error *reterr)
{
    BASE_ASSERT(options->nodes > 0 && options->nodes <= PROTO_NODES_MAX);
    return bus_connect(PROTO_SIDE_AGENT, options, "cannot connect to the head", bus, reterr);
}

void proto_bus_close(proto_bus *bus)
{
    if (bus == NULL) {
        return;
    }
    if (bus->monitor != NULL) {
        proto_monitor_stop(bus->socket);
        (void)zmq_close(bus->monitor);
    }
    if (bus->socket != NULL) {
        (void)zmq_close(bus->socket);
    }
    if (bus->context != NULL) {
        (void)zmq_ctx_shutdown(bus->context);
        proto_zap_join(bus->zap);
        (void)zmq_ctx_term(bus->context);
    }
    proto_connections_destroy(bus->connections);
    proto_arena_fini(&bus->arena);
    free(bus->admitted);
    free(bus->packed);
    free(bus->peers);
    free(bus);
}

const char *proto_bus_endpoint(const proto_bus *bus)
{
    return bus->endpoint;
}

static int socket_fd(void *socket)
{
    int fd = NO_FD;
    size_t fd_bytes = sizeof fd;
    const int failed = zmq_getsockopt(socket, ZMQ_FD, &fd, &fd_bytes);
    BASE_ASSERT(failed == 0);
    return fd;
}

void proto_bus_polls(const proto_bus *bus, struct pollfd polls[PROTO_BUS_FDS])
{
    polls[0] =
        (struct pollfd){.fd = bus != NULL ? socket_fd(bus->socket) : NO_FD, .events = POLLIN};
    polls[1] =
        (struct pollfd){.fd = bus != NULL ? socket_fd(bus->monitor) : NO_FD, .events = POLLIN};
}

/* Packs an envelope with this body into bus->packed. */
static base_status pack(proto_bus *bus, ProtobufCMessage *body, size_t *size_bytes,
                        base_error *reterr)
{
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, body);
    *size_bytes = ringfence__control__envelope__get_packed_size(&envelope);
    if (*size_bytes > bus->packed_bytes_max) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "a message \"%s\" of %zu bytes: more than the %zu allowed",
                         proto_envelope_name(&envelope), *size_bytes, bus->packed_bytes_max);
    }
    (void)ringfence__control__envelope__pack(&envelope, bus->packed);
    return BASE_OK;
}

base_status proto_bus_send(proto_bus *bus, int rank, ProtobufCMessage *body, base_error *reterr)
{
    size_t size_bytes = 0;
    const base_status status = pack(bus, body, &size_bytes, reterr);
    return status == BASE_OK ? proto_bus_send_packed(bus, rank, bus->packed, size_bytes, reterr)
                             : status;
}

static const char *peer_noun(const proto_bus *bus)
{
    return bus->peer == PROTO_SIDE_AGENT ? "node" : "rank";
}

static base_status send_failed(const proto_bus *bus, int rank, base_error *reterr)
{
    const int code = zmq_errno();
    if (code == EAGAIN) {
        return base_fail(reterr, BASE_ERR_BUSY, "too many messages wait to be sent");
    }
    if (code == EHOSTUNREACH) {
        return base_fail(reterr, BASE_ERR_PEER, "%s %d is not connected", peer_noun(bus), rank);
    }
    return proto_zmq_fail(reterr, "cannot send on the control socket");
}

static base_status send_to(proto_bus *bus, const bus_peer *peer, const void *data,
                           size_t size_bytes)
{
    return proto_zmq_send(bus->socket, peer->routing_id, peer->routing_id_bytes,
                          ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0 &&
                   proto_zmq_send(bus->socket, data, size_bytes, ZMQ_DONTWAIT) >= 0
               ? BASE_OK
               : BASE_ERR_IO;
}

base_status proto_bus_send_packed(proto_bus *bus, int rank, const void *data, size_t size_bytes,
                                  base_error *reterr)
{
    if (!bus->listens) {
        return proto_zmq_send(bus->socket, data, size_bytes, ZMQ_DONTWAIT) >= 0
                   ? BASE_OK
                   : send_failed(bus, rank, reterr);
    }
    BASE_ASSERT(rank >= 0 && rank < bus->world_size);
    const bus_peer *peer = &bus->peers[rank];
    if (peer->routing_id_bytes == 0) {
        return base_fail(reterr, BASE_ERR_PEER, "%s %d has not joined", peer_noun(bus), rank);
    }
    return send_to(bus, peer, data, size_bytes) == BASE_OK ? BASE_OK
                                                           : send_failed(bus, rank, reterr);
}

base_status proto_bus_answer_second(proto_bus *bus, ProtobufCMessage *body, base_error *reterr)
{
    size_t size_bytes = 0;
    BASE_ASSERT(bus->second.routing_id_bytes > 0);
    const base_status status = pack(bus, body, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return send_to(bus, &bus->second, bus->packed, size_bytes) == BASE_OK
               ? BASE_OK
               : send_failed(bus, PROTO_NO_RANK, reterr);
}

void proto_bus_forget(proto_bus *bus, int rank)
{
    BASE_ASSERT(rank >= 0 && rank < bus->world_size);
    bus->peers[rank] = (bus_peer){.routing_id_bytes = 0};
    proto_connections_forget(bus->connections, rank);
}

/* Launcher side: finds the rank by the key of the message's connection, and remembers the
 * connection. */
static base_status identify(proto_bus *bus, const zmq_msg_t *routing, const zmq_msg_t *message,
                            int *rank, base_error *reterr)
{
    const char *user = zmq_msg_gets(message, "User-Id");
    const size_t id_bytes = zmq_msg_size(routing);
    char *end = NULL;
    const long number = user != NULL ? strtol(user, &end, 10) : -1;
    if (user == NULL || end == user || *end != '\0' || number < 0 || number >= bus->world_size ||
        id_bytes == 0 || id_bytes > ROUTING_ID_BYTES) {
        return base_fail(reterr, BASE_ERR_AUTH, "a message without an owner");
    }
    *rank = (int)number;
    bus_peer *peer = &bus->peers[number];
    zmq_msg_t *readable = (zmq_msg_t *)(uintptr_t)routing;
    if (peer->routing_id_bytes == 0) {
        memcpy(peer->routing_id, zmq_msg_data(readable), id_bytes);
        peer->routing_id_bytes = id_bytes;
        return proto_connections_add(bus->connections, *rank, zmq_msg_get(message, ZMQ_SRCFD),
                                     reterr);
    }
    if (peer->routing_id_bytes != id_bytes ||
        memcmp(peer->routing_id, zmq_msg_data(readable), id_bytes) != 0) {
        memcpy(bus->second.routing_id, zmq_msg_data(readable), id_bytes);
        bus->second.routing_id_bytes = id_bytes;
        return base_fail(reterr, BASE_ERR_BUSY, "a second connection with this %s's key",
                         peer_noun(bus));
    }
    return BASE_OK;
}

base_status proto_bus_recv(proto_bus *bus, int *rank, Ringfence__Control__Envelope **envelope,
                           base_error *reterr)
{
    const int wanted = bus->listens ? 2 : 1; /* with the connection's routing id */
    int count = 0;
    zmq_msg_t frames[2];
    zmq_msg_t *body = &frames[wanted - 1];
    (void)zmq_msg_init(&frames[0]);
    (void)zmq_msg_init(&frames[1]);
    *envelope = NULL;
    *rank = PROTO_NO_RANK;
    base_status status = proto_zmq_take(bus->socket, frames, wanted, &count,
                                        "cannot receive on the control socket", reterr);
    if (status == BASE_OK && count > 0) {
        if (bus->listens && count >= wanted) {
            status = identify(bus, &frames[0], body, rank, reterr);
        }
        if (status == BASE_OK && count != wanted) {
            status = base_fail(reterr, BASE_ERR_INVALID, "a message of %d frames", count);
        }
        if (status == BASE_OK) {
            const proto_envelope_source source = {
                .from = bus->peer, .world_size = bus->world_size, .arena = &bus->arena};
            status = proto_envelope_unpack(zmq_msg_data(body), zmq_msg_size(body), &source,
                                           envelope, reterr);
        }
    }
    (void)zmq_msg_close(&frames[0]);
    (void)zmq_msg_close(&frames[1]);
    return status;
}

bool proto_bus_next_event(proto_bus *bus, proto_bus_event *event)
{
    int fd = NO_FD;
    if (bus->connections != NULL) {
        return proto_connections_next(bus->connections, event);
    }
    event->rank = PROTO_NO_RANK;
    return proto_monitor_next(bus->monitor, &event->kind, &fd);
}
