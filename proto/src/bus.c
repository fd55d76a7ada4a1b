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
    int fd;                  /* of the connection, to recognize its events */
} bus_peer;

struct proto_bus {
    proto_side side; /* this side of the link */
    int world_size;
    void *context;
    void *socket;
    void *monitor;
    proto_zap *zap;
    uint8_t (*admitted)[PROTO_KEY_BYTES]; /* (world_size) launcher side: rank i's public key */
    proto_arena arena;
    uint8_t *packed; /* (packed_bytes_max) an outgoing message */
    size_t packed_bytes_max;
    bus_peer *peers; /* (world_size) launcher side */
    char endpoint[PROTO_ENDPOINT_BYTES];
};

static size_t message_bytes_max(proto_side from, int world_size)
{
    return from == PROTO_SIDE_RANK
               ? PROTO_RANK_MESSAGE_BYTES_MAX
               : PROTO_RANK_MESSAGE_BYTES_MAX + (size_t)world_size * PROTO_LAUNCHER_PART_BYTES_MAX;
}

static base_status bus_alloc(proto_side side, int world_size, proto_bus **bus, base_error *reterr)
{
    const proto_side peer = side == PROTO_SIDE_RANK ? PROTO_SIDE_LAUNCHER : PROTO_SIDE_RANK;
    const size_t arena_bytes = 2 * message_bytes_max(peer, world_size) + ARENA_EXTRA_BYTES;
    proto_bus *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the control socket");
    }
    made->side = side;
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
    for (int rank = 0; rank < world_size; rank++) {
        made->peers[rank].fd = NO_FD;
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

base_status proto_bus_listen(const proto_bus_listen_options *options, proto_bus **bus,
                             base_error *reterr)
{
    proto_bus *made = NULL;
    BASE_ASSERT(options->world_size > 0 && options->world_size <= BASE_RANKS_MAX);
    base_status status = bus_alloc(PROTO_SIDE_LAUNCHER, options->world_size, &made, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const proto_socket_options socket_options = {
        .kind = PROTO_SOCKET_LISTEN,
        .message_bytes_max = PROTO_RANK_MESSAGE_BYTES_MAX,
        .keys = options->keys,
        .zap_domain = zap_domain,
    };
    status = start_admission(made, options, reterr);
    if (status == BASE_OK) {
        status = proto_socket_open(made->context, &socket_options, &made->socket, reterr);
    }
    if (status == BASE_OK) {
        status = proto_monitor_start(made->context, made->socket, &made->monitor, reterr);
    }
    if (status == BASE_OK) {
        size_t endpoint_bytes = sizeof made->endpoint;
        (void)snprintf(made->endpoint, sizeof made->endpoint, "tcp://%s:0", options->address);
        if (zmq_bind(made->socket, made->endpoint) != 0 ||
            zmq_getsockopt(made->socket, ZMQ_LAST_ENDPOINT, made->endpoint, &endpoint_bytes) != 0) {
            status = proto_zmq_fail(reterr, "cannot listen on the control socket");
        }
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
    proto_bus *made = NULL;
    BASE_ASSERT(world_size > 0 && world_size <= BASE_RANKS_MAX);
    base_status status = bus_alloc(PROTO_SIDE_RANK, world_size, &made, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const proto_socket_options socket_options = {
        .kind = PROTO_SOCKET_CONNECT,
        .message_bytes_max = (int64_t)message_bytes_max(PROTO_SIDE_LAUNCHER, world_size),
        .keys = &key->rank,
        .server_key = key->launcher_public_key,
    };
    (void)snprintf(made->endpoint, sizeof made->endpoint, "%s", key->endpoint);
    status = proto_socket_open(made->context, &socket_options, &made->socket, reterr);
    if (status == BASE_OK) {
        status = proto_monitor_start(made->context, made->socket, &made->monitor, reterr);
    }
    if (status == BASE_OK && zmq_connect(made->socket, made->endpoint) != 0) {
        status = proto_zmq_fail(reterr, "cannot connect to the launcher");
    }
    if (status != BASE_OK) {
        proto_bus_close(made);
        return status;
    }
    *bus = made;
    return BASE_OK;
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

void proto_bus_fds(const proto_bus *bus, int fds[PROTO_BUS_FDS])
{
    fds[0] = socket_fd(bus->socket);
    fds[1] = socket_fd(bus->monitor);
}

base_status proto_bus_send(proto_bus *bus, int rank, Ringfence__Control__Envelope *envelope,
                           base_error *reterr)
{
    envelope->version = PROTO_CONTROL_VERSION;
    const size_t size_bytes = ringfence__control__envelope__get_packed_size(envelope);
    if (size_bytes > bus->packed_bytes_max) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "a message \"%s\" of %zu bytes: more than the %zu allowed",
                         proto_envelope_name(envelope), size_bytes, bus->packed_bytes_max);
    }
    (void)ringfence__control__envelope__pack(envelope, bus->packed);
    return proto_bus_send_packed(bus, rank, bus->packed, size_bytes, reterr);
}

static base_status send_failed(int rank, base_error *reterr)
{
    const int code = zmq_errno();
    if (code == EAGAIN) {
        return base_fail(reterr, BASE_ERR_BUSY, "too many messages wait to be sent");
    }
    if (code == EHOSTUNREACH) {
        return base_fail(reterr, BASE_ERR_PEER, "rank %d is not connected", rank);
    }
    return proto_zmq_fail(reterr, "cannot send on the control socket");
}

base_status proto_bus_send_packed(proto_bus *bus, int rank, const void *data, size_t size_bytes,
                                  base_error *reterr)
{
    if (bus->side == PROTO_SIDE_LAUNCHER) {
        BASE_ASSERT(rank >= 0 && rank < bus->world_size);
        const bus_peer *peer = &bus->peers[rank];
        if (peer->routing_id_bytes == 0) {
            return base_fail(reterr, BASE_ERR_PEER, "rank %d has not joined", rank);
        }
        if (proto_zmq_send(bus->socket, peer->routing_id, peer->routing_id_bytes,
                           ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
            return send_failed(rank, reterr);
        }
    }
    if (proto_zmq_send(bus->socket, data, size_bytes, ZMQ_DONTWAIT) < 0) {
        return send_failed(rank, reterr);
    }
    return BASE_OK;
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
        peer->fd = zmq_msg_get(message, ZMQ_SRCFD);
    } else if (peer->routing_id_bytes != id_bytes ||
               memcmp(peer->routing_id, zmq_msg_data(readable), id_bytes) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "a second connection with this rank's key");
    }
    return BASE_OK;
}

/* Takes all parts of one message. The last of the `wanted` parts goes to *body. If two are wanted,
 * the first goes to *routing. *count is how many there were; 0: no message. */
static base_status take_parts(void *socket, zmq_msg_t *routing, zmq_msg_t *body, int wanted,
                              int *count, base_error *reterr)
{
    bool more = true;
    *count = 0;
    while (more) {
        zmq_msg_t part;
        (void)zmq_msg_init(&part);
        if (proto_zmq_recv(socket, &part, ZMQ_DONTWAIT) < 0) {
            const int code = zmq_errno();
            (void)zmq_msg_close(&part);
            if (*count == 0 && code == EAGAIN) {
                return BASE_OK;
            }
            return proto_zmq_fail(reterr, "cannot receive on the control socket");
        }
        more = zmq_msg_more(&part) != 0;
        if (*count < wanted) {
            (void)zmq_msg_move(*count == wanted - 1 ? body : routing, &part);
        }
        (void)zmq_msg_close(&part);
        *count += 1;
    }
    return BASE_OK;
}

base_status proto_bus_recv(proto_bus *bus, int *rank, Ringfence__Control__Envelope **envelope,
                           base_error *reterr)
{
    const bool launcher = bus->side == PROTO_SIDE_LAUNCHER;
    const int wanted = launcher ? 2 : 1;
    int count = 0;
    zmq_msg_t routing;
    zmq_msg_t body;
    (void)zmq_msg_init(&routing);
    (void)zmq_msg_init(&body);
    *envelope = NULL;
    *rank = PROTO_NO_RANK;
    base_status status = take_parts(bus->socket, &routing, &body, wanted, &count, reterr);
    if (status == BASE_OK && count > 0) {
        if (launcher && count >= wanted) {
            status = identify(bus, &routing, &body, rank, reterr);
        }
        if (status == BASE_OK && count != wanted) {
            status = base_fail(reterr, BASE_ERR_INVALID, "a message of %d frames", count);
        }
        if (status == BASE_OK) {
            const proto_envelope_source source = {.from = launcher ? PROTO_SIDE_RANK
                                                                   : PROTO_SIDE_LAUNCHER,
                                                  .world_size = bus->world_size,
                                                  .arena = &bus->arena};
            status = proto_envelope_unpack(zmq_msg_data(&body), zmq_msg_size(&body), &source,
                                           envelope, reterr);
        }
    }
    (void)zmq_msg_close(&routing);
    (void)zmq_msg_close(&body);
    return status;
}

bool proto_bus_next_event(proto_bus *bus, proto_bus_event *event)
{
    int fd = NO_FD;
    if (!proto_monitor_next(bus->monitor, &event->kind, &fd)) {
        return false;
    }
    event->rank = PROTO_NO_RANK;
    if (event->kind == PROTO_BUS_DISCONNECTED && fd != NO_FD) {
        for (int rank = 0; rank < bus->world_size; rank++) {
            if (bus->peers[rank].fd == fd) {
                event->rank = rank;
                bus->peers[rank].fd = NO_FD;
            }
        }
    }
    return true;
}
