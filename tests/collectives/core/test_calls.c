/* What one rank can see to be wrong with communicators, arenas and operations by itself: refused, with
 * nothing lost. Ranks are threads. test_misuse.c has options and names. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

enum { RANKS = 3, ARENAS_MAX = 64, LISTS = 20 };

static void over_all(int size, test_rank_body body)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (int i = 0; i < 3; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size, .transport = transports[i]},
                              body);
    }
}

/* ---- communicators and arenas ---- */

static void lists_body(test_rank *rank)
{
    const int me = rank->rank;
    const int other = 1 - me;
    const struct {
        int ranks[3];
        int count;
    } cases[] = {{{me}, 0},     {{me}, -1},   {{0, 1, 2}, 3}, {{0, 0}, 2},
                 {{me, -1}, 2}, {{me, 2}, 2}, {{other}, 1},   {{me, 1 << 20}, 2}};
    coll_comm *comm = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RANK_CHECK(rank, coll_comm_create(rank->context, cases[i].ranks, cases[i].count, &comm,
                                          &rank->error) == COLL_ERR_INVALID);
        RANK_CHECK(rank, comm == NULL);
    }
    for (int i = 0; i < LISTS; i++) { /* alone, and together in either order */
        const int both[2] = {i % 2, 1 - i % 2};
        RANK_OK(rank, coll_comm_create(rank->context, i % 3 == 0 ? &me : both, i % 3 == 0 ? 1 : 2,
                                       &comm, &rank->error));
        int32_t sum = 1;
        RANK_OK(rank, coll_all_reduce(comm, &sum, &sum, 1, COLL_INT32, COLL_SUM, &rank->error));
        RANK_CHECK(rank, sum == coll_comm_size(comm));
        RANK_CHECK(rank, coll_comm_rank(comm) == (i % 3 == 0 ? 0 : both[me]));
        coll_comm_destroy(comm);
        comm = NULL;
    }
}

static void lists_that_cannot_be_are_refused(void **state)
{
    (void)state;
    over_all(2, lists_body);
}

static void arenas_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arenas[ARENAS_MAX] = {NULL};
    coll_arena *more = NULL;
    for (int i = 0; i < ARENAS_MAX; i++) {
        RANK_OK(rank, coll_arena_create(comm, i == 0 ? 0 : 100, &arenas[i], &rank->error));
    }
    RANK_CHECK(rank, coll_arena_create(comm, 100, &more, &rank->error) == COLL_ERR_LIMIT);
    RANK_CHECK(rank, more == NULL && test_has(rank->error.message, "more than 64 arenas"));
    coll_arena_destroy(arenas[7]);
    RANK_OK(rank, coll_arena_create(comm, 100, &arenas[7], &rank->error));
    int32_t *sum = coll_arena_data(arenas[7]);
    *sum = 1;
    RANK_OK(rank, coll_all_reduce(comm, sum, sum, 1, COLL_INT32, COLL_SUM, &rank->error));
    RANK_CHECK(rank, *sum == rank->size);
    for (int i = 0; i < ARENAS_MAX; i++) {
        coll_arena_destroy(arenas[i]);
    }
    RANK_CHECK(rank, coll_arena_create(comm, SIZE_MAX, &more, &rank->error) == COLL_ERR_LIMIT);
    RANK_CHECK(rank, more == NULL &&
                         test_has(rank->error.message, "18446744073709551615 bytes is too long"));
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void arenas_have_their_limits(void **state)
{
    (void)state;
    over_all(2, arenas_body);
}

/* ---- operations ---- */

static void again_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    coll_op *op = NULL;
    int32_t sum = rank->rank + 1;
    bool done = false;
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = COLL_ALL_REDUCE,
                         .send = &sum,
                         .recv = &sum,
                         .count = 1,
                         .type = COLL_INT32,
                         .reduce = COLL_SUM};
    RANK_OK(rank, coll_op_create(comm, &desc, &op, &rank->error));
    if (rank->rank == 0) { /* which cannot end before the other has begun */
        RANK_OK(rank, coll_op_start(op, &rank->error));
        RANK_CHECK(rank, coll_op_start(op, &rank->error) == COLL_ERR_STATE);
        RANK_CHECK(rank, test_has(rank->error.message, "under way already"));
        RANK_OK(rank, coll_op_test(op, &done, &rank->error));
        RANK_CHECK(rank, !done);
        RANK_OK(rank, coll_send(comm, &sum, 0, COLL_INT32, 1, &rank->error));
    } else {
        RANK_OK(rank, coll_receive(comm, NULL, 0, COLL_INT32, 0, &rank->error));
        RANK_OK(rank, coll_op_start(op, &rank->error));
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error)); /* it is done, and nobody has asked */
    RANK_CHECK(rank, coll_op_start(op, &rank->error) == COLL_ERR_STATE);
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error)); /* as often as one likes */
    RANK_CHECK(rank, sum == 3);
    RANK_OK(rank, coll_op_start(op, &rank->error));
    for (done = false; !done;) {
        RANK_OK(rank, coll_op_test(op, &done, &rank->error));
    }
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    coll_op_destroy(op);
    coll_request *none = NULL;
    RANK_OK(rank, coll_request_test(&none, &done, &rank->error));
    RANK_CHECK(rank, done);
    RANK_OK(rank, coll_request_wait(&none, &rank->error));
    desc.kind = (coll_kind)99;
    RANK_CHECK(rank, coll_start(comm, &desc, &none, &rank->error) == COLL_ERR_INVALID);
    desc.kind = COLL_ALL_REDUCE;
    desc.algorithm = (coll_algorithm)99;
    RANK_CHECK(rank, coll_start(comm, &desc, &none, &rank->error) == COLL_ERR_INVALID);
    desc.algorithm = COLL_ALGORITHM_AUTO;
    desc.reduce = (coll_reduce_op)(COLL_REDUCE_OP_LAST + 1);
    RANK_CHECK(rank, coll_start(comm, &desc, &none, &rank->error) == COLL_ERR_INVALID);
    desc.reduce = COLL_XOR;
    desc.type = COLL_FLOAT32;
    RANK_CHECK(rank, coll_start(comm, &desc, &none, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, test_has(rank->error.message, "xor is for integers, not float"));
    RANK_CHECK(rank, none == NULL);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void an_operation_is_started_once_at_a_time(void **state)
{
    (void)state;
    over_all(2, again_body);
}

/* An operation may outlive its communicator: it fails then, and is destroyed as ever. */
static void orphans_body(test_rank *rank)
{
    enum { KINDS = 4 };
    coll_comm *comm = NULL;
    coll_op *ops[KINDS] = {NULL};
    coll_request *request = NULL;
    bool done = false;
    int32_t value = rank->rank;
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = COLL_ALL_REDUCE,
                         .send = &value,
                         .recv = &value,
                         .count = 1,
                         .type = COLL_INT32,
                         .reduce = COLL_SUM};
    RANK_OK(rank, coll_comm_split(coll_context_world(rank->context), 0, 0, &comm, &rank->error));
    for (int i = 0; i < KINDS; i++) { /* idle, done, under way, and a message under way */
        desc.kind = i == 3 ? COLL_RECEIVE : COLL_ALL_REDUCE;
        desc.root = i == 3 ? 1 - rank->rank : 0;
        RANK_OK(rank, coll_op_create(comm, &desc, &ops[i], &rank->error));
    }
    RANK_OK(rank, coll_op_start(ops[1], &rank->error));
    RANK_OK(rank, coll_op_wait(ops[1], &rank->error));
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
    if (rank->rank == 0) {
        desc.kind = COLL_ALL_REDUCE;
        desc.root = 0;
        RANK_OK(rank, coll_op_start(ops[2], &rank->error));
        RANK_OK(rank, coll_op_start(ops[3], &rank->error));
        RANK_OK(rank, coll_start(comm, &desc, &request, &rank->error));
    }
    coll_comm_destroy(comm);
    for (int i = 0; i < KINDS; i++) {
        RANK_CHECK(rank, coll_op_wait(ops[i], &rank->error) == COLL_ERR_STATE);
        RANK_CHECK(
            rank, test_has(rank->error.message, "the operation's communicator has been destroyed"));
        RANK_CHECK(rank, coll_op_test(ops[i], &done, &rank->error) == COLL_ERR_STATE && !done);
        RANK_CHECK(rank, coll_op_start(ops[i], &rank->error) == COLL_ERR_STATE);
        coll_op_destroy(ops[i]);
    }
    RANK_CHECK(rank, coll_request_wait_all(&request, 1, &rank->error) ==
                         (rank->rank == 0 ? COLL_ERR_STATE : COLL_OK));
    RANK_CHECK(rank, request == NULL);
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
}

static void an_operation_without_its_communicator_fails(void **state)
{
    (void)state;
    over_all(2, orphans_body);
}

/* What no call can do anything with; the communicator goes on. */
static void arguments_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    coll_comm *made = NULL;
    coll_error *error = &rank->error;
    int32_t values[2 * RANKS] = {0};
    const size_t counts[2] = {1, 1};
    bool done = false;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc), .kind = COLL_BARRIER};
    RANK_CHECK(rank, coll_all_to_all_v(comm, values, NULL, values + 2, NULL, COLL_INT32, error) ==
                         COLL_ERR_INVALID);
    RANK_CHECK(rank, test_has(rank->error.message, "no send_counts"));
    RANK_CHECK(rank, coll_all_to_all_v(comm, values, counts, values + 2, NULL, COLL_INT32, error) ==
                         COLL_ERR_INVALID);
    RANK_CHECK(rank,
               coll_gather_v(comm, values, values, NULL, COLL_INT32, 0, error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, test_has(rank->error.message, "gather with counts has no counts"));
    RANK_CHECK(rank, coll_reduce(comm, values, values, 1, COLL_INT32, COLL_SUM, RANKS, error) ==
                         COLL_ERR_INVALID);
    RANK_CHECK(rank, coll_start(comm, &desc, NULL, error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, coll_request_wait(NULL, error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, coll_request_test(NULL, &done, error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, coll_request_wait_all(NULL, 3, error) == COLL_ERR_INVALID);
    RANK_OK(rank, coll_request_wait_all(NULL, 0, error));
    RANK_CHECK(rank, coll_comm_create(rank->context, NULL, 2, &made, error) == COLL_ERR_INVALID);
    RANK_OK(rank, coll_barrier(comm, error));
}

static void arguments_that_cannot_be_are_refused(void **state)
{
    (void)state;
    over_all(2, arguments_body);
}

/* Until the other rank, a thread of this process, has come so far. */
static void await(atomic_bool *flag)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (!atomic_load(flag) && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
}

/* The communicator fails for both: one side's buffers are gone. */
static void dropped_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    coll_op *op = NULL;
    enum { LENGTH = 1000 };
    static int32_t data[2][LENGTH];
    static atomic_bool ready;
    static atomic_bool dropped; /* until then rank 1 does no part of it */
    static atomic_bool received;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = data[rank->rank],
                               .recv = data[rank->rank],
                               .count = LENGTH,
                               .type = COLL_INT32,
                               .reduce = COLL_SUM};
    if (rank->rank == 1) {
        atomic_store(&dropped, false);
        atomic_store(&received, false);
        atomic_store(&ready, true);
    }
    if (rank->rank == 0) {
        await(&ready);
        atomic_store(&ready, false);
        RANK_OK(rank, coll_op_create(comm, &desc, &op, &rank->error));
        RANK_OK(rank, coll_op_start(op, &rank->error));
        coll_op_destroy(op);
        atomic_store(&dropped, true);
        RANK_CHECK(rank, coll_barrier(comm, &rank->error) == COLL_ERR_STATE);
        RANK_CHECK(rank, test_has(rank->error.message, "destroyed under way"));
    } else {
        await(&dropped);
        coll_status status = coll_run(comm, &desc, &rank->error);
        if (status == COLL_OK) { /* rank 0 had given its part */
            status = coll_barrier(comm, &rank->error);
        }
        RANK_CHECK(rank, status == COLL_ERR_PEER);
        RANK_CHECK(rank, test_has(rank->error.message, "rank 0 (host") &&
                             test_has(rank->error.message, "destroyed under way"));
        atomic_store(&received, true);
    }
    await(&received); /* here still, and so is its message */
}

static void an_operation_destroyed_under_way_is_told(void **state)
{
    (void)state;
    over_all(2, dropped_body);
}

/* A rank that waits for one whose program gives up is notified, with the reason. */
static void abort_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    static atomic_bool passed; /* rank 1 has nothing to receive in the first barrier any more */
    static atomic_bool received;
    const char *message =
        rank->rank == 0 ? "aborted: no more money" : ") was aborted: no more money";
    if (rank->rank == 1) {
        atomic_store(&passed, false);
        atomic_store(&received, false);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 1) {
        atomic_store(&passed, true);
    }
    await(&passed);
    if (rank->rank == 0) {
        coll_context_abort(rank->context, "no more money");
        RANK_CHECK(rank, coll_context_progress(rank->context, &rank->error) == COLL_ERR_ABORTED);
    }
    RANK_CHECK(rank, coll_barrier(comm, &rank->error) == COLL_ERR_ABORTED);
    RANK_CHECK(rank, test_has(rank->error.message, message));
    RANK_CHECK(rank, rank->rank == 0 || test_has(rank->error.message, "rank 0 (host"));
    coll_comm *split = comm; /* stays what it was */
    RANK_CHECK(rank, coll_comm_split(comm, 0, 0, &split, &rank->error) == COLL_ERR_ABORTED);
    RANK_CHECK(rank, split == comm);
    if (rank->rank == 1) {
        atomic_store(&received, true);
    }
    await(&received); /* elsewhere, and not gone */
}

static void an_abort_is_told(void **state)
{
    (void)state;
    over_all(2, abort_body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_that_cannot_be_are_refused),
        cmocka_unit_test(arenas_have_their_limits),
        cmocka_unit_test(an_operation_is_started_once_at_a_time),
        cmocka_unit_test(an_operation_without_its_communicator_fails),
        cmocka_unit_test(arguments_that_cannot_be_are_refused),
        cmocka_unit_test(an_operation_destroyed_under_way_is_told),
        cmocka_unit_test(an_abort_is_told),
    };
    return cmocka_run_group_tests_name("coll-calls", tests, NULL, NULL);
}
