/* rank/ddp.h: sums equal in every bit for every split into ranks and micro-batches, and failures
 * named. */
#include "rank/ddp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "slot_gradient.h"
#include "support.h"

enum { PARAMS = 10007, RANKS_MAX = 4, STEPS = 3 };

typedef struct shape {
    int micro_batches;
    size_t bucket_bytes;
    bool bracketed;
    bool local; /* the sums of this rank are exchanged when the step has ended */
    coll_algorithm algorithm;
    float *sums; /* (ranks, STEPS, PARAMS) */
} shape;

/* Backward of one micro-batch: the end of the array first, in uneven pieces. */
static void fill_leaf(rank_ddp *ddp, int micro_batch, int slot, int step)
{
    float *grads = rank_ddp_grads(ddp, micro_batch);
    size_t end = PARAMS;
    for (size_t piece = 1; end > 0; piece = piece * 3 + 1) {
        const size_t count = piece < end ? piece : end;
        for (size_t i = end - count; i < end; i++) {
            grads[i] = slot_gradient(slot, step, i);
        }
        end -= count;
        rank_ddp_ready(ddp, end, count, (rank_mark){0});
    }
}

static void sum_steps(test_rank *rank)
{
    const shape *job = rank->user;
    rank_ddp *ddp = NULL;
    rank_device device;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    float *params = calloc(PARAMS, sizeof *params);
    RANK_CHECK(rank, params != NULL);
    for (size_t i = 0; i < PARAMS; i++) {
        params[i] = (float)rank->rank; /* they differ until wrap */
    }
    const rank_ddp_options options = {
        .device = &device,
        .param_count = PARAMS,
        .bucket_bytes = job->bucket_bytes,
        .micro_batches = job->micro_batches,
        .bracketed = job->bracketed,
        .local = job->local,
        .algorithm = job->algorithm,
    };
    RANK_OK(rank, rank_ddp_wrap(coll_context_world(rank->context), &options, params, &ddp,
                                &rank->failure));
    RANK_CHECK(rank, params[0] == 0.0F && params[PARAMS - 1] == 0.0F);
    for (int step = 0; step < STEPS; step++) {
        rank_ddp_times times;
        rank_ddp_begin(ddp);
        for (int m = 0; m < job->micro_batches; m++) {
            fill_leaf(ddp, m, rank->rank * job->micro_batches + m, step);
        }
        RANK_OK(rank, rank_ddp_finish(ddp, &times, &rank->failure));
        if (job->local) {
            RANK_CHECK(rank, times.allreduce_ns == 0);
            RANK_CHECK(rank,
                       job->micro_batches > 1 || rank_ddp_sums(ddp)[step] ==
                                                     slot_gradient(rank->rank, step, (size_t)step));
            RANK_CHECK(rank, rank_ddp_exchanged(ddp) == rank_ddp_sums(ddp));
            RANK_OK(rank, rank_ddp_exchange(ddp, &times, &rank->failure));
        }
        RANK_CHECK(rank, times.allreduce_ns >= times.allreduce_exposed_ns);
        memcpy(job->sums + ((size_t)rank->rank * STEPS + (size_t)step) * PARAMS, rank_ddp_sums(ddp),
               PARAMS * sizeof(float));
    }
    rank_ddp_destroy(ddp);
    rank_device_close(&device);
    free(params);
}

/* Runs the job and returns rank 0's sums (STEPS, PARAMS), after checking that all ranks have its
 * bits. */
static float *run(int ranks, coll_transport transport, shape job)
{
    job.sums = calloc((size_t)ranks * STEPS * PARAMS, sizeof *job.sums);
    assert_non_null(job.sums);
    test_ranks_as_threads(
        &(test_ranks_options){.size = ranks, .transport = transport, .user = &job}, sum_steps);
    for (int rank = 1; rank < ranks; rank++) {
        assert_memory_equal(job.sums, job.sums + (size_t)rank * STEPS * PARAMS,
                            STEPS * PARAMS * sizeof(float));
    }
    return job.sums;
}

static void ranks_and_micro_batches_give_the_same_bits(void **state)
{
    (void)state;
    static const size_t bucket_bytes[] = {64, 1000, 16384, 1 << 20};
    float *reference =
        run(4, COLL_TRANSPORT_SHM, (shape){.micro_batches = 1, .bucket_bytes = 4096});
    for (size_t i = 0; i < PARAMS; i++) {
        const float expected = slot_gradient_sum(0, 4, 0, i);
        assert_memory_equal(&reference[i], &expected, sizeof expected);
    }
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        for (size_t i = 0; i < sizeof bucket_bytes / sizeof bucket_bytes[0]; i++) {
            float *sums = run(ranks, COLL_TRANSPORT_SHM,
                              (shape){.micro_batches = 4 / ranks, .bucket_bytes = bucket_bytes[i]});
            assert_memory_equal(sums, reference, STEPS * PARAMS * sizeof(float));
            free(sums);
        }
        float *bracketed =
            run(ranks, COLL_TRANSPORT_SHM,
                (shape){.micro_batches = 4 / ranks, .bucket_bytes = 4096, .bracketed = true});
        assert_memory_equal(bracketed, reference, STEPS * PARAMS * sizeof(float));
        free(bracketed);
        for (int i = 0; i < 2; i++) {
            float *late = run(ranks, i == 0 ? COLL_TRANSPORT_SHM : COLL_TRANSPORT_ZMQ,
                              (shape){.micro_batches = 4 / ranks,
                                      .bucket_bytes = 4096,
                                      .bracketed = i == 1,
                                      .local = true});
            assert_memory_equal(late, reference, STEPS * PARAMS * sizeof(float));
            free(late);
        }
    }
    free(reference);
}

static void every_rank_has_the_same_sums(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ};
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
            for (int a = COLL_ALGORITHM_RING; a <= COLL_ALGORITHM_LAST; a++) {
                float *sums = run(ranks, transports[t],
                                  (shape){.micro_batches = 1,
                                          .bucket_bytes = 9000,
                                          .algorithm = (coll_algorithm)a});
                for (size_t i = 0; i < PARAMS; i += 97) {
                    double exact = 0.0;
                    double size = 0.0;
                    for (int slot = 0; slot < ranks; slot++) {
                        exact += (double)slot_gradient(slot, 0, i);
                        size += fabs((double)slot_gradient(slot, 0, i));
                    }
                    assert_true(fabs((double)sums[i] - exact) <= size * 1e-6);
                }
                free(sums);
            }
        }
    }
}

/* In the place of libcoll's (the linker's --wrap): a broadcast can lose a bit on the way to one
 * rank. */
coll_status __real_coll_op_create(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                                  coll_error *reterr);
coll_status __wrap_coll_op_create(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                                  coll_error *reterr);
coll_status __real_coll_op_wait(coll_op *op, coll_error *reterr);
coll_status __wrap_coll_op_wait(coll_op *op, coll_error *reterr);

static int broadcast_spoilt_at = -1;
static _Thread_local uint8_t *to_spoil; /* the last byte of this rank's broadcast */

coll_status __wrap_coll_op_create(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                                  coll_error *reterr)
{
    if (desc->kind == COLL_BROADCAST && coll_comm_rank(comm) == broadcast_spoilt_at) {
        to_spoil = (uint8_t *)desc->recv + desc->count * sizeof(float) - 1;
    }
    return __real_coll_op_create(comm, desc, op, reterr);
}

coll_status __wrap_coll_op_wait(coll_op *op, coll_error *reterr)
{
    const coll_status status = __real_coll_op_wait(op, reterr);
    if (to_spoil != NULL) {
        *to_spoil ^= 1;
        to_spoil = NULL;
    }
    return status;
}

static void wrap_spoilt(test_rank *rank)
{
    float params[100] = {0};
    rank_ddp *ddp = NULL;
    rank_device device;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    const rank_ddp_options options = {
        .device = &device, .param_count = 100, .bucket_bytes = 40, .micro_batches = 1};
    RANK_CHECK(rank, rank_ddp_wrap(coll_context_world(rank->context), &options, params, &ddp,
                                   &rank->failure) == BASE_ERR_MISMATCH);
    RANK_CHECK(rank, ddp == NULL);
    RANK_CHECK(rank, strstr(rank->failure.message, "parameters of rank 2 differ from rank 0's"));
    rank_device_close(&device);
}

static void other_initial_parameters_are_refused(void **state)
{
    (void)state;
    broadcast_spoilt_at = 2;
    test_ranks_as_threads(&(test_ranks_options){.size = 3}, wrap_spoilt);
    broadcast_spoilt_at = -1;
}

static void forget_a_range(test_rank *rank)
{
    const bool *local = rank->user;
    float params[100] = {0};
    rank_ddp *ddp = NULL;
    rank_device device;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    rank_ddp_times times;
    const rank_ddp_options options = {.device = &device,
                                      .param_count = 100,
                                      .bucket_bytes = 40,
                                      .micro_batches = 1,
                                      .bracketed = true,
                                      .local = *local};
    RANK_OK(rank, rank_ddp_wrap(coll_context_world(rank->context), &options, params, &ddp,
                                &rank->failure));
    rank_ddp_begin(ddp);
    memset(rank_ddp_grads(ddp, 0), 0, sizeof params);
    rank_ddp_ready(ddp, 1, 99, (rank_mark){0});
    RANK_CHECK(rank, rank_ddp_finish(ddp, &times, &rank->failure) == BASE_ERR_STATE);
    rank_ddp_destroy(ddp);
    rank_device_close(&device);
}

static void an_unset_gradient_is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool local = i == 1;
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .user = &local}, forget_a_range);
    }
}

static void compare_params(test_rank *rank)
{
    float params[100] = {0};
    rank_ddp *ddp = NULL;
    rank_device device;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    bool equal = false;
    double difference = -1.0;
    const rank_ddp_options options = {
        .device = &device, .param_count = 100, .bucket_bytes = 40, .micro_batches = 1};
    RANK_OK(rank, rank_ddp_wrap(coll_context_world(rank->context), &options, params, &ddp,
                                &rank->failure));
    RANK_OK(rank, rank_ddp_compare(ddp, params, &equal, &difference, &rank->failure));
    RANK_CHECK(rank, equal && difference == 0.0);
    if (rank->rank == 1) {
        params[7] = -0.25F;
    }
    RANK_OK(rank, rank_ddp_compare(ddp, params, &equal, &difference, &rank->failure));
    RANK_CHECK(rank, equal == (rank->rank != 1));
    RANK_CHECK(rank, difference == (rank->rank == 1 ? 0.25 : 0.0));
    rank_ddp_destroy(ddp);
    rank_device_close(&device);
}

static void a_different_parameter_is_found(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3}, compare_params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_micro_batches_give_the_same_bits),
        cmocka_unit_test(every_rank_has_the_same_sums),
        cmocka_unit_test(other_initial_parameters_are_refused),
        cmocka_unit_test(an_unset_gradient_is_an_error),
        cmocka_unit_test(a_different_parameter_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
