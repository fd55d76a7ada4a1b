/* Bodies of frames that stay with the links: they come out in order where they lie, and every loan
 * is given back once: when the plan has taken its frame, or with the communicator; also that of a
 * frame which broke the protocol. */
#include <stdlib.h>
#include <string.h>

#include "net_stage.h"
#include "support.h"
#include "transport/zmq/zmq.h"

enum { CHUNK = 1024, BYTES = 100 };

typedef struct stage {
    net_stage core; /* first */
    uint64_t number;
    int returned[COLL_NET_CREDITS + 1]; /* how often each loan came back */
} stage;

static void give_back(coll_context *context, void *loan)
{
    (void)context;
    ++*(int *)loan;
}

static const coll_net_links links = {.send = net_stage_send_nothing, .give_back = give_back};

static stage *open_stage(void)
{
    stage *s = net_stage_alloc(sizeof *s);
    net_stage_open(&s->core, &links, &coll_zmq_transport, CHUNK);
    return s;
}

/* Lends a frame; `claims` frames of ours are said to have been taken. */
static bool lend(stage *s, uint8_t *data, int *loan, uint32_t claims)
{
    uint8_t scratch[64];
    uint8_t *body = NULL;
    coll_comm *comm = NULL;
    const coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_DATA,
                                  .comm_id = STAGE_COMM_ID,
                                  .number = s->number++,
                                  .body_bytes = BYTES,
                                  .taken = {claims}};
    assert_int_equal(coll_net_find_body(&s->core.context, STAGE_PEER, &head, scratch, &body, &comm),
                     COLL_NET_LEND);
    assert_ptr_equal(comm, &s->core.comm);
    return coll_net_lend(comm, STAGE_PEER, &head, data, loan);
}

static void taken_ones_go_back(void **state)
{
    static uint8_t data[2 * COLL_NET_CREDITS][BYTES];
    stage *s = open_stage();
    (void)state;
    for (int i = 0; i < 2 * COLL_NET_CREDITS; i++) {
        assert_true(lend(s, data[i], &s->returned[0], 0));
        assert_int_equal(s->returned[0], i);
        assert_ptr_equal(coll_net_receive_begin(&s->core.comm, STAGE_PEER, 0, BYTES), data[i]);
        coll_net_receive_end(&s->core.comm, STAGE_PEER, 0);
        assert_int_equal(s->returned[0], i + 1);
    }
    net_stage_close(&s->core);
    assert_int_equal(s->returned[0], 2 * COLL_NET_CREDITS);
    free(s);
}

static void all_others_go_with_the_communicator(void **state)
{
    static uint8_t data[COLL_NET_CREDITS][BYTES];
    uint8_t *body = NULL;
    coll_comm *comm = NULL;
    stage *s = open_stage();
    (void)state;
    for (int i = 0; i < COLL_NET_CREDITS; i++) {
        assert_true(lend(s, data[i], &s->returned[i], 0));
    }
    const coll_frame_head more = {.magic = COLL_FRAME_MAGIC,
                                  .kind = COLL_FRAME_DATA,
                                  .comm_id = STAGE_COMM_ID,
                                  .body_bytes = BYTES};
    assert_int_equal(coll_net_find_body(&s->core.context, STAGE_PEER, &more, data[0], &body, &comm),
                     COLL_NET_BAD); /* there was no credit for it */
    assert_ptr_equal(coll_net_receive_begin(&s->core.comm, STAGE_PEER, 0, BYTES), data[0]);
    coll_net_receive_end(&s->core.comm, STAGE_PEER, 0);
    assert_int_equal(s->returned[1], 0);
    net_stage_close(&s->core);
    for (int i = 0; i < COLL_NET_CREDITS; i++) {
        assert_int_equal(s->returned[i], 1);
    }
    free(s);
}

/* A frame whose head claims that more was taken than we sent. */
static void refused_ones_go_back_too(void **state)
{
    static uint8_t data[BYTES];
    stage *s = open_stage();
    (void)state;
    assert_false(lend(s, data, &s->returned[0], 1000));
    assert_true(s->core.comm.failed);
    assert_null(coll_net_receive_begin(&s->core.comm, STAGE_PEER, 0, BYTES));
    assert_false(lend(s, data, &s->returned[1], 1000)); /* takes the same slot */
    assert_int_equal(s->returned[0], 1);
    net_stage_close(&s->core);
    assert_int_equal(s->returned[0], 1);
    assert_int_equal(s->returned[1], 1);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_ones_go_back),
        cmocka_unit_test(all_others_go_with_the_communicator),
        cmocka_unit_test(refused_ones_go_back_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
