/* rank/ddp.h: ranges that not all ranks have alike, and ranks that are added up for each micro-batch: the
 * same bits as of ranks that have all, each sum where it belongs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rank/ddp.h"
#include "ranks.h"
#include "slot_gradient.h"
#include "support.h"

enum { RANKS = 4, GROUP = 2, COMMON = 1003, APART = 500, PARAMS = 2 * (COMMON + APART), STEPS = 2 };

/* Two layers: what all ranks have, then what only those at one place of their groups have. */
static const rank_zero_range ranges[] = {{COMMON, APART}, {2 * COMMON + APART, APART}};

/* Whether it is in a range that is apart. */
static bool is_apart(size_t index)
{
    return index % (COMMON + APART) >= COMMON;
}

typedef struct job {
    int micro_batches;
    size_t bucket_bytes;
} job;

/* Slots are dealt out to ranks first. Of a range apart the leaf of a rank is that of its whole group. */
static void fill(test_rank *rank, rank_ddp *ddp, int micro_batch)
{
    const int place = rank->rank % GROUP;
    float *grads = rank_ddp_grads(ddp, micro_batch);
    rank_ddp_pass(ddp, false);
    for (size_t end = PARAMS; end > 0;) {
        const size_t count = end < 700 ? end : 700;
        for (size_t i = end - count; i < end; i++) {
            const int group = rank->rank / GROUP * GROUP + micro_batch * RANKS;
            grads[i] = is_apart(i) ? slot_gradient_sum(group, GROUP, place, i)
                                   : slot_gradient(rank->rank + micro_batch * RANKS, 0, i);
        }
        end -= count;
        rank_ddp_ready(ddp, end, count, (rank_mark){0});
    }
}

static void check(test_rank *rank, rank_ddp *ddp, int slots)
{
    const int place = rank->rank % GROUP;
    double wanted = 0.0;
    double found = 0.0;
    for (size_t i = 0; i < PARAMS; i++) {
        const float sum = slot_gradient_sum(0, slots, is_apart(i) ? place : 0, i);
        RANK_CHECK(rank, memcmp(&rank_ddp_sums(ddp)[i], &sum, sizeof sum) == 0);
        for (int p = 0; p < (is_apart(i) ? GROUP : 1); p++) { /* all members' */
            const double value = (double)slot_gradient_sum(0, slots, p, i);
            wanted += value * value;
        }
    }
    RANK_OK(rank, rank_ddp_sum_squares(ddp, &found, &rank->failure));
    RANK_CHECK(rank, fabs(found - wanted) < 1e-6 * wanted);
}

/* What ranks that have the same get is that of the first of them. */
static void check_params(test_rank *rank, rank_ddp *ddp, float *params)
{
    bool equal = false;
    double difference = 0.0;
    for (size_t i = 0; i < PARAMS; i++) {
        RANK_CHECK(rank, params[i] == (float)(is_apart(i) ? rank->rank % GROUP : 0));
    }
    RANK_OK(rank, rank_ddp_compare(ddp, params, &equal, &difference, &rank->failure));
    RANK_CHECK(rank, equal && difference == 0.0);
    params[COMMON] += rank->rank == GROUP ? 0.25F : 0.0F; /* which rank 0 has as well */
    RANK_OK(rank, rank_ddp_compare(ddp, params, &equal, &difference, &rank->failure));
    RANK_CHECK(rank, equal == (rank->rank != GROUP));
    RANK_CHECK(rank, difference == (equal ? 0.0 : 0.25));
}

static void body(test_rank *rank)
{
    const job *of = rank->user;
    coll_comm *world = coll_context_world(rank->context);
    rank_ddp *ddp = NULL;
    rank_device device;
    float params[PARAMS];
    rank_ddp_apart apart = {.ranges = ranges, .range_count = 2};
    for (size_t i = 0; i < PARAMS; i++) {
        params[i] = (float)rank->rank;
    }
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    RANK_OK(rank, coll_comm_split(world, rank->rank / GROUP, 0, &apart.members, &rank->error));
    RANK_OK(rank, coll_comm_split(world, rank->rank % GROUP, 0, &apart.copies, &rank->error));
    const rank_ddp_options options = {.device = &device,
                                      .param_count = PARAMS,
                                      .bucket_bytes = of->bucket_bytes,
                                      .micro_batches = of->micro_batches,
                                      .ranks_first = true,
                                      .apart = apart};
    RANK_OK(rank, rank_ddp_wrap(world, &options, params, &ddp, &rank->failure));
    check_params(rank, ddp, params);
    for (int step = 0; step < STEPS; step++) {
        rank_ddp_times times;
        rank_ddp_begin(ddp);
        for (int m = 0; m < of->micro_batches; m++) {
            fill(rank, ddp, m);
        }
        RANK_OK(rank, rank_ddp_finish(ddp, &times, &rank->failure));
        RANK_CHECK(rank, times.allreduce_ns >= times.allreduce_exposed_ns);
        check(rank, ddp, RANKS * of->micro_batches);
    }
    rank_ddp_destroy(ddp);
    coll_comm_destroy(apart.copies);
    coll_comm_destroy(apart.members);
    rank_device_close(&device);
}

static void each_range_is_added_up_where_it_is_the_same(void **state)
{
    (void)state;
    static const size_t bucket_bytes[] = {400, 4096, 1 << 20};
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP};
    for (int micro_batches = 1; micro_batches <= 8; micro_batches *= 2) {
        for (size_t i = 0; i < sizeof bucket_bytes / sizeof bucket_bytes[0]; i++) {
            job of = {micro_batches, bucket_bytes[i]};
            test_ranks_as_threads(
                &(test_ranks_options){.size = RANKS, .transport = transports[i % 2], .user = &of},
                body);
        }
    }
}

/* A rank whose backward leaves gradients out is told so. */
static void forgetful(test_rank *rank)
{
    rank_ddp *ddp = NULL;
    rank_device device;
    float params[PARAMS] = {0.0F};
    rank_ddp_times times;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    const rank_ddp_options options = {.device = &device,
                                      .param_count = PARAMS,
                                      .bucket_bytes = 4096,
                                      .micro_batches = 2,
                                      .ranks_first = true};
    RANK_OK(rank, rank_ddp_wrap(coll_context_world(rank->context), &options, params, &ddp,
                                &rank->failure));
    rank_ddp_begin(ddp);
    (void)rank_ddp_grads(ddp, 0);
    (void)rank_ddp_grads(ddp, 1);
    RANK_CHECK(rank, rank_ddp_finish(ddp, &times, &rank->failure) == BASE_ERR_STATE);
    rank_ddp_destroy(ddp);
    rank_device_close(&device);
}

static void gradients_that_are_missing_are_missed(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 1, .transport = COLL_TRANSPORT_SHM},
                          forgetful);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_range_is_added_up_where_it_is_the_same),
        cmocka_unit_test(gradients_that_are_missing_are_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
