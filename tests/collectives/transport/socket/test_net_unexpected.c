/* Frames for communicators that a rank is yet to make: they wait for it, the newest of too many,
 * and those for one that has been closed do not. */
#include <stdlib.h>
#include <string.h>

#include "net_stage.h"
#include "support.h"
#include "transport/socket/comm.h"
#include "transport/tcp/tcp.h"

enum { FIRST_ID = 1000, MORE = 10, COMMS = COLL_UNEXPECTED_MAX + MORE };

static bool no_memory; /* for libcoll */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

static const coll_net_links links = {.send = net_stage_send_nothing};

static net_stage *open_stage(void)
{
    net_stage *s = net_stage_alloc(sizeof *s);
    net_stage_open(s, &links, &coll_tcp_transport, 1024);
    return s;
}

static void close_stage(net_stage *s)
{
    net_stage_close(s);
    free(s);
}

/* The peer is at the first operation of a communicator; `mark` tells one flag from the next. */
static void receive_flag(net_stage *s, uint64_t comm_id, uint16_t mark)
{
    uint8_t body[COLL_FRAME_FLAG_BYTES] = {0};
    const uint64_t word = coll_flag_word(1, mark);
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_FLAG,
                                  .comm_id = comm_id,
                                  .body_bytes = sizeof body};
    memcpy(body, &word, sizeof word);
    assert_true(coll_net_commit(&s->context, STAGE_PEER, &head, body));
}

static void open_comm(net_stage *s, coll_comm *comm, uint64_t id)
{
    coll_error error = {.message = ""};
    *comm = s->comm;
    comm->net = NULL;
    comm->flags = NULL;
    comm->id = id;
    comm->next = s->context.comms;
    memset(comm->peers, 0, sizeof comm->peers);
    s->context.comms = comm;
    assert_ok(coll_net_comm_open(comm, 0, &error), &error);
}

static void close_comm(net_stage *s, coll_comm *comm)
{
    s->context.comms = comm->next;
    coll_net_comm_close(comm);
}

/* What the peer has shown in a communicator that is made now; 0: nothing. */
static uint64_t shown(net_stage *s, uint64_t id)
{
    coll_comm comm;
    open_comm(s, &comm, id);
    const uint64_t word = atomic_load(&comm.peers[STAGE_PEER].flags[1].word);
    const coll_net_comm *link = comm.net;
    assert_int_equal(link->newest[STAGE_PEER], word != 0);
    assert_false(comm.failed);
    close_comm(s, &comm);
    return word;
}

static void the_newest_of_too_many_are_kept(void **state)
{
    net_stage *s = open_stage();
    (void)state;
    for (int i = 0; i < COMMS; i++) {
        receive_flag(s, (uint64_t)(FIRST_ID + i), (uint16_t)(2 * (i + 1)));
    }
    for (int i = COMMS - 1; i >= 0; i--) {
        const uint64_t expected = i < MORE ? 0 : coll_flag_word(1, (uint16_t)(2 * (i + 1)));
        assert_int_equal(shown(s, (uint64_t)(FIRST_ID + i)), expected);
    }
    close_stage(s);
}

static void those_for_closed_ones_are_not(void **state)
{
    net_stage *s = open_stage();
    (void)state;
    assert_int_equal(shown(s, FIRST_ID), 0);
    receive_flag(s, FIRST_ID, 2);
    assert_int_equal(s->net.unexpected_count, 0);
    receive_flag(s, FIRST_ID + 1, 2);
    assert_int_equal(s->net.unexpected_count, 1);
    close_stage(s); /* with one that nobody came for */
}

/* The peer's failure there is this rank's as soon as it comes there. */
static void failures_wait_as_well(void **state)
{
    static const char message[] = "rank 1 (host h, pid 42) wants what cannot be";
    uint8_t body[COLL_FRAME_REASON_BYTES] = {0};
    const int32_t status = COLL_ERR_MISMATCH;
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_FAILED,
                                  .comm_id = FIRST_ID,
                                  .body_bytes = 24 + sizeof message - 1};
    coll_comm comm;
    net_stage *s = open_stage();
    (void)state;
    memcpy(body + 8, &status, sizeof status);
    memcpy(body + 24, message, sizeof message - 1);
    assert_true(coll_net_commit(&s->context, STAGE_PEER, &head, body));
    assert_false(s->comm.failed);
    open_comm(s, &comm, FIRST_ID);
    assert_true(comm.failed);
    assert_int_equal(comm.failure.status, COLL_ERR_MISMATCH);
    assert_string_equal(comm.failure.message, message);
    close_comm(s, &comm);
    close_stage(s);
}

static void one_without_memory_is_told_of(void **state)
{
    coll_comm comm;
    net_stage *s = open_stage();
    (void)state;
    no_memory = true;
    receive_flag(s, FIRST_ID, 2);
    no_memory = false;
    open_comm(s, &comm, FIRST_ID);
    assert_true(comm.failed);
    assert_int_equal(comm.failure.status, COLL_ERR_MEMORY);
    assert_string_equal(comm.failure.message, "no memory for what rank 1 has sent");
    close_comm(s, &comm);
    assert_int_equal(shown(s, FIRST_ID + 1), 0); /* others go on */
    close_stage(s);
}

/* What no frame of the kind can be, for whomever it is. */
static void frames_that_cannot_be_are_refused(void **state)
{
    static const coll_frame_head cases[] = {
        {.kind = COLL_FRAME_HELLO},
        {.kind = COLL_FRAME_FLAG, .body_bytes = COLL_FRAME_FLAG_BYTES - 1},
        {.kind = COLL_FRAME_FLAG, .body_bytes = COLL_FRAME_FLAG_BYTES + COLL_INLINE_BYTES_MAX + 1},
        {.kind = COLL_FRAME_FAILED, .body_bytes = 24},
        {.kind = COLL_FRAME_WAITS, .body_bytes = 7},
        {.kind = COLL_FRAME_WAITS, .body_bytes = 9},
        {.kind = COLL_FRAME_FAILED, .body_bytes = COLL_FRAME_REASON_BYTES + 1},
        {.kind = COLL_FRAME_CREDIT, .body_bytes = 1},
    };
    static const uint8_t body[COLL_FRAME_BODY_BYTES_MAX];
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof cases[0]); i++) {
        net_stage *s = open_stage();
        coll_frame_head head = cases[i / 2];
        head.magic = COLL_FRAME_MAGIC;
        head.comm_id = i % 2 == 0 ? (uint64_t)STAGE_COMM_ID : (uint64_t)FIRST_ID;
        assert_false(coll_net_commit(&s->context, STAGE_PEER, &head, body));
        assert_true(s->comm.failed);
        assert_non_null(strstr(s->comm.failure.message, "broke the protocol"));
        assert_int_equal(s->net.unexpected_count, 0);
        close_stage(s);
    }
}

/* Nor does a flag have more with it than there is room for: less of it, the more ranks. */
static void lines_have_room_for_so_much(void **state)
{
    static const uint8_t body[COLL_FRAME_BODY_BYTES_MAX];
    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        net_stage *s = open_stage();
        const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                      .kind = COLL_FRAME_FLAG,
                                      .comm_id = STAGE_COMM_ID,
                                      .body_bytes = COLL_FRAME_FLAG_BYTES + 64 + over};
        s->comm.inline_bytes = 64;
        assert_int_equal(coll_net_commit(&s->context, STAGE_PEER, &head, body), over == 0);
        assert_non_null(strstr(s->comm.failure.message,
                               over == 0 ? "a lost or broken flag" : "broke the protocol"));
        close_stage(s);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_of_too_many_are_kept),
        cmocka_unit_test(those_for_closed_ones_are_not),
        cmocka_unit_test(failures_wait_as_well),
        cmocka_unit_test(one_without_memory_is_told_of),
        cmocka_unit_test(frames_that_cannot_be_are_refused),
        cmocka_unit_test(lines_have_room_for_so_much),
    };
    return cmocka_run_group_tests_name("coll-net-unexpected", tests, NULL, NULL);
}
