/* How frames leave by a connection: in order and whole, at once or coalesced, as the socket takes
 * them, and as far as there is memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support.h"
#include "tcp_peer.h"
#include "transport/tcp/tcp.h"

static bool no_memory; /* for libcoll */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return no_memory ? NULL : __real_aligned_alloc(alignment, size);
}

/* Frames kept to be coalesced leave with the next ones, or by a flush, and always in order. */
static void coalescing_keeps_the_order(void **state)
{
    (void)state;
    enum { FRAME = COLL_FRAME_HEAD_BYTES + 8 };
    static const coll_net_when when[] = {COLL_NET_THIS_TURN, COLL_NET_IDLE, COLL_NET_NOW,
                                         COLL_NET_IDLE};
    uint8_t wire[4 * FRAME + 1];
    size_t got = 0;
    tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_OFF);
    for (uint8_t i = 0; i < 4; i++) {
        const uint8_t body[8] = {i};
        coll_frame_head head = {
            .magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_CREDIT, .body_bytes = sizeof body};
        const coll_net_frames frame = {.heads = &head, .count = 1, .bodies = body};
        coll_conn_send(&p->here.core.context, p->here.conn, &frame, when[i]);
        got += tcp_peer_get(p, wire + got, sizeof wire - got);
        assert_int_equal(got, i < 2 ? 0 : 3 * FRAME);
        assert_int_equal(p->here.conn->held, when[i] != COLL_NET_NOW);
    }
    assert_true(coll_conn_flush(p->here.conn));
    assert_false(p->here.conn->held);
    got += tcp_peer_get(p, wire + got, sizeof wire - got);
    assert_int_equal(got, 4 * FRAME);
    for (uint8_t i = 0; i < 4; i++) {
        coll_frame_head head;
        memcpy(&head, wire + i * (size_t)FRAME, sizeof head);
        assert_int_equal(head.number, i);
        assert_int_equal(wire[i * (size_t)FRAME + sizeof head], i);
    }
    tcp_peer_close(p);
}

/* Several bodies at once are as many frames, each with its own tag, and what the socket does not
 * take at once comes later, unchanged. */
static void check_several(coll_tcp_auth auth)
{
    enum { BODY = 200 * 1024, COUNT = COLL_FRAMES_AT_ONCE };
    tcp_peer *p = tcp_peer_open(auth);
    tcp_peer *there = tcp_peer_open(auth);
    coll_frame_head heads[COUNT];
    uint8_t *data = malloc((size_t)COUNT * BODY);
    uint8_t *piece = malloc(BODY);
    assert_true(data != NULL && piece != NULL);
    net_stage_fill(data, (size_t)COUNT * BODY);
    for (int i = 0; i < COUNT; i++) {
        heads[i] = (coll_frame_head){.magic = COLL_FRAME_MAGIC,
                                     .kind = COLL_FRAME_DATA,
                                     .comm_id = STAGE_COMM_ID,
                                     .body_bytes = BODY};
    }
    there->here.core.comm.chunk_bytes = BODY;
    const coll_net_frames frames = {.heads = heads, .count = COUNT, .bodies = data};
    coll_conn_send(&p->here.core.context, p->here.conn, &frames, false);
    for (int i = 0; i < COUNT;) {
        const size_t got = tcp_peer_get(p, piece, BODY);
        tcp_peer_put(there, piece, got);
        (void)coll_conn_flush(p->here.conn);
        const uint8_t *frame = coll_net_receive_begin(&there->here.core.comm, STAGE_PEER, 0, BODY);
        assert_true(frame != NULL || got > 0);
        if (frame != NULL) {
            assert_memory_equal(frame, data + (size_t)i * BODY, BODY);
            coll_net_receive_end(&there->here.core.comm, STAGE_PEER, 0);
            i++;
        }
    }
    assert_int_equal(coll_conn_backlog(p->here.conn), 0);
    free(piece);
    free(data);
    tcp_peer_close(there);
    tcp_peer_close(p);
}

static void several_at_once_are_several(void **state)
{
    (void)state;
    check_several(COLL_TCP_AUTH_OFF);
    check_several(COLL_TCP_AUTH_MAC);
    check_several(COLL_TCP_AUTH_ENCRYPT);
}

/* A short last packet goes by a call of its own, wherever in the frames it begins: nothing is lost
 * or comes twice, and the tags fit. */
static void a_short_rest_goes_apart(void **state)
{
    enum { BODY_MAX = 700, HEAD = COLL_FRAME_HEAD_BYTES, TAG = COLL_SEAL_TAG_BYTES };
    tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_MAC);
    tcp_peer *there = tcp_peer_open(COLL_TCP_AUTH_MAC);
    uint8_t data[2 * BODY_MAX];
    uint8_t wire[2 * (HEAD + BODY_MAX + TAG)];
    (void)state;
    net_stage_fill(data, sizeof data);
    p->here.conn->packet_bytes = 300;
    p->here.conn->short_bytes_max = 250;
    for (uint32_t body = 1; body <= BODY_MAX; body++) {
        const coll_net_when when = body % 2 == 0 ? COLL_NET_THIS_TURN : COLL_NET_NOW;
        for (int i = 0; i < 2; i++) { /* the first alone, or kept for the second */
            coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                    .kind = COLL_FRAME_DATA,
                                    .comm_id = STAGE_COMM_ID,
                                    .body_bytes = body};
            const coll_net_frames frames = {.heads = &head, .count = 1, .bodies = data + i * body};
            coll_conn_send(&p->here.core.context, p->here.conn, &frames,
                           i == 0 ? when : COLL_NET_NOW);
        }
        tcp_peer_put(there, wire, tcp_peer_get(p, wire, sizeof wire));
        for (int i = 0; i < 2; i++) {
            const uint8_t *frame =
                coll_net_receive_begin(&there->here.core.comm, STAGE_PEER, 0, body);
            assert_non_null(frame);
            assert_memory_equal(frame, data + i * body, body);
            coll_net_receive_end(&there->here.core.comm, STAGE_PEER, 0);
        }
    }
    tcp_peer_close(there);
    tcp_peer_close(p);
}

/* A frame is sent whole or not at all: where there is no memory to keep the rest of it, the peer
 * receives just that. */
static void check_no_memory_to_send(coll_tcp_auth auth)
{
    enum { BODY = COLL_FRAME_BODY_BYTES_MAX };
    static uint8_t piece[COLL_CONN_STAGE_BYTES];
    const int small = 4096;
    tcp_peer *p = tcp_peer_open(auth);
    tcp_peer *there = tcp_peer_open(auth);
    coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                            .kind = COLL_FRAME_DATA,
                            .comm_id = STAGE_COMM_ID,
                            .body_bytes = BODY};
    uint8_t *data = calloc(1, BODY);
    assert_non_null(data);
    assert_int_equal(setsockopt(p->here.conn->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    p->here.quiet = false;
    no_memory = true;
    coll_conn_send(&p->here.core.context, p->here.conn,
                   &(coll_net_frames){.heads = &head, .count = 1, .bodies = data}, COLL_NET_NOW);
    no_memory = false;
    assert_true(p->here.core.comm.failed);
    for (size_t got = 1; got > 0 && !there->here.core.comm.failed;) {
        got = tcp_peer_get(p, piece, sizeof piece);
        tcp_peer_put(there, piece, got);
        (void)coll_conn_flush(p->here.conn);
    }
    assert_true(there->here.core.comm.failed);
    assert_non_null(strstr(there->here.core.comm.failure.message, "no memory"));
    free(data);
    tcp_peer_close(there);
    tcp_peer_close(p);
}

static void no_memory_to_send_is_told(void **state)
{
    (void)state;
    check_no_memory_to_send(COLL_TCP_AUTH_OFF);
    check_no_memory_to_send(COLL_TCP_AUTH_MAC);
    check_no_memory_to_send(COLL_TCP_AUTH_ENCRYPT);
}

/* A rank without memory for what comes blames nobody else. */
static void no_memory_to_receive_is_told(void **state)
{
    static const uint8_t body[PEER_CHUNK] = {1};
    (void)state;
    tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_MAC);
    coll_comm other = {.context = &p->here.core.context,
                       .table = &coll_tcp_transport,
                       .size = STAGE_RANKS,
                       .ranks = {0, 1},
                       .id = STAGE_COMM_ID + 1};
    p->here.core.comm.next = &other;
    no_memory = true;
    tcp_peer_put_frame(p, COLL_FRAME_DATA, body, sizeof body, 0);
    no_memory = false;
    assert_int_equal(p->here.core.comm.failure.status, COLL_ERR_MEMORY);
    assert_false(other.failed);
    assert_true(coll_conn_reads(p->here.conn));
    tcp_peer_close(p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_rest_goes_apart),
        cmocka_unit_test(coalescing_keeps_the_order),
        cmocka_unit_test(several_at_once_are_several),
        cmocka_unit_test(no_memory_to_send_is_told),
        cmocka_unit_test(no_memory_to_receive_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
