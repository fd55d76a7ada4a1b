/* How frames leave, and where they end up: one end of a connection, with the test at the other. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"
#include "tcp_conn.h"

enum { RANKS = 2, PEER = 1, COMM_ID = 7, CHUNK = 1024, BODIES = 3, TAIL = 100 };

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

typedef struct stage {
    coll_net net; /* first, as a transport has it */
    coll_context context;
    coll_comm comm;
    coll_op op;
    coll_identity identities[RANKS];
    coll_conn *conn;
    coll_seal seal; /* the peer's */
    uint64_t number;
    int peer_end;
    coll_tcp_auth auth;
    bool talks;
} stage;

/* Nothing leaves but by coll_conn_send, until the stage talks. */
static void send_frames(coll_context *context, int peer, const coll_net_frames *frames,
                        coll_net_when when)
{
    const stage *s = context->net;
    (void)peer;
    if (s->talks) {
        coll_conn_send(context, s->conn, frames, when);
    }
}

static bool has_room(coll_context *context, int peer)
{
    (void)context;
    (void)peer;
    return true;
}

static void forget(coll_context *context, coll_comm *comm)
{
    stage *s = context->net;
    coll_conn_forget(s->conn, comm);
}

static const coll_net_links links = {.send = send_frames, .has_room = has_room, .forget = forget};

static stage *open_stage(coll_tcp_auth auth)
{
    static const uint8_t key[COLL_SEAL_KEY_BYTES] = {1};
    base_error error = {.message = ""};
    int ends[2];
    stage *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    assert_non_null(s);
    memset(s, 0, sizeof *s);
    assert_true(sodium_init() >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    s->net.links = &links;
    s->net.remote[PEER] = true;
    s->context = (coll_context){.size = RANKS, .net = s, .identities = s->identities};
    s->auth = auth;
    coll_seal_init(&s->seal, auth, false, key);
    assert_int_equal(coll_conn_create(ends[0], PEER, &s->seal, &s->seal, &s->conn, &error),
                     BASE_OK);
    s->peer_end = ends[1];
    s->comm = (coll_comm){.context = &s->context,
                          .table = &coll_tcp_transport,
                          .size = RANKS,
                          .ranks = {0, 1},
                          .id = COMM_ID};
    s->context.comms = &s->comm;
    assert_int_equal(coll_net_comm_open(&s->comm, 0, &error), BASE_OK);
    s->comm.chunk_bytes = CHUNK;
    s->op = (coll_op){.comm = &s->comm, .sequence = 1, .word = coll_line_word(1, 0x1234)};
    return s;
}

static void close_stage(stage *s)
{
    s->context.comms = NULL;
    coll_net_comm_close(&s->comm);
    coll_conn_destroy(s->conn);
    coll_net_fini(&s->net);
    (void)close(s->peer_end);
    free(s);
}

/* Some of a frame's bytes, as the peer sends them. */
static void put(stage *s, const void *bytes, size_t size_bytes)
{
    if (size_bytes > 0) {
        assert_int_equal(send(s->peer_end, bytes, size_bytes, MSG_NOSIGNAL), (ssize_t)size_bytes);
    }
    (void)coll_conn_receive(&s->context, s->conn);
}

/* A whole frame in two parts, the first of them `first` bytes of the body long. */
static void put_frame(stage *s, coll_frame_kind kind, const uint8_t *body, uint32_t body_bytes,
                      size_t first)
{
    uint8_t tag[COLL_SEAL_TAG_BYTES];
    coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                            .kind = kind,
                            .comm_id = COMM_ID,
                            .number = s->number++,
                            .body_bytes = body_bytes};
    static uint8_t sealed[CHUNK];
    const uint8_t *wire = coll_seal_close(&s->seal, &head, body, sealed, tag);
    put(s, &head, sizeof head);
    put(s, wire, first);
    put(s, wire + first, body_bytes - first);
    put(s, tag, coll_seal_tag_bytes(&s->seal));
}

static void put_line(stage *s, uint64_t word)
{
    uint8_t body[COLL_FRAME_LINE_BYTES] = {0};
    memcpy(body, &word, sizeof word);
    put_frame(s, COLL_FRAME_LINE, body, sizeof body, 10);
}

static void fill(uint8_t *data, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        data[i] = (uint8_t)(i * 31 + i / 251);
    }
}

/* What op waits for is written where it wants it, chunk after chunk, and taken without a copy. */
static void check_place(coll_tcp_auth auth)
{
    enum { BYTES = (BODIES - 1) * CHUNK + TAIL };
    uint8_t data[BYTES];
    uint8_t target[BYTES + 1] = {0};
    stage *s = open_stage(auth);
    fill(data, sizeof data);
    coll_net_receive_into(&s->op, PEER, 0, target, BYTES);
    put_line(s, s->op.word);
    for (size_t at = 0; at < BYTES; at += CHUNK) {
        const size_t part = BYTES - at < CHUNK ? (size_t)BYTES - at : CHUNK;
        put_frame(s, COLL_FRAME_DATA, data + at, (uint32_t)part, part / 3);
    }
    for (size_t at = 0; at < BYTES; at += CHUNK) {
        const size_t part = BYTES - at < CHUNK ? (size_t)BYTES - at : CHUNK;
        assert_ptr_equal(coll_net_receive_begin(&s->comm, PEER, 0, part), target + at);
        coll_net_receive_end(&s->comm, PEER, 0);
    }
    assert_memory_equal(target, data, BYTES);
    assert_int_equal(target[BYTES], 0);
    /* The place has been used up. */
    put_frame(s, COLL_FRAME_DATA, data, CHUNK, 0);
    const uint8_t *frame = coll_net_receive_begin(&s->comm, PEER, 0, CHUNK);
    assert_non_null(frame);
    assert_true(frame < target || frame >= target + sizeof target);
    assert_false(s->comm.failed);
    close_stage(s);
}

static void frames_come_to_their_place(void **state)
{
    (void)state;
    check_place(COLL_TCP_AUTH_OFF);
    check_place(COLL_TCP_AUTH_MAC);
    check_place(COLL_TCP_AUTH_ENCRYPT);
}

/* A place that is named while a frame is on its way is not that frame's, nor the next one's. */
static void a_place_comes_before_its_frames(void **state)
{
    (void)state;
    uint8_t data[CHUNK];
    uint8_t target[CHUNK] = {0};
    const uint8_t zero[CHUNK] = {0};
    stage *s = open_stage(COLL_TCP_AUTH_OFF);
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_DATA,
                                  .comm_id = COMM_ID,
                                  .number = 1,
                                  .body_bytes = CHUNK};
    fill(data, sizeof data);
    put_line(s, s->op.word);
    put(s, &head, sizeof head);
    put(s, data, 5);
    coll_net_receive_into(&s->op, PEER, 0, target, CHUNK);
    put(s, data + 5, sizeof data - 5);
    s->number = 2;
    put_frame(s, COLL_FRAME_DATA, data, CHUNK, 7);
    for (int i = 0; i < 2; i++) {
        const uint8_t *frame = coll_net_receive_begin(&s->comm, PEER, 0, CHUNK);
        assert_non_null(frame);
        assert_memory_equal(frame, data, CHUNK);
        coll_net_receive_end(&s->comm, PEER, 0);
    }
    assert_memory_equal(target, zero, CHUNK);
    close_stage(s);
}

/* Frames of another operation than the one that waits, or of another size, do not touch it. */
static void other_frames_do_not(void **state)
{
    (void)state;
    uint8_t data[CHUNK];
    uint8_t target[CHUNK] = {0};
    const uint8_t zero[CHUNK] = {0};
    fill(data, sizeof data);
    for (int other_size = 0; other_size < 2; other_size++) {
        stage *s = open_stage(COLL_TCP_AUTH_MAC);
        coll_net_receive_into(&s->op, PEER, 0, target, CHUNK);
        put_line(s, other_size != 0 ? s->op.word : coll_line_word(1, 0x4320));
        put_frame(s, COLL_FRAME_DATA, data, CHUNK - (uint32_t)other_size, 9);
        assert_memory_equal(target, zero, sizeof zero);
        close_stage(s);
    }
}

/* Once the communicator has failed, the caller's memory is the caller's. */
static void failure_with(const char *words)
{
    uint8_t data[CHUNK];
    uint8_t mine[CHUNK];
    stage *s = open_stage(COLL_TCP_AUTH_OFF);
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_DATA,
                                  .comm_id = COMM_ID,
                                  .number = 1,
                                  .body_bytes = CHUNK};
    uint8_t *target = malloc(CHUNK);
    assert_non_null(target);
    fill(data, sizeof data);
    coll_net_receive_into(&s->op, PEER, 0, target, CHUNK);
    put_line(s, s->op.word);
    put(s, &head, sizeof head);
    put(s, data, CHUNK / 2);
    assert_memory_equal(target, data, CHUNK / 2);
    (void)coll_comm_fail(&s->comm, BASE_ERR_TIMEOUT, "%s", words);
    memset(target, 0x55, CHUNK);
    memcpy(mine, target, CHUNK);
    put(s, data + CHUNK / 2, CHUNK / 2);
    assert_memory_equal(target, mine, CHUNK);
    free(target); /* what comes now would be found by AddressSanitizer */
    s->number = 2;
    put_frame(s, COLL_FRAME_DATA, data, CHUNK, 10);
    close_stage(s);
}

static void failure_leaves_the_place_alone(void **state)
{
    (void)state;
    failure_with("no end");
    failure_with(""); /* as a peer may have told it */
}

/* An operation that did not wait for the peer has ended: the peer's line must show the same one. */
static void lines_are_compared_afterwards(void **state)
{
    (void)state;
    for (int differs = 0; differs < 2; differs++) {
        stage *s = open_stage(COLL_TCP_AUTH_MAC);
        coll_line *own = &s->comm.lines[1];
        own->descriptor = (coll_descriptor){.sequence = 1, .kind = COLL_BROADCAST, .count = 1};
        atomic_store(&own->word, s->op.word);
        s->comm.sequence = 1;
        put_line(s, differs != 0 ? coll_line_word(1, 0x4320) : s->op.word);
        assert_int_equal(s->comm.failed, differs != 0);
        if (differs != 0) {
            assert_int_equal(s->comm.failure.status, BASE_ERR_MISMATCH);
            assert_non_null(strstr(s->comm.failure.message, "disagree on operation #1"));
        }
        close_stage(s);
    }
}

/* Lines come one after the other: with one left out, others would not be compared, and a rank could
 * be further ahead than its own lines are kept. */
static void lines_come_in_turn(void **state)
{
    (void)state;
    static const uint64_t seconds[] = {0, 1, 2, 3, 33, UINT64_C(0xffffffff)};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        stage *s = open_stage(COLL_TCP_AUTH_MAC);
        put_line(s, s->op.word);
        assert_false(s->comm.failed);
        put_line(s, coll_line_word(seconds[i], 0x1234));
        assert_int_equal(s->comm.failed, seconds[i] != 2);
        if (seconds[i] != 2) {
            assert_int_equal(s->comm.failure.status, BASE_ERR_PEER);
            assert_non_null(strstr(s->comm.failure.message, "a lost or broken line"));
        }
        close_stage(s);
    }
}

/* Who has not shown that it has come as far may still need this rank's line. */
static void lines_that_were_not_answered_are_owed(void **state)
{
    (void)state;
    for (int answered = 0; answered < 2; answered++) {
        stage *s = open_stage(COLL_TCP_AUTH_OFF);
        s->comm.sequence = 1;
        if (answered != 0) {
            put_line(s, s->op.word);
        }
        assert_false(s->net.owed[PEER]);
        s->context.comms = NULL;
        coll_net_comm_close(&s->comm);
        assert_int_equal(s->net.owed[PEER], answered == 0);
        close_stage(s);
    }
}

static size_t drain(const stage *s, uint8_t *data, size_t size_bytes)
{
    const ssize_t got = recv(s->peer_end, data, size_bytes, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

/* Frames kept for company leave with the next ones, or by a flush, and always in order. */
static void company_keeps_the_order(void **state)
{
    (void)state;
    enum { FRAME = COLL_FRAME_HEAD_BYTES + 8 };
    static const coll_net_when when[] = {COLL_NET_SOON, COLL_NET_IDLY, COLL_NET_NOW, COLL_NET_IDLY};
    uint8_t wire[4 * FRAME + 1];
    size_t got = 0;
    stage *s = open_stage(COLL_TCP_AUTH_OFF);
    for (uint8_t i = 0; i < 4; i++) {
        const uint8_t body[8] = {i};
        coll_frame_head head = {
            .magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_CREDIT, .body_bytes = sizeof body};
        const coll_net_frames frame = {.heads = &head, .count = 1, .bodies = body};
        coll_conn_send(&s->context, s->conn, &frame, when[i]);
        got += drain(s, wire + got, sizeof wire - got);
        assert_int_equal(got, i < 2 ? 0 : 3 * FRAME);
        assert_int_equal(s->conn->held, when[i] != COLL_NET_NOW);
    }
    assert_true(coll_conn_flush(s->conn));
    assert_false(s->conn->held);
    got += drain(s, wire + got, sizeof wire - got);
    assert_int_equal(got, 4 * FRAME);
    for (uint8_t i = 0; i < 4; i++) {
        coll_frame_head head;
        memcpy(&head, wire + i * (size_t)FRAME, sizeof head);
        assert_int_equal(head.number, i);
        assert_int_equal(wire[i * (size_t)FRAME + sizeof head], i);
    }
    close_stage(s);
}

/* Several bodies at once are as many frames, each with its own tag, and what the socket does not
 * take at once comes later, unchanged. */
static void check_several(coll_tcp_auth auth)
{
    enum { BODY = 200 * 1024, COUNT = COLL_FRAMES_AT_ONCE };
    stage *s = open_stage(auth);
    stage *there = open_stage(auth);
    coll_frame_head heads[COUNT];
    uint8_t *data = malloc((size_t)COUNT * BODY);
    uint8_t *piece = malloc(BODY);
    assert_true(data != NULL && piece != NULL);
    fill(data, (size_t)COUNT * BODY);
    for (int i = 0; i < COUNT; i++) {
        heads[i] = (coll_frame_head){.magic = COLL_FRAME_MAGIC,
                                     .kind = COLL_FRAME_DATA,
                                     .comm_id = COMM_ID,
                                     .body_bytes = BODY};
    }
    there->comm.chunk_bytes = BODY;
    const coll_net_frames frames = {.heads = heads, .count = COUNT, .bodies = data};
    coll_conn_send(&s->context, s->conn, &frames, false);
    for (int i = 0; i < COUNT;) {
        const size_t got = drain(s, piece, BODY);
        put(there, piece, got);
        (void)coll_conn_flush(s->conn);
        const uint8_t *frame = coll_net_receive_begin(&there->comm, PEER, 0, BODY);
        assert_true(frame != NULL || got > 0);
        if (frame != NULL) {
            assert_memory_equal(frame, data + (size_t)i * BODY, BODY);
            coll_net_receive_end(&there->comm, PEER, 0);
            i++;
        }
    }
    assert_int_equal(coll_conn_backlog(s->conn), 0);
    free(piece);
    free(data);
    close_stage(there);
    close_stage(s);
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
    stage *s = open_stage(COLL_TCP_AUTH_MAC);
    stage *there = open_stage(COLL_TCP_AUTH_MAC);
    uint8_t data[2 * BODY_MAX];
    uint8_t wire[2 * (HEAD + BODY_MAX + TAG)];
    (void)state;
    fill(data, sizeof data);
    s->conn->packet_bytes = 300;
    s->conn->short_bytes_max = 250;
    for (uint32_t body = 1; body <= BODY_MAX; body++) {
        const coll_net_when when = body % 2 == 0 ? COLL_NET_SOON : COLL_NET_NOW;
        for (int i = 0; i < 2; i++) { /* the first alone, or kept for the second */
            coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                    .kind = COLL_FRAME_DATA,
                                    .comm_id = COMM_ID,
                                    .body_bytes = body};
            const coll_net_frames frames = {.heads = &head, .count = 1, .bodies = data + i * body};
            coll_conn_send(&s->context, s->conn, &frames, i == 0 ? when : COLL_NET_NOW);
        }
        put(there, wire, drain(s, wire, sizeof wire));
        for (int i = 0; i < 2; i++) {
            const uint8_t *frame = coll_net_receive_begin(&there->comm, PEER, 0, body);
            assert_non_null(frame);
            assert_memory_equal(frame, data + i * body, body);
            coll_net_receive_end(&there->comm, PEER, 0);
        }
    }
    close_stage(there);
    close_stage(s);
}

/* A frame is sent whole or not at all: where there is no memory to keep the rest of it, the peer
 * hears just that. */
static void check_no_memory_to_send(coll_tcp_auth auth)
{
    enum { BODY = COLL_FRAME_BODY_BYTES_MAX };
    static uint8_t piece[COLL_CONN_STAGE_BYTES];
    const int small = 4096;
    stage *s = open_stage(auth);
    stage *there = open_stage(auth);
    coll_frame_head head = {
        .magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_DATA, .comm_id = COMM_ID, .body_bytes = BODY};
    uint8_t *data = calloc(1, BODY);
    assert_non_null(data);
    assert_int_equal(setsockopt(s->conn->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    s->talks = true;
    no_memory = true;
    coll_conn_send(&s->context, s->conn,
                   &(coll_net_frames){.heads = &head, .count = 1, .bodies = data}, COLL_NET_NOW);
    no_memory = false;
    assert_true(s->comm.failed);
    for (size_t got = 1; got > 0 && !there->comm.failed;) {
        got = drain(s, piece, sizeof piece);
        put(there, piece, got);
        (void)coll_conn_flush(s->conn);
    }
    assert_true(there->comm.failed);
    assert_non_null(strstr(there->comm.failure.message, "no memory"));
    free(data);
    close_stage(there);
    close_stage(s);
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
    static const uint8_t body[CHUNK] = {1};
    (void)state;
    stage *s = open_stage(COLL_TCP_AUTH_MAC);
    coll_comm other = {.context = &s->context,
                       .table = &coll_tcp_transport,
                       .size = RANKS,
                       .ranks = {0, 1},
                       .id = COMM_ID + 1};
    s->comm.next = &other;
    no_memory = true;
    put_frame(s, COLL_FRAME_DATA, body, sizeof body, 0);
    no_memory = false;
    assert_int_equal(s->comm.failure.status, BASE_ERR_MEMORY);
    assert_false(other.failed);
    assert_true(coll_conn_listens(s->conn));
    close_stage(s);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_to_their_place),
        cmocka_unit_test(a_short_rest_goes_apart),
        cmocka_unit_test(a_place_comes_before_its_frames),
        cmocka_unit_test(other_frames_do_not),
        cmocka_unit_test(failure_leaves_the_place_alone),
        cmocka_unit_test(lines_are_compared_afterwards),
        cmocka_unit_test(lines_come_in_turn),
        cmocka_unit_test(lines_that_were_not_answered_are_owed),
        cmocka_unit_test(company_keeps_the_order),
        cmocka_unit_test(several_at_once_are_several),
        cmocka_unit_test(no_memory_to_send_is_told),
        cmocka_unit_test(no_memory_to_receive_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
