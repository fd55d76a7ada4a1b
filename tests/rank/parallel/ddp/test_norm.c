/* parallel/ddp/norm.h: ranks that have any parts of the values get the bits of one that has all. */
#include "parallel/ddp/norm.h"

#include <math.h>
#include <stdlib.h>

#include "random.h"
#include "ranks.h"
#include "support.h"

enum { COUNT = 20011, RANKS_MAX = 7, PIECE = 97 };

typedef struct norm_job {
    const float *values;
    uint32_t seed;
    double expected;
} norm_job;

/* Pieces, each of which one rank has. A rank may have none. */
static size_t take_ranges(const test_rank *rank, const norm_job *job, int ranks,
                          rank_norm_range *ranges)
{
    uint64_t random = job->seed;
    size_t taken = 0;
    for (size_t at = 0; at < COUNT; at += PIECE) {
        if ((int)test_random_below(&random, (uint32_t)ranks) == rank->rank) {
            const size_t left = COUNT - at;
            ranges[taken++] =
                (rank_norm_range){job->values + at, left < PIECE ? left : (size_t)PIECE};
        }
    }
    return taken;
}

static void sum_parts(test_rank *rank)
{
    const norm_job *job = rank->user;
    coll_comm *world = coll_context_world(rank->context);
    rank_norm_range ranges[COUNT / PIECE + 1];
    rank_device device;
    double sum = -1.0;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    const size_t count = take_ranges(rank, job, coll_comm_size(world), ranges);
    RANK_OK(rank, rank_norm_sum_squares(world, &device, ranges, count, &sum, &rank->failure));
    RANK_CHECK(rank, sum == job->expected);
    rank_device_close(&device);
}

static double sum_of_one(const float *values)
{
    rank_device device;
    base_error error;
    double sum = -1.0;
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    device.backend->sum_squares(device.queue, &(rank_sum_squares){values, COUNT, &sum});
    rank_device_close(&device);
    return sum;
}

static float *make_values(void)
{
    float *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    uint64_t random = 5;
    test_random_floats(values, COUNT, 1, 4);
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = ldexpf(values[i], (int)test_random_below(&random, 40) - 30);
    }
    return values;
}

static void any_partition_gives_the_same_bits(void **state)
{
    (void)state;
    float *values = make_values();
    norm_job job = {.values = values, .expected = sum_of_one(values)};
    assert_true(isfinite(job.expected) && job.expected > 0.0);
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        for (job.seed = 0; job.seed < 3; job.seed++) {
            test_ranks_as_threads(&(test_ranks_options){.size = ranks, .user = &job}, sum_parts);
        }
    }
    free(values);
}

static void all_ranks_know_what_is_not_finite(void **state)
{
    (void)state;
    float *values = make_values();
    values[COUNT - 1] = -INFINITY;
    norm_job job = {.values = values, .expected = (double)INFINITY};
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .user = &job}, sum_parts);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_partition_gives_the_same_bits),
        cmocka_unit_test(all_ranks_know_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
