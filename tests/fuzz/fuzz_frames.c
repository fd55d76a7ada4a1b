/* What a rank takes from a connection to a peer that has proved itself and then turned hostile: any
 * stream of bytes at all, and streams whose heads are made to pass the first check, so that all
 * that follows is reached. Nothing may be read or written out of bounds, and whoever takes frames
 * must find them whole. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "transport/tcp/conn.h"
#include "transport/tcp/tcp.h"

enum { RANKS = 3, PEER = 1, COMM_ID = 7, PIECES = 8, ENDED = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

typedef struct stage {
    coll_net net; /* first, as a transport has it */
    coll_context context;
    coll_comm comm;
    coll_identity identities[RANKS];
    coll_conn *conn;
    int peer_end;
    uint64_t number;
    uint32_t flags; /* of the peer's, in the order that they have to come in */
    coll_op op;
    uint8_t *place; /* where op wants its frames; heap, so that its end is watched */
} stage;

static void swallow(coll_context *context, int peer, const coll_net_frames *frames,
                    coll_net_when when)
{
    (void)context;
    (void)peer;
    (void)when;
    for (int i = 0; i < frames->count; i++) {
        BASE_ASSERT(coll_frame_head_is_sound(&frames->heads[i]));
    }
}

static void forget(coll_context *context, coll_comm *comm)
{
    stage *s = context->net;
    coll_conn_forget(s->conn, comm);
}

static const coll_net_links links = {.send = swallow, .forget = forget};

static void open_comm(stage *s)
{
    coll_error error = {.message = ""};
    s->comm = (coll_comm){.context = &s->context,
                          .table = &coll_tcp_transport,
                          .size = RANKS,
                          .ranks = {0, 1, 2},
                          .id = COMM_ID,
                          .chunk_bytes = COLL_CHUNK_BYTES};
    s->context.comms = &s->comm;
    BASE_ASSERT(coll_net_comm_open(&s->comm, 0, &error) == COLL_OK);
    /* Operations that have ended here; the peer's flags are compared with them. */
    s->flags = 0;
    for (uint32_t i = 1; i < ENDED; i++) {
        s->comm.flags[i].descriptor.sequence = i;
        atomic_store(&s->comm.flags[i].word, coll_flag_word(i, i));
    }
    s->comm.sequence = ENDED - 1;
}

static void close_comm(stage *s)
{
    s->context.comms = NULL;
    coll_net_comm_close(&s->comm);
    free(s->place);
    s->place = NULL;
}

/* As the plan does that waits for a frame: says where its bytes belong. The word is one that flags
 * of zeroes show. */
static void want_frames(stage *s, int channel, size_t size_bytes)
{
    if (s->place == NULL) {
        s->place = malloc(size_bytes);
        BASE_ASSERT(s->place != NULL);
        s->op = (coll_op){.comm = &s->comm};
        coll_net_receive_into(&s->op, PEER, channel, s->place, size_bytes);
    }
}

static stage *open_stage(coll_tcp_auth auth)
{
    static const uint8_t key[COLL_SEAL_KEY_BYTES] = {1};
    int ends[2];
    coll_seal seal;
    stage *s = calloc(1, sizeof *s);
    BASE_ASSERT(s != NULL && sodium_init() >= 0);
    BASE_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    s->net.links = &links;
    s->net.remote[1] = true;
    s->net.remote[2] = true;
    s->context.size = RANKS;
    s->context.net = s;
    s->context.identities = s->identities;
    coll_seal_init(&seal, auth, false, key);
    s->conn = coll_conn_create(PEER);
    BASE_ASSERT(s->conn != NULL);
    coll_conn_open(s->conn, ends[0], &seal, &seal);
    s->peer_end = ends[1];
    open_comm(s);
    return s;
}

static void close_stage(stage *s)
{
    close_comm(s);
    coll_conn_destroy(s->conn);
    coll_net_fini(&s->net);
    (void)close(s->peer_end);
    free(s);
}

/* As the plan takes frames: of the size that it expects, whatever came. */
static void take_frames(stage *s, size_t expected)
{
    for (int channel = 0; channel < COLL_CHANNELS && !s->comm.failed; channel++) {
        const uint8_t *frame = coll_net_receive_begin(&s->comm, PEER, channel, expected);
        unsigned sum = 0;
        for (size_t i = 0; frame != NULL && i < expected; i++) {
            sum += frame[i];
        }
        if (frame != NULL) {
            BASE_ASSERT(sum <= 255 * expected);
            coll_net_receive_end(&s->comm, PEER, channel);
        }
    }
}

static void feed(stage *s, const void *bytes, size_t size_bytes)
{
    const uint8_t *at = bytes;
    while (size_bytes > 0) {
        const ssize_t sent = send(s->peer_end, at, size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            return;
        }
        at += sent;
        size_bytes -= (size_t)sent;
        (void)coll_conn_receive(&s->context, s->conn);
    }
    coll_net_look(&s->context);
}

/* A head from the input, made sound, and sealed as the peer would: the body follows in it. */
static size_t feed_frame(stage *s, const uint8_t *data, size_t size_bytes, coll_seal *seal)
{
    coll_frame_head head;
    static uint8_t body[COLL_FRAME_BODY_BYTES_MAX];
    uint8_t tag[COLL_SEAL_TAG_BYTES];
    if (size_bytes < sizeof head) {
        return size_bytes;
    }
    memcpy(&head, data, sizeof head);
    head.magic = COLL_FRAME_MAGIC;
    head.kind = COLL_FRAME_FLAG + head.kind % COLL_FRAME_WAITS;
    head.channel %= COLL_CHANNELS + 1;
    head.comm_id = (head.comm_id & 7) == 0 ? head.comm_id : COMM_ID;
    head.number = s->number++;
    memset(head.zero, 0, sizeof head.zero);
    head.body_bytes %= COLL_FRAME_BODY_BYTES_MAX + 2;
    const size_t given = size_bytes - sizeof head;
    const size_t used = given < head.body_bytes ? given : head.body_bytes;
    memset(body, 0, sizeof body);
    memcpy(body, data + sizeof head, used);
    if (head.kind == COLL_FRAME_FLAG && head.comm_id == COMM_ID && used > 8 && body[8] % 4 != 0) {
        s->flags++;
        const uint64_t word = coll_flag_word(s->flags, s->flags + (body[8] % 4 == 1 ? 2 : 0));
        memcpy(body, &word, sizeof word);
    }
    if (head.body_bytes > COLL_FRAME_BODY_BYTES_MAX) {
        feed(s, &head, sizeof head);
        return sizeof head + used;
    }
    (void)coll_seal_close(seal, &head, body, NULL, tag);
    feed(s, &head, sizeof head);
    feed(s, body, head.body_bytes);
    feed(s, tag, coll_seal_tag_bytes(seal));
    return sizeof head + used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const uint8_t key[COLL_SEAL_KEY_BYTES] = {1};
    if (size_bytes < 2) {
        return 0;
    }
    const uint8_t flags = data[0];
    const size_t expected = (size_t)data[1] * 8;
    const coll_tcp_auth auth = (flags & 1) != 0 ? COLL_TCP_AUTH_MAC : COLL_TCP_AUTH_OFF;
    stage *s = open_stage(auth);
    coll_seal seal;
    coll_seal_init(&seal, auth, false, key);
    for (size_t at = 2; at < size_bytes;) {
        if ((flags & 8) != 0 && expected > 0 && !s->comm.failed) {
            want_frames(s, (flags >> 4) % COLL_CHANNELS, 3 * expected);
        }
        if ((flags & 2) == 0) {
            const size_t part = (size_bytes - 2) / PIECES + 1;
            const size_t left = size_bytes - at;
            feed(s, data + at, part < left ? part : left);
            at += part;
        } else {
            at += feed_frame(s, data + at, size_bytes - at, &seal);
        }
        take_frames(s, expected);
        if ((flags & 4) != 0 && at % 3 == 0) {
            close_comm(s);
            open_comm(s);
        }
    }
    close_stage(s);
    return 0;
}
