/* Two ends of a connection whose socket takes and gives any number of bytes at a time, or none, or
 * is interrupted: flags and data come whole, in order, and to their target. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_stage.h"
#include "core/inline.h"
#include "random.h"
#include "support.h"
#include "transport/socket/comm.h"

enum { OPERATIONS = 12, CHANNELS = 2 };

static uint64_t state_now;
static uint32_t draw(uint32_t below)
{
    return test_random_below(&state_now, below);
}

ssize_t __real_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

/* How many of so many bytes; -1: none, and errno says why. */
static ssize_t piece_of(size_t size)
{
    static const int errors[] = {EAGAIN, EINTR};
    const uint32_t what = draw(10);
    if (what < 2) {
        errno = errors[what];
        return -1;
    }
    if (what < 5) {
        return (ssize_t)(size < 1 ? 0 : 1 + draw(size < 64 ? (uint32_t)size : 64));
    }
    return what < 8 && size > 0 ? (ssize_t)(1 + draw((uint32_t)size)) : (ssize_t)size;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
    const ssize_t piece = piece_of(size);
    return piece < 0 ? -1 : __real_send(fd, bytes, (size_t)piece, flags);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    const ssize_t piece = piece_of(size);
    return piece < 0 ? -1 : __real_recv(fd, bytes, (size_t)piece, flags);
}

static size_t total_of(const struct msghdr *message)
{
    size_t total = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        total += message->msg_iov[i].iov_len;
    }
    return total;
}

/* As many of the bytes as the socket takes or gives, part by part. */
static ssize_t part_by_part(int fd, const struct msghdr *message, int flags, bool sends)
{
    const ssize_t piece = piece_of(total_of(message));
    ssize_t moved = 0;
    for (size_t i = 0; i < message->msg_iovlen && moved < piece; i++) {
        const struct iovec *part = &message->msg_iov[i];
        const size_t left = (size_t)(piece - moved);
        const size_t size = part->iov_len < left ? part->iov_len : left;
        const ssize_t now = size == 0 ? 0
                            : sends   ? __real_send(fd, part->iov_base, size, flags)
                                      : __real_recv(fd, part->iov_base, size, flags);
        if (now < 0) {
            return moved > 0 ? moved : -1;
        }
        moved += now;
        if ((size_t)now < size) {
            break;
        }
    }
    return piece < 0 ? -1 : moved;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return part_by_part(fd, message, flags, true);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    return part_by_part(fd, message, flags, false);
}

/* What one side has to send in one operation, and the other to take. */
typedef struct transfer {
    coll_op op;
    uint8_t *data;
    uint8_t *target;
    size_t size_bytes[CHANNELS];
    size_t sent[CHANNELS];
    size_t got[CHANNELS];
    size_t payload_bytes;
    bool shown;
    bool has_target[CHANNELS];
} transfer;

enum { CHANNEL_BYTES = 600000 };

static void begin(transfer *t, conn_stage *to, uint64_t sequence)
{
    static const uint32_t sizes[] = {2, 300, 4000, 33000, 70000, CHANNEL_BYTES};
    t->op = (coll_op){
        .comm = &to->core.comm, .sequence = sequence, .word = coll_flag_word(sequence, 3)};
    t->shown = false;
    t->payload_bytes = draw(3) == 0 ? draw(COLL_INLINE_BYTES_MAX) : draw(100);
    for (size_t channel = 0; channel < CHANNELS; channel++) {
        t->size_bytes[channel] = draw(sizes[draw(6)]);
        t->sent[channel] = 0;
        t->got[channel] = 0;
        t->has_target[channel] = false;
    }
    for (size_t i = 0; i < CHANNELS * CHANNEL_BYTES; i++) {
        t->data[i] = (uint8_t)(i * 7 + sequence + i / 251);
    }
    memset(t->target, 0, CHANNELS * CHANNEL_BYTES);
}

static void send_step(transfer *t, conn_stage *from)
{
    if (!t->shown) {
        static uint8_t body[COLL_FRAME_FLAG_BYTES + COLL_INLINE_BYTES_MAX];
        memcpy(body, &t->op.word, sizeof t->op.word);
        memcpy(body + COLL_FRAME_FLAG_BYTES, t->data, t->payload_bytes);
        coll_frame_head head = {.kind = COLL_FRAME_FLAG,
                                .body_bytes = (uint32_t)(COLL_FRAME_FLAG_BYTES + t->payload_bytes)};
        coll_net_send_frame(&from->core.comm, STAGE_PEER, &head, body,
                            draw(2) == 0 ? COLL_NET_THIS_TURN : COLL_NET_NOW);
        t->shown = true;
        return;
    }
    const int channel = (int)draw(CHANNELS);
    t->sent[channel] +=
        coll_net_send_from(&from->core.comm, STAGE_PEER, channel,
                           t->data + (size_t)channel * CHANNEL_BYTES + t->sent[channel],
                           t->size_bytes[channel] - t->sent[channel]);
}

static void receive_step(transfer *t, conn_stage *to)
{
    const int channel = (int)draw(CHANNELS);
    const size_t left = t->size_bytes[channel] - t->got[channel];
    uint8_t *target = t->target + (size_t)channel * CHANNEL_BYTES + t->got[channel];
    if (left == 0) {
        return;
    }
    if (!t->has_target[channel] && t->got[channel] == 0 && draw(2) == 0) {
        t->has_target[channel] = true;
        coll_net_receive_into(&t->op, STAGE_PEER, channel, target, left);
        return;
    }
    const size_t size = left < to->core.comm.chunk_bytes ? left : to->core.comm.chunk_bytes;
    const uint8_t *frame = coll_net_receive_begin(&to->core.comm, STAGE_PEER, channel, size);
    if (frame != NULL) {
        if (frame != target) {
            memcpy(target, frame, size);
        }
        t->got[channel] += size;
        coll_net_receive_end(&to->core.comm, STAGE_PEER, channel);
    }
}

static bool is_done(const transfer *t)
{
    for (size_t channel = 0; channel < CHANNELS; channel++) {
        if (t->got[channel] < t->size_bytes[channel]) {
            return false;
        }
    }
    return t->shown &&
           atomic_load(
               &t->op.comm->peers[STAGE_PEER].flags[t->op.sequence % COLL_FLAG_COUNT].word) ==
               t->op.word;
}

static void check(const transfer *t)
{
    const coll_comm *comm = t->op.comm;
    for (size_t channel = 0; channel < CHANNELS; channel++) {
        assert_memory_equal(t->target + channel * CHANNEL_BYTES, t->data + channel * CHANNEL_BYTES,
                            t->size_bytes[channel]);
    }
    assert_memory_equal(coll_payload(comm, STAGE_PEER, t->op.sequence), t->data, t->payload_bytes);
}

static void turn(transfer *there, transfer *back, conn_stage *a, conn_stage *b)
{
    switch (draw(8)) {
    case 0:
        send_step(there, a);
        break;
    case 1:
        send_step(back, b);
        break;
    case 2:
        receive_step(there, b);
        break;
    case 3:
        receive_step(back, a);
        break;
    case 4:
        conn_stage_receive(a);
        break;
    case 5:
        conn_stage_receive(b);
        break;
    case 6:
        (void)coll_conn_flush(a->conn);
        break;
    default:
        (void)coll_conn_flush(b->conn);
        break;
    }
}

static void check_pieces(coll_tcp_auth auth, size_t chunk_bytes, uint32_t seed)
{
    static const uint8_t key[COLL_SEAL_KEY_BYTES] = {1};
    int ends[2];
    coll_seal *seal = net_stage_alloc(sizeof *seal);
    transfer there = {.data = malloc(CHANNELS * CHANNEL_BYTES),
                      .target = malloc(CHANNELS * CHANNEL_BYTES)};
    transfer back = {.data = malloc(CHANNELS * CHANNEL_BYTES),
                     .target = malloc(CHANNELS * CHANNEL_BYTES)};
    assert_true(sodium_init() >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    coll_seal_init(seal, auth, seed % 2 == 0 && crypto_aead_aes256gcm_is_available() != 0, key);
    conn_stage *a = net_stage_alloc(sizeof *a);
    conn_stage *b = net_stage_alloc(sizeof *b);
    conn_stage_open(a, ends[0], seal, chunk_bytes);
    conn_stage_open(b, ends[1], seal, chunk_bytes);
    state_now = seed;
    a->conn->packet_bytes = 100 + draw(3000);
    a->conn->short_bytes_max = a->conn->packet_bytes - draw(90);
    for (uint64_t sequence = 1; sequence <= OPERATIONS; sequence++) {
        begin(&there, b, sequence);
        begin(&back, a, sequence);
        for (long turns = 0; !is_done(&there) || !is_done(&back); turns++) {
            turn(&there, &back, a, b);
            if (a->core.comm.failed || b->core.comm.failed) {
                fail_msg("seed %u: %s / %s", seed, a->core.comm.failure.message,
                         b->core.comm.failure.message);
            }
            if (turns > 20000000) {
                fail_msg("seed %u: nothing moves", seed);
            }
        }
        check(&there);
        check(&back);
    }
    conn_stage_close(a);
    conn_stage_close(b);
    free(a);
    free(b);
    free(there.data);
    free(there.target);
    free(back.data);
    free(back.target);
    free(seal);
}

static void pieces_make_the_whole(void **state)
{
    static const size_t chunks[] = {128, 1024, 30016, 200000};
    (void)state;
    for (uint32_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        check_pieces(COLL_TCP_AUTH_MAC, chunks[i], 4 * i);
        check_pieces(COLL_TCP_AUTH_ENCRYPT, chunks[i], 4 * i + 1);
        check_pieces(COLL_TCP_AUTH_ENCRYPT, chunks[i], 4 * i + 2);
        check_pieces(COLL_TCP_AUTH_OFF, chunks[i], 4 * i + 3);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_whole),
    };
    return cmocka_run_group_tests_name("coll-tcp-pieces", tests, NULL, NULL);
}
