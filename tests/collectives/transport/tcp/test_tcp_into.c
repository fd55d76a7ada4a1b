/* Where frames end up that come over a connection: data at the target that waits for them or in the
 * library's own memory, flags in their turn and compared. */
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "support.h"
#include "tcp_peer.h"

enum { BODIES = 3, TAIL = 100 };

/* What op waits for is written where it wants it, chunk after chunk, and taken without a copy. */
static void check_target(coll_tcp_auth auth)
{
    enum { BYTES = (BODIES - 1) * PEER_CHUNK + TAIL };
    uint8_t data[BYTES];
    uint8_t target[BYTES + 1] = {0};
    tcp_peer *p = tcp_peer_open(auth);
    net_stage_fill(data, sizeof data);
    coll_net_receive_into(&p->op, STAGE_PEER, 0, target, BYTES);
    tcp_peer_put_flag(p, p->op.word);
    for (size_t at = 0; at < BYTES; at += PEER_CHUNK) {
        const size_t part = BYTES - at < PEER_CHUNK ? (size_t)BYTES - at : PEER_CHUNK;
        tcp_peer_put_frame(p, COLL_FRAME_DATA, data + at, (uint32_t)part, part / 3);
    }
    for (size_t at = 0; at < BYTES; at += PEER_CHUNK) {
        const size_t part = BYTES - at < PEER_CHUNK ? (size_t)BYTES - at : PEER_CHUNK;
        assert_ptr_equal(coll_net_receive_begin(&p->here.core.comm, STAGE_PEER, 0, part),
                         target + at);
        coll_net_receive_end(&p->here.core.comm, STAGE_PEER, 0);
    }
    assert_memory_equal(target, data, BYTES);
    assert_int_equal(target[BYTES], 0);
    /* The target has been used up. */
    tcp_peer_put_frame(p, COLL_FRAME_DATA, data, PEER_CHUNK, 0);
    const uint8_t *frame = coll_net_receive_begin(&p->here.core.comm, STAGE_PEER, 0, PEER_CHUNK);
    assert_non_null(frame);
    assert_true(frame < target || frame >= target + sizeof target);
    assert_false(p->here.core.comm.failed);
    tcp_peer_close(p);
}

static void frames_come_to_their_target(void **state)
{
    (void)state;
    check_target(COLL_TCP_AUTH_OFF);
    check_target(COLL_TCP_AUTH_MAC);
    check_target(COLL_TCP_AUTH_ENCRYPT);
}

/* A target that is named while a frame is on its way is not that frame's, nor the next one's. */
static void a_place_comes_before_its_frames(void **state)
{
    (void)state;
    uint8_t data[PEER_CHUNK];
    uint8_t target[PEER_CHUNK] = {0};
    const uint8_t zero[PEER_CHUNK] = {0};
    tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_OFF);
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_DATA,
                                  .comm_id = STAGE_COMM_ID,
                                  .number = 1,
                                  .body_bytes = PEER_CHUNK};
    net_stage_fill(data, sizeof data);
    tcp_peer_put_flag(p, p->op.word);
    tcp_peer_put(p, &head, sizeof head);
    tcp_peer_put(p, data, 5);
    coll_net_receive_into(&p->op, STAGE_PEER, 0, target, PEER_CHUNK);
    tcp_peer_put(p, data + 5, sizeof data - 5);
    p->number = 2;
    tcp_peer_put_frame(p, COLL_FRAME_DATA, data, PEER_CHUNK, 7);
    for (int i = 0; i < 2; i++) {
        const uint8_t *frame =
            coll_net_receive_begin(&p->here.core.comm, STAGE_PEER, 0, PEER_CHUNK);
        assert_non_null(frame);
        assert_memory_equal(frame, data, PEER_CHUNK);
        coll_net_receive_end(&p->here.core.comm, STAGE_PEER, 0);
    }
    assert_memory_equal(target, zero, PEER_CHUNK);
    tcp_peer_close(p);
}

/* Frames of another operation than the one that waits, or of another size, do not touch it. */
static void other_frames_do_not(void **state)
{
    (void)state;
    uint8_t data[PEER_CHUNK];
    uint8_t target[PEER_CHUNK] = {0};
    const uint8_t zero[PEER_CHUNK] = {0};
    net_stage_fill(data, sizeof data);
    for (int other_size = 0; other_size < 2; other_size++) {
        tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_MAC);
        coll_net_receive_into(&p->op, STAGE_PEER, 0, target, PEER_CHUNK);
        tcp_peer_put_flag(p, other_size != 0 ? p->op.word : coll_flag_word(1, 0x4320));
        tcp_peer_put_frame(p, COLL_FRAME_DATA, data, PEER_CHUNK - (uint32_t)other_size, 9);
        assert_memory_equal(target, zero, sizeof zero);
        tcp_peer_close(p);
    }
}

/* Nor is more taken from a frame than has come. */
static void a_frame_has_the_size_that_is_due(void **state)
{
    uint8_t data[PEER_CHUNK];
    (void)state;
    for (size_t due = 99; due <= 101; due++) {
        tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_OFF);
        net_stage_fill(data, sizeof data);
        tcp_peer_put_flag(p, p->op.word);
        tcp_peer_put_frame(p, COLL_FRAME_DATA, data, 100, 0);
        const void *frame = coll_net_receive_begin(&p->here.core.comm, STAGE_PEER, 0, due);
        assert_int_equal(frame != NULL, due == 100);
        assert_int_equal(p->here.core.comm.failed, due != 100);
        if (due != 100) {
            assert_non_null(strstr(p->here.core.comm.failure.message, "a frame of 100 bytes, not"));
        }
        tcp_peer_close(p);
    }
}

/* Once the communicator has failed, the caller's memory is the caller's. */
static void failure_with(const char *message)
{
    uint8_t data[PEER_CHUNK];
    uint8_t mine[PEER_CHUNK];
    tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_OFF);
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_DATA,
                                  .comm_id = STAGE_COMM_ID,
                                  .number = 1,
                                  .body_bytes = PEER_CHUNK};
    uint8_t *target = malloc(PEER_CHUNK);
    assert_non_null(target);
    net_stage_fill(data, sizeof data);
    coll_net_receive_into(&p->op, STAGE_PEER, 0, target, PEER_CHUNK);
    tcp_peer_put_flag(p, p->op.word);
    tcp_peer_put(p, &head, sizeof head);
    tcp_peer_put(p, data, PEER_CHUNK / 2);
    assert_memory_equal(target, data, PEER_CHUNK / 2);
    (void)coll_comm_fail(&p->here.core.comm, COLL_ERR_TIMEOUT, "%s", message);
    memset(target, 0x55, PEER_CHUNK);
    memcpy(mine, target, PEER_CHUNK);
    tcp_peer_put(p, data + PEER_CHUNK / 2, PEER_CHUNK / 2);
    assert_memory_equal(target, mine, PEER_CHUNK);
    free(target); /* what comes now would be found by AddressSanitizer */
    p->number = 2;
    tcp_peer_put_frame(p, COLL_FRAME_DATA, data, PEER_CHUNK, 10);
    tcp_peer_close(p);
}

static void failure_leaves_the_target_alone(void **state)
{
    (void)state;
    failure_with("no end");
    failure_with(""); /* as a peer may have sent it */
}

/* An operation that did not wait for the peer has ended: the peer's flag must show the same one. */
static void lines_are_compared_afterwards(void **state)
{
    (void)state;
    for (int differs = 0; differs < 2; differs++) {
        tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_MAC);
        coll_flag *own = &p->here.core.comm.flags[1];
        own->descriptor = (coll_descriptor){.sequence = 1, .kind = COLL_BROADCAST, .count = 1};
        atomic_store(&own->word, p->op.word);
        p->here.core.comm.sequence = 1;
        tcp_peer_put_flag(p, differs != 0 ? coll_flag_word(1, 0x4320) : p->op.word);
        assert_int_equal(p->here.core.comm.failed, differs != 0);
        if (differs != 0) {
            assert_int_equal(p->here.core.comm.failure.status, COLL_ERR_MISMATCH);
            assert_non_null(strstr(p->here.core.comm.failure.message, "disagree on operation #1"));
        }
        tcp_peer_close(p);
    }
}

/* Flags come one after the other: with one left out, others would not be compared, and a rank could
 * be further ahead than its own flags are kept. */
static void lines_come_in_turn(void **state)
{
    (void)state;
    static const uint64_t seconds[] = {0, 1, 2, 3, 33, UINT64_C(0xffffffff)};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_MAC);
        tcp_peer_put_flag(p, p->op.word);
        assert_false(p->here.core.comm.failed);
        tcp_peer_put_flag(p, coll_flag_word(seconds[i], 0x1234));
        assert_int_equal(p->here.core.comm.failed, seconds[i] != 2);
        if (seconds[i] != 2) {
            assert_int_equal(p->here.core.comm.failure.status, COLL_ERR_PEER);
            assert_non_null(strstr(p->here.core.comm.failure.message, "a lost or broken flag"));
        }
        tcp_peer_close(p);
    }
}

/* Who has not shown that it has come as far may still need this rank's flag. */
static void lines_that_were_not_answered_are_owed(void **state)
{
    (void)state;
    for (int answered = 0; answered < 2; answered++) {
        tcp_peer *p = tcp_peer_open(COLL_TCP_AUTH_OFF);
        p->here.core.comm.sequence = 1;
        if (answered != 0) {
            tcp_peer_put_flag(p, p->op.word);
        }
        assert_false(p->here.core.net.owed[STAGE_PEER]);
        net_stage_close_comm(&p->here.core);
        assert_int_equal(p->here.core.net.owed[STAGE_PEER], answered == 0);
        tcp_peer_close(p);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_to_their_target),
        cmocka_unit_test(a_place_comes_before_its_frames),
        cmocka_unit_test(other_frames_do_not),
        cmocka_unit_test(a_frame_has_the_size_that_is_due),
        cmocka_unit_test(failure_leaves_the_target_alone),
        cmocka_unit_test(lines_are_compared_afterwards),
        cmocka_unit_test(lines_come_in_turn),
        cmocka_unit_test(lines_that_were_not_answered_are_owed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
