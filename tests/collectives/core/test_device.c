/* Operations on streams over the fake device: results, graphs, groups, what is refused, what is
 * compared, how it ends. test_device_faults.c has what fails. */
#include "device_rank.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- results ---- */

static void sum_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const coll_op_desc desc = device_all_reduce(r, DEVICE_COUNT);
    coll_op *op = NULL;
    bool done = false;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, coll_op_algorithm(op) == COLL_ALGORITHM_DIRECT);
    RANK_CHECK(rank, coll_op_wait(op, &rank->error) == COLL_ERR_STATE);
    RANK_CHECK(rank, r->recv[0] == -1); /* the first run was on memory of the backend's */
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_start(op, &rank->error)); /* behind the first, on the stream */
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    RANK_CHECK(rank, device_is_sum(r, DEVICE_COUNT));
    RANK_OK(rank, coll_op_start(op, &rank->error));
    while (!done) {
        RANK_OK(rank, coll_op_test(op, &done, &rank->error));
    }
    uint64_t started = 0;
    uint64_t finished = 0;
    coll_device_progress(r->comm, &started, &finished);
    RANK_CHECK(rank, started == 3 && finished == 3);
    RANK_CHECK(rank, coll_comm_operations(r->comm, COLL_ALL_REDUCE) == 3);
    coll_op_destroy(op);
    RANK_CHECK(rank, atomic_load(&r->device->ops) == 0);
    RANK_OK(rank, coll_comm_finalize(r->comm, &rank->error));
    RANK_CHECK(rank, atomic_load(&r->device->closed) == 1);
}

static void sums_are_canonical_on_any_number_of_ranks(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (int ranks = 1; ranks <= DEVICE_RANKS_MAX; ranks++) {
        for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
            device_case c = {.ranks = ranks, .transport = transports[t], .body = sum_body};
            device_case_run(&c);
            for (int rank = 0; rank < ranks; rank++) {
                assert_int_equal(atomic_load(&c.devices[rank].opened), 1);
                assert_int_equal(atomic_load(&c.devices[rank].aborted), 0);
                assert_int_equal(atomic_load(&c.devices[rank].released), 1);
            }
        }
    }
}

/* Each kind, host buffers beside them, and communicators beside the world. */
static void kinds_body(device_rank *r)
{
    test_rank *rank = r->rank;
    int32_t mine = 100 + rank->rank;
    int32_t all[DEVICE_RANKS_MAX] = {0};
    coll_comm *half = NULL;
    coll_op *ops[3] = {NULL};
    RANK_OK(rank, coll_comm_split(r->comm, rank->rank % 2, 0, &half, &rank->error));
    coll_op_desc desc = {.size = sizeof desc,
                         .kind = COLL_ALL_GATHER,
                         .send = &mine,
                         .recv = all,
                         .count = 1,
                         .type = COLL_INT32,
                         .stream = r->stream};
    RANK_OK(rank, coll_op_create(r->comm, &desc, &ops[0], &rank->error));
    RANK_CHECK(rank, coll_op_algorithm(ops[0]) == COLL_ALGORITHM_NATIVE);
    int32_t shared = rank->rank == 0 ? 7 : 0;
    desc.kind = COLL_BROADCAST;
    desc.send = &shared;
    desc.recv = &shared;
    RANK_OK(rank, coll_op_create(half, &desc, &ops[1], &rank->error));
    desc.kind = COLL_BARRIER;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &ops[2], &rank->error));
    for (int i = 0; i < 3; i++) {
        RANK_OK(rank, coll_op_start(ops[i], &rank->error));
    }
    int32_t sum = 0;
    RANK_OK(rank, coll_all_reduce(r->comm, &mine, &sum, 1, COLL_INT32, COLL_SUM, &rank->error));
    RANK_CHECK(rank, sum == 4 * 100 + 6);
    RANK_OK(rank, coll_device_wait(r->comm, r->stream, &rank->error));
    for (int i = 0; i < 4; i++) {
        RANK_CHECK(rank, all[i] == 100 + i);
    }
    RANK_CHECK(rank, shared == (rank->rank % 2 == 0 ? 7 : 0));
    for (int i = 0; i < 3; i++) {
        coll_op_destroy(ops[i]);
    }
    coll_comm_destroy(half);
}

static void kinds_and_communicators_stand_beside_each_other(void **state)
{
    (void)state;
    device_case c = {.ranks = 4, .body = kinds_body};
    device_case_run(&c);
    assert_int_equal(atomic_load(&c.devices[0].opened), 2);
    assert_int_equal(atomic_load(&c.devices[0].released), 2);
}

static void algorithm_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op_desc desc = device_all_reduce(r, DEVICE_COUNT);
    coll_op *op = NULL;
    int32_t one = 1;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, coll_op_algorithm(op) == COLL_ALGORITHM_NATIVE);
    coll_op_destroy(op);
    desc.algorithm = COLL_ALGORITHM_DIRECT;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, coll_op_algorithm(op) == COLL_ALGORITHM_DIRECT);
    coll_op_destroy(op);
    desc.algorithm = COLL_ALGORITHM_NATIVE;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, coll_op_algorithm(op) == COLL_ALGORITHM_NATIVE);
    coll_op_destroy(op);
    RANK_CHECK(rank, coll_context_algorithm(r->context) == COLL_ALGORITHM_DIRECT); /* the CPU's */
    RANK_OK(rank, coll_all_reduce(r->comm, &one, &one, 1, COLL_INT32, COLL_SUM, &rank->error));
    RANK_CHECK(rank, one == 2);
}

static void native_is_chosen_by_the_context(void **state)
{
    (void)state;
    device_case c = {.ranks = 2, .algorithm = COLL_ALGORITHM_NATIVE, .body = algorithm_body};
    device_case_run(&c);
}

static void without_backend_body(test_rank *rank)
{
    coll_context *context = NULL;
    const coll_context_options options = test_rank_options(rank);
    RANK_CHECK(rank, coll_context_create(&options, &context, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, strstr(rank->error.message, "RINGFENCE_COLL_ALGORITHM: the algorithm native "
                                                 "is a backend's") != NULL);
}

static void native_is_chosen_by_the_environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("RINGFENCE_COLL_ALGORITHM", "native", 1), 0);
    device_case c = {.ranks = 2, .body = algorithm_body};
    device_case_run(&c);
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, without_backend_body);
    assert_int_equal(unsetenv("RINGFENCE_COLL_ALGORITHM"), 0);
}

/* ---- groups, graphs, memory ---- */

static void group_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const coll_op_desc desc = device_all_reduce(r, DEVICE_COUNT);
    coll_op *op = NULL;
    bool done = false;
    RANK_CHECK(rank, coll_group_begin(r->comm, &rank->error) == COLL_ERR_STATE); /* no device */
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, coll_group_end(r->comm, &rank->error) == COLL_ERR_STATE);
    RANK_OK(rank, coll_group_begin(r->comm, &rank->error));
    RANK_CHECK(rank, coll_group_begin(r->comm, &rank->error) == COLL_ERR_STATE);
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_CHECK(rank, coll_op_test(op, &done, &rank->error) == COLL_ERR_STATE);
    RANK_OK(rank, coll_group_end(r->comm, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    RANK_CHECK(rank, device_is_sum(r, DEVICE_COUNT));
    RANK_CHECK(rank, atomic_load(&r->device->groups) == 1);
    coll_op_destroy(op);
}

static void groups_are_launched_together(void **state)
{
    (void)state;
    device_case c = {.ranks = 2, .body = group_body};
    device_case_run(&c);
}

static void graphs_hold_operations(void **state)
{
    (void)state;
    device_case c = {.ranks = 3, .body = device_graph_body};
    device_case_run(&c);
}

static void memory_body(device_rank *r)
{
    test_rank *rank = r->rank;
    void *memory = NULL;
    RANK_CHECK(rank, coll_device_alloc(r->comm, 64, &memory, &rank->error) == COLL_ERR_STATE);
    RANK_OK(rank, coll_device_open(r->comm, &rank->error));
    RANK_OK(rank, coll_device_open(r->comm, &rank->error)); /* open already */
    RANK_OK(rank, coll_device_alloc(r->comm, 64, &memory, &rank->error));
    RANK_CHECK(rank, memory != NULL && atomic_load(&r->device->allocated) == 1);
    coll_device_free(r->comm, memory);
    RANK_CHECK(rank, atomic_load(&r->device->allocated) == 0);
}

static void memory_comes_from_the_device(void **state)
{
    (void)state;
    device_case c = {.ranks = 2, .body = memory_body};
    device_case_run(&c);
}

/* ---- what is refused ---- */

static void refused_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const size_t counts[2] = {1, 1};
    const coll_op_desc good = device_all_reduce(r, DEVICE_COUNT);
    coll_op *op = NULL;
    coll_op_desc desc = good;
    desc.type = COLL_FLOAT64;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, device_says(r, "fake does not have all_reduce of double"));
    desc = good;
    desc.reduce = COLL_MAX;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    desc = good;
    desc.kind = COLL_EXSCAN;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, device_says(r, "fake does not have exscan of float"));
    desc = good;
    desc.kind = COLL_SEND;
    desc.root = 1 - rank->rank;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    desc = good;
    desc.algorithm = COLL_ALGORITHM_RING;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, device_says(r, "direct and native, not ring"));
    desc = good;
    desc.kind = COLL_ALL_GATHER;
    desc.counts = counts;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    desc.kind = COLL_ALL_TO_ALL;
    desc.recv_counts = counts;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, device_says(r, "fake does not have alltoall with counts of float"));
    desc.kind = COLL_ALL_GATHER;
    desc.counts = NULL;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, device_says(r, "fake does not have all_gather with counts of float"));
    desc = good;
    desc.reduction = &(coll_reduction){.size = sizeof(coll_reduction)};
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, device_says(r, "no reductions of the program's own"));
    desc = good;
    desc.recv = r->send + 1;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, coll_run(r->comm, &good, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, device_says(r, "coll_op_create"));
    RANK_CHECK(rank, op == NULL);
    RANK_CHECK(rank, atomic_load(&r->device->opened) == 0);
    RANK_OK(rank, coll_op_create(r->comm, &good, &op, &rank->error)); /* nothing has failed */
    coll_op_destroy(op);
}

static void what_the_backend_lacks_is_refused(void **state)
{
    (void)state;
    device_case c = {.ranks = 2, .body = refused_body};
    device_case_run(&c);
}

static void options_body(test_rank *rank)
{
    coll_backend other = fake_backend;
    coll_context *context = NULL;
    coll_context_options options = test_rank_options(rank);
    options.algorithm = COLL_ALGORITHM_NATIVE;
    RANK_CHECK(rank, coll_context_create(&options, &context, &rank->error) == COLL_ERR_INVALID);
    options.algorithm = COLL_ALGORITHM_AUTO;
    options.backend = &other;
    other.abi = COLL_BACKEND_ABI + 1;
    RANK_CHECK(rank, coll_context_create(&options, &context, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, strstr(rank->error.message, "ABI 3") != NULL);
    options.backend = NULL;
    RANK_OK(rank, coll_context_create(&options, &context, &rank->error));
    float value = 1;
    coll_op *op = NULL;
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = &value,
                               .recv = &value,
                               .count = 1,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .stream = &value};
    coll_comm *world = coll_context_world(context);
    RANK_CHECK(rank, coll_op_create(world, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, coll_device_open(world, &rank->error) == COLL_ERR_UNSUPPORTED);
    RANK_OK(rank, coll_device_ended(world, &rank->error));
    coll_context_destroy(context);
}

static void streams_need_a_backend_of_this_abi(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, options_body);
}

/* ---- what is compared ---- */

static void mismatch_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op_desc desc = device_all_reduce(r, DEVICE_COUNT);
    coll_op *op = NULL;
    desc.count -= (size_t)rank->rank;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, device_says(r, "op_create on a stream of all_reduce float × 1000"));
    RANK_CHECK(rank, device_says(r, "op_create on a stream of all_reduce float × 999"));
    RANK_CHECK(rank, op == NULL);
    RANK_OK(rank, coll_device_ended(r->comm, &rank->error));
    RANK_CHECK(rank, atomic_load(&r->device->aborted) == 1);
}

static void operations_are_compared_when_made(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP};
    for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
        device_case c = {.ranks = 2, .transport = transports[t], .body = mismatch_body};
        device_case_run(&c);
    }
}

static void capture_mismatch_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const coll_op_desc desc = device_all_reduce(r, DEVICE_COUNT);
    coll_op *ops[2] = {NULL};
    RANK_OK(rank, coll_op_create(r->comm, &desc, &ops[0], &rank->error));
    RANK_OK(rank, coll_op_create(r->comm, &desc, &ops[1], &rank->error));
    fake_capture_begin(r->stream);
    const coll_status status = coll_op_start(ops[rank->rank], &rank->error);
    fake_graph_destroy(fake_capture_end(r->stream));
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, device_says(r, "capture of operation 1 on a stream"));
    RANK_CHECK(rank, device_says(r, "capture of operation 2 on a stream"));
    coll_op_destroy(ops[0]);
    coll_op_destroy(ops[1]);
    RANK_CHECK(rank, atomic_load(&r->device->ops) == 0);
}

static void operations_are_compared_when_captured(void **state)
{
    (void)state;
    device_case c = {.ranks = 2, .body = capture_mismatch_body};
    device_case_run(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_canonical_on_any_number_of_ranks),
        cmocka_unit_test(kinds_and_communicators_stand_beside_each_other),
        cmocka_unit_test(native_is_chosen_by_the_context),
        cmocka_unit_test(native_is_chosen_by_the_environment),
        cmocka_unit_test(groups_are_launched_together),
        cmocka_unit_test(graphs_hold_operations),
        cmocka_unit_test(memory_comes_from_the_device),
        cmocka_unit_test(what_the_backend_lacks_is_refused),
        cmocka_unit_test(streams_need_a_backend_of_this_abi),
        cmocka_unit_test(operations_are_compared_when_made),
        cmocka_unit_test(operations_are_compared_when_captured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
