/* The outer step of local SGD against PyTorch's SGD with Nesterov's momentum, over rounds of three ranks. PyTorch
 * takes fused multiply-adds: 2e-6 of the largest value is 17 roundings. */
#include <stdio.h>
#include <stdlib.h>

#include "difference.h"
#include "fixture.h"
#include "rank/optim.h"
#include "support.h"

enum { RANKS = 3, ROUNDS = 4 };

static const double TOLERANCE = 2e-6;

static float *zeros(size_t count)
{
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

static void check(const fixture *file, const char *case_name, const char *what, const float *got)
{
    size_t count;
    float *expected = fixture_get(file, &count, "momentum%s.%s", case_name, what);
    test_check_close(what, got, expected, count, TOLERANCE);
    free(expected);
}

/* A round: the changes of all ranks are added up, and the step taken, in two ranges: the cut must not show. */
static void take_round(const fixture *file, const char *case_name, int round, rank_outer_step step)
{
    const size_t half = step.count / 2 + 1;
    size_t all;
    float *local = fixture_get(file, &all, "momentum%s.local%d", case_name, round);
    float *sums = zeros(step.count);
    float *changes = zeros(step.count);
    assert_int_equal(all, RANKS * step.count);
    for (size_t rank = 0; rank < RANKS; rank++) {
        rank_outer_changes(step.outer, local + rank * step.count, step.count, changes);
        for (size_t i = 0; i < step.count; i++) {
            sums[i] += changes[i];
        }
    }
    rank_outer_step first = step;
    first.count = half;
    first.sums = sums;
    rank_outer_update(&first);
    rank_outer_update(&(rank_outer_step){.learning_rate = step.learning_rate,
                                         .momentum = step.momentum,
                                         .scale = step.scale,
                                         .count = step.count - half,
                                         .sums = sums + half,
                                         .velocity = step.velocity + half,
                                         .outer = step.outer + half,
                                         .params = step.params + half});
    assert_memory_equal(step.params, step.outer, step.count * sizeof(float));
    free(local);
    free(sums);
    free(changes);
}

static void check_rounds(const char *case_name, double learning_rate, double momentum)
{
    fixture file;
    size_t count;
    fixture_open(&file, "outer.fixture");
    float *outer = fixture_get(&file, &count, "start");
    const rank_outer_step step = {.learning_rate = learning_rate,
                                  .momentum = momentum,
                                  .scale = 1.0 / RANKS,
                                  .count = count,
                                  .velocity = zeros(count),
                                  .outer = outer,
                                  .params = zeros(count)};
    for (int round = 0; round < ROUNDS; round++) {
        char name[16];
        take_round(&file, case_name, round, step);
        (void)snprintf(name, sizeof name, "params%d", round);
        check(&file, case_name, name, step.params);
    }
    if (momentum > 0.0) {
        check(&file, case_name, "velocity", step.velocity);
    }
    free(step.velocity);
    free(step.params);
    free(outer);
    fixture_close(&file);
}

static void rounds_are_pytorchs(void **state)
{
    (void)state;
    check_rounds("0.9", 0.7, 0.9);
}

static void without_momentum_it_is_the_mean_of_the_parameters(void **state)
{
    (void)state;
    check_rounds("0.0", 1.0, 0.0);
}

/* The formula, with each rounding: nothing is contracted. */
static void each_operation_is_rounded(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    float sums[COUNT];
    float velocity[COUNT];
    float outer[COUNT];
    float params[COUNT];
    volatile float expected[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sums[i] = (float)i * 0.1F - 37.7F;
        velocity[i] = 1.0F / (float)(i + 3);
        outer[i] = (float)(i % 13) / 7.0F;
        volatile float grad = (float)(1.0 / 3) * sums[i];
        volatile float kept = 0.9F * velocity[i];
        volatile float next = kept + grad;
        volatile float ahead = 0.9F * next;
        volatile float whole = grad + ahead;
        volatile float way = 0.7F * whole;
        expected[i] = outer[i] - way;
    }
    rank_outer_update(&(rank_outer_step){.learning_rate = 0.7,
                                         .momentum = 0.9,
                                         .scale = 1.0 / 3,
                                         .count = COUNT,
                                         .sums = sums,
                                         .velocity = velocity,
                                         .outer = outer,
                                         .params = params});
    for (int i = 0; i < COUNT; i++) {
        assert_true(params[i] == expected[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_pytorchs),
        cmocka_unit_test(without_momentum_it_is_the_mean_of_the_parameters),
        cmocka_unit_test(each_operation_is_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
