/* The NCCL backend's own source over a fake GPU: every kind beside the same operation on the CPU,
 * groups and graphs, one GPU for two ranks, and every way to fail. What this cannot show is what
 * NCCL and the kernels do on a GPU. */
#include "coll/nccl.h"
#include "device_rank.h"
#include "fake_gpu.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { RANKS_MAX = DEVICE_RANKS_MAX, COUNT_MAX = 103, VICTIM = 1 };

typedef struct nccl_case {
    device_case device;
    bool shares_gpu;
    bool mixes_cards;
    bool calls_alone;
    fake_gpu gpus[RANKS_MAX];
    coll_nccl_options options[RANKS_MAX];
} nccl_case;

static nccl_case *case_of(const device_rank *r)
{
    return (nccl_case *)(void *)r->job;
}

static fake_gpu *gpu_of(const device_rank *r)
{
    return &case_of(r)->gpus[r->rank->rank];
}

static void prepare(device_rank *r, coll_context_options *options)
{
    nccl_case *c = case_of(r);
    coll_nccl_options *nccl = &c->options[r->rank->rank];
    *nccl = (coll_nccl_options){.size = sizeof *nccl,
                                .device = r->rank->rank,
                                .shares_gpu = c->shares_gpu,
                                .mixes_cards = c->mixes_cards,
                                .calls_alone = c->calls_alone};
    options->backend = &coll_nccl_backend;
    options->backend_user = nccl;
    fake_gpu_use(gpu_of(r));
    gpu_of(r)->stream = r->stream;
}

/* GPUs get different UUIDs, but where the caller has set them. */
static void run_case(nccl_case *c)
{
    c->device.prepare = prepare;
    for (int rank = 0; rank < c->device.ranks; rank++) {
        c->gpus[rank].uuid = c->gpus[rank].uuid != 0 ? c->gpus[rank].uuid : 0x1000 + rank;
    }
    device_case_run(&c->device);
    fake_nccl_reset();
    assert_int_equal(fake_gpu_alive(), 0);
}

/* ---- every kind ---- */

/* The operation on the GPU, twice, and the same one on the CPU. */
static void compare(device_rank *r, coll_op_desc desc)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    float wanted[DEVICE_FLOATS];
    device_fill(r);
    memcpy(wanted, r->recv, sizeof wanted);
    desc.size = sizeof desc;
    desc.type = desc.type != 0 ? desc.type : COLL_FLOAT32;
    desc.send = r->send;
    desc.recv = wanted;
    RANK_OK(rank, coll_run(r->comm, &desc, &rank->error));
    desc.recv = r->recv;
    desc.stream = r->stream;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, r->recv[0] == -1);
    for (int i = 0; i < 2; i++) {
        RANK_OK(rank, coll_op_start(op, &rank->error));
        RANK_OK(rank, coll_op_wait(op, &rank->error));
    }
    coll_op_destroy(op);
    if (memcmp(r->recv, wanted, sizeof wanted) != 0) {
        test_rank_fail(rank, "%s of %zu, root %d: not what the CPU has", coll_kind_name(desc.kind),
                       desc.count, desc.root);
    }
}

/* An all-to-all in place, twice: the second one brings all back. */
static void exchange_in_place(device_rank *r, size_t count)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    float wanted[DEVICE_FLOATS];
    device_fill(r);
    memcpy(r->recv, r->send, sizeof wanted);
    coll_op_desc desc = {.size = sizeof desc,
                         .kind = COLL_ALL_TO_ALL,
                         .type = COLL_FLOAT32,
                         .count = count,
                         .send = r->send,
                         .recv = wanted};
    memcpy(wanted, r->send, sizeof wanted);
    RANK_OK(rank, coll_run(r->comm, &desc, &rank->error));
    desc.send = r->recv;
    desc.recv = r->recv;
    desc.stream = r->stream;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    RANK_CHECK(rank, memcmp(r->recv, wanted, sizeof wanted) == 0);
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    RANK_CHECK(rank, memcmp(r->recv, r->send, sizeof wanted) == 0);
    coll_op_destroy(op);
}

/* NCCL does not combine bits. */
static void refuse_bits(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    coll_op_desc desc = device_all_reduce(r, COUNT_MAX);
    desc.type = COLL_UINT32;
    desc.reduce = COLL_OR;
    RANK_CHECK(rank, coll_op_create(r->comm, &desc, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
}

static void kinds_body(device_rank *r)
{
    static const size_t counts[] = {1, 3, 64, COUNT_MAX};
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_REDUCE,   COLL_REDUCE_SCATTER,
                                      COLL_ALL_GATHER, COLL_GATHER,   COLL_SCATTER,
                                      COLL_ALL_TO_ALL, COLL_BROADCAST};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            compare(r, (coll_op_desc){.kind = kinds[k],
                                      .count = counts[c],
                                      .reduce = COLL_SUM,
                                      .root = r->rank->size - 1});
        }
    }
    compare(r, (coll_op_desc){.kind = COLL_ALL_REDUCE, .count = 10, .reduce = COLL_AVERAGE});
    compare(r, (coll_op_desc){.kind = COLL_REDUCE, .count = 10, .reduce = COLL_PRODUCT});
    compare(r, (coll_op_desc){.kind = COLL_ALL_GATHER, .count = 10, .type = COLL_UINT32});
    refuse_bits(r);
    exchange_in_place(r, COUNT_MAX);
    RANK_OK(r->rank, coll_comm_finalize(r->comm, &r->rank->error));
}

static void every_kind_gives_what_the_cpu_gives(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        nccl_case c = {.device = {.ranks = ranks, .body = kinds_body}};
        run_case(&c);
        assert_int_equal(atomic_load(&c.gpus[0].destroyed), 1);
        assert_int_equal(atomic_load(&c.gpus[0].aborted), 0);
    }
}

/* From rank 0 upwards, as the fake NCCL adds. */
static float native_sum(int ranks, size_t i)
{
    float sum = device_value(0, i);
    for (int rank = 1; rank < ranks; rank++) {
        sum += device_value(rank, i);
    }
    return sum;
}

static void native_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const coll_op_desc desc = device_all_reduce(r, COUNT_MAX);
    coll_op *op = NULL;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, coll_op_algorithm(op) == COLL_ALGORITHM_NATIVE);
    RANK_CHECK(rank, gpu_of(r)->groups == 1); /* one call of NCCL's, its own all-reduce */
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    for (size_t i = 0; i < COUNT_MAX; i++) {
        RANK_CHECK(rank, r->recv[i] == native_sum(rank->size, i));
    }
    coll_op_destroy(op);
}

static void native_is_what_nccl_does(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 4, .algorithm = COLL_ALGORITHM_NATIVE, .body = native_body}};
    run_case(&c);
}

/* One rank copies, or does nothing in place; NCCL is asked to begin, and no more. */
static void alone_body(device_rank *r)
{
    test_rank *rank = r->rank;
    float own[COUNT_MAX];
    coll_op *ops[3] = {NULL};
    const coll_op_desc copied = device_all_reduce(r, COUNT_MAX);
    coll_op_desc in_place = copied;
    memcpy(own, r->send, sizeof own);
    in_place.send = own;
    in_place.recv = own;
    in_place.reduce = COLL_AVERAGE;
    const coll_op_desc barrier = {
        .size = sizeof barrier, .kind = COLL_BARRIER, .stream = r->stream};
    RANK_OK(rank, coll_op_create(r->comm, &copied, &ops[0], &rank->error));
    RANK_OK(rank, coll_op_create(r->comm, &in_place, &ops[1], &rank->error));
    RANK_OK(rank, coll_op_create(r->comm, &barrier, &ops[2], &rank->error));
    for (int i = 0; i < 3; i++) {
        RANK_OK(rank, coll_op_start(ops[i], &rank->error));
        RANK_OK(rank, coll_op_wait(ops[i], &rank->error));
    }
    RANK_CHECK(rank, memcmp(own, r->send, sizeof own) == 0);
    RANK_CHECK(rank, memcmp(r->recv, r->send, sizeof own) == 0);
    fake_capture_begin(r->stream);
    const coll_status status = coll_op_start(ops[0], &rank->error);
    fake_graph *graph = fake_capture_end(r->stream);
    RANK_OK(rank, status);
    r->recv[0] = -1;
    fake_graph_launch(graph, r->stream);
    RANK_OK(rank, coll_device_wait(r->comm, r->stream, &rank->error));
    RANK_CHECK(rank, r->recv[0] == r->send[0]);
    fake_graph_destroy(graph);
    uint64_t started = 1;
    uint64_t finished = 1;
    coll_device_progress(r->comm, &started, &finished);
    RANK_CHECK(rank, started == 0 && finished == 0 && coll_device_busy_ns(r->comm) == 0);
    RANK_CHECK(rank, gpu_of(r)->groups == 0 && gpu_of(r)->mallocs == 1); /* the host's numbers */
    for (int i = 0; i < 3; i++) {
        coll_op_destroy(ops[i]);
    }
}

static void one_rank_does_not_call_nccl(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 1, .body = alone_body}};
    run_case(&c);
    nccl_case calls = {.device = {.ranks = 1, .body = device_graph_body}, .calls_alone = true};
    run_case(&calls);
    assert_true(calls.gpus[0].groups > 0);
}

/* ---- in place, groups, graphs ---- */

static void together_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op *ops[3] = {NULL};
    const coll_op_desc sum = device_all_reduce(r, COUNT_MAX);
    coll_op_desc in_place = sum;
    float own[COUNT_MAX];
    memcpy(own, r->send, sizeof own);
    in_place.send = own;
    in_place.recv = own;
    const coll_op_desc barrier = {
        .size = sizeof barrier, .kind = COLL_BARRIER, .stream = r->stream};
    RANK_OK(rank, coll_op_create(r->comm, &sum, &ops[0], &rank->error));
    RANK_OK(rank, coll_op_create(r->comm, &in_place, &ops[1], &rank->error));
    RANK_OK(rank, coll_op_create(r->comm, &barrier, &ops[2], &rank->error));
    RANK_CHECK(rank, own[1] == r->send[1]); /* its first run was elsewhere */
    const int before = gpu_of(r)->groups;
    RANK_OK(rank, coll_group_begin(r->comm, &rank->error));
    for (int i = 0; i < 3; i++) {
        RANK_OK(rank, coll_op_start(ops[i], &rank->error));
    }
    RANK_CHECK(rank, gpu_of(r)->groups == before);
    RANK_OK(rank, coll_group_end(r->comm, &rank->error));
    RANK_OK(rank, coll_device_wait(r->comm, r->stream, &rank->error));
    RANK_CHECK(rank, gpu_of(r)->groups == before + 2); /* two phases for all */
    RANK_CHECK(rank, memcmp(own, r->recv, sizeof own) == 0);
    RANK_CHECK(rank, device_is_sum(r, COUNT_MAX));
    uint64_t started = 0;
    uint64_t finished = 0;
    coll_device_progress(r->comm, &started, &finished);
    RANK_CHECK(rank, started == 3 && finished == 3);
    /* The fake's clock goes on by 1000 ns at each of the 18 times that the ranks look at it. Three
     * operations that begin together, or one after the other, are busy for 3 ticks or more. */
    const uint64_t busy_ns = coll_device_busy_ns(r->comm);
    RANK_CHECK(rank, busy_ns >= 3 * 1000 && busy_ns < 18 * 1000);
    for (int i = 0; i < 3; i++) {
        coll_op_destroy(ops[i]);
    }
}

static void a_group_goes_in_two_calls(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 3, .body = together_body}};
    run_case(&c);
}

static void graphs_count_what_they_do(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 3, .body = device_graph_body}};
    run_case(&c);
}

static void memory_body(device_rank *r)
{
    test_rank *rank = r->rank;
    void *memory = NULL;
    RANK_OK(rank, coll_device_open(r->comm, &rank->error));
    RANK_OK(rank, coll_device_alloc(r->comm, 4096, &memory, &rank->error));
    coll_device_free(r->comm, memory);
}

static void memory_is_nccls(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 2, .body = memory_body}};
    run_case(&c);
}

/* ---- what fails ---- */

static const char *own_words;
static const char *all_words; /* on every rank */
static coll_status wanted_status;

static void fault_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const coll_op_desc desc = device_all_reduce(r, COUNT_MAX);
    coll_error ended = {.message = ""};
    coll_op *op = NULL;
    coll_status status = coll_op_create(r->comm, &desc, &op, &rank->error);
    for (int i = 0; i < 3 && status == COLL_OK; i++) {
        status = coll_op_start(op, &rank->error);
        status = status == COLL_OK ? coll_op_wait(op, &rank->error) : status;
    }
    RANK_CHECK(rank, coll_device_ended(r->comm, &ended) == COLL_OK);
    coll_op_destroy(op);
    RANK_CHECK(rank, device_says(r, all_words));
    if (wanted_status == COLL_ERR_TIMEOUT) { /* whoever is first reports it */
        RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
    } else if (rank->rank == VICTIM) {
        RANK_CHECK(rank, status == wanted_status);
        RANK_CHECK(rank, device_says(r, own_words));
    } else {
        RANK_CHECK(rank, status == COLL_ERR_PEER || status == wanted_status);
    }
}

static void try_fault(const fake_gpu *fault, coll_status status, const char *all, const char *own)
{
    nccl_case c = {.device = {.ranks = 3, .body = fault_body}};
    c.device.timeout_ns = status == COLL_ERR_TIMEOUT ? BASE_NS_PER_S : 0;
    c.gpus[VICTIM].no_device = fault->no_device;
    c.gpus[VICTIM].malloc_fails_at = fault->malloc_fails_at;
    c.gpus[VICTIM].init_hangs = fault->init_hangs;
    c.gpus[VICTIM].group_fails_at = fault->group_fails_at;
    c.gpus[VICTIM].async_error_at = fault->async_error_at;
    c.gpus[VICTIM].group_hangs_at = fault->group_hangs_at;
    c.gpus[VICTIM].run_hangs_at = fault->run_hangs_at;
    c.gpus[0].id_result = fault->id_result;
    wanted_status = status;
    all_words = all;
    own_words = own;
    run_case(&c);
    for (int rank = 0; rank < c.device.ranks; rank++) {
        assert_int_equal(atomic_load(&c.gpus[rank].destroyed), 0);
    }
}

static void gpus_that_cannot_be_used_are_named(void **state)
{
    (void)state;
    try_fault(&(fake_gpu){.no_device = cudaErrorInvalidDevice}, COLL_ERR_IO,
              "rank 1 cannot use GPU 1: CUDA error 101", "nccl: ");
    try_fault(&(fake_gpu){.id_result = ncclSystemError}, COLL_ERR_IO,
              "rank 0: ncclGetUniqueId: unhandled system error", "nccl: ");
}

static void memory_that_runs_out_ends_all(void **state)
{
    (void)state;
    for (int at = 1; at <= 5; at++) { /* progress, numbers, send, recv, parts */
        try_fault(&(fake_gpu){.malloc_fails_at = at}, COLL_ERR_MEMORY, "out of memory", "nccl: ");
    }
}

static void errors_of_nccl_end_all(void **state)
{
    (void)state;
    for (int at = 1; at <= 4; at++) { /* the first run's phases, and the second's */
        try_fault(&(fake_gpu){.group_fails_at = at}, COLL_ERR_IO,
                  "nccl: ncclGroupEnd: ", "the fake's last error");
        try_fault(&(fake_gpu){.async_error_at = at}, COLL_ERR_IO,
                  "nccl: NCCL: unhandled system error", "the fake's last error");
    }
}

static void what_hangs_ends_by_the_deadline(void **state)
{
    (void)state;
    try_fault(&(fake_gpu){.init_hangs = true}, COLL_ERR_TIMEOUT, "no end after 1 s", "");
    try_fault(&(fake_gpu){.group_hangs_at = 4}, COLL_ERR_TIMEOUT, "no end after 1 s", "");
    try_fault(&(fake_gpu){.run_hangs_at = 3}, COLL_ERR_TIMEOUT,
              "all_reduce float × 103 sum direct #1 (412 bytes over nccl)", "");
}

static void duplicate_body(device_rank *r)
{
    test_rank *rank = r->rank;
    RANK_CHECK(rank, coll_device_open(r->comm, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, device_says(r, "ranks 0 and 2 use the same GPU, GPU-34120000-0000-"));
    RANK_CHECK(rank, device_says(r, "each rank needs one of its own"));
    RANK_CHECK(rank, gpu_of(r)->mallocs == 0);
}

static void two_ranks_on_one_gpu_are_named(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 3, .body = duplicate_body}};
    c.gpus[0].uuid = 0x1234;
    c.gpus[2].uuid = 0x1234;
    run_case(&c);
    nccl_case shared = {.device = {.ranks = 3, .body = memory_body}, .shares_gpu = true};
    shared.gpus[0].uuid = 0x1234;
    shared.gpus[2].uuid = 0x1234;
    run_case(&shared);
}

static void mixed_body(device_rank *r)
{
    test_rank *rank = r->rank;
    RANK_CHECK(rank, coll_device_open(r->comm, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, device_says(r, "rank 0 has a fake GPU, rank 2 a rare GPU"));
}

static void mixed_cards_are_refused_unless_asked_for(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 3, .body = mixed_body}};
    c.gpus[2].other_card = true;
    run_case(&c);
    nccl_case mixed = {.device = {.ranks = 3, .body = memory_body}, .mixes_cards = true};
    mixed.gpus[2].other_card = true;
    run_case(&mixed);
}

static void finalize_body(device_rank *r)
{
    test_rank *rank = r->rank;
    RANK_OK(rank, coll_device_open(r->comm, &rank->error));
    const coll_status status = coll_comm_finalize(r->comm, &rank->error);
    if (rank->rank == VICTIM) {
        RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
        RANK_CHECK(rank, device_says(r, "ncclCommFinalize has not ended by its deadline"));
    }
}

static void a_finalize_that_hangs_is_aborted(void **state)
{
    (void)state;
    nccl_case c = {.device = {.ranks = 2, .timeout_ns = BASE_NS_PER_S, .body = finalize_body}};
    c.gpus[VICTIM].finalize_hangs = true;
    run_case(&c);
    assert_int_equal(atomic_load(&c.gpus[VICTIM].aborted), 1);
    assert_int_equal(atomic_load(&c.gpus[VICTIM].destroyed), 0);
    assert_int_equal(atomic_load(&c.gpus[0].destroyed), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_gives_what_the_cpu_gives),
        cmocka_unit_test(native_is_what_nccl_does),
        cmocka_unit_test(one_rank_does_not_call_nccl),
        cmocka_unit_test(a_group_goes_in_two_calls),
        cmocka_unit_test(graphs_count_what_they_do),
        cmocka_unit_test(memory_is_nccls),
        cmocka_unit_test(gpus_that_cannot_be_used_are_named),
        cmocka_unit_test(memory_that_runs_out_ends_all),
        cmocka_unit_test(errors_of_nccl_end_all),
        cmocka_unit_test(what_hangs_ends_by_the_deadline),
        cmocka_unit_test(two_ranks_on_one_gpu_are_named),
        cmocka_unit_test(mixed_cards_are_refused_unless_asked_for),
        cmocka_unit_test(a_finalize_that_hangs_is_aborted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
