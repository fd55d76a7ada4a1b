/* The lesson on scaling: the causes that it names for certain measurements. */
#include <math.h>
#include <string.h>

#include "record/run.h"
#include "sample.h"
#include "support.h"

static double load_before;
static double steal_share = NAN;

/* The lesson of a run of `steps` identical steps on that many allowed CPUs. */
static void lesson_of(const sample *made, const launch_step *like, int steps, int cpus,
                      char *lesson, size_t size_bytes)
{
    base_error error;
    launch_steps kept = {0};
    launch_summary summary;
    base_buffer text = {0};
    const launch_run_info info = {.cpus_allowed = cpus,
                                  .cpus_online = cpus,
                                  .load_before = load_before,
                                  .steal_share = steal_share};
    assert_ok(launch_steps_init(&kept, (int)made->job.job.world_size, 0, 1, &error), &error);
    for (int i = 0; i < steps * (int)made->job.job.world_size; i++) {
        launch_step step = *like;
        step.step = (uint64_t)(i / (int)made->job.job.world_size);
        step.rank = i % (int)made->job.job.world_size;
        assert_ok(launch_steps_add(&kept, &step, &error), &error);
    }
    assert_ok(launch_summary_init(&summary, &kept, 0, &made->end, &error), &error);
    const launch_run run = {
        .job = &made->job, .steps = &kept, .summary = &summary, .info = &info, .end = &made->end};
    launch_lesson_write(&run, &text);
    assert_false(text.failed);
    assert_true(text.length_bytes < size_bytes);
    memcpy(lesson, text.data, text.length_bytes + 1);
    assert_null(strstr(lesson, "nan"));
    assert_null(strstr(lesson, "inf"));
    assert_null(strstr(lesson, "  "));
    assert_int_equal(lesson[strlen(lesson) - 1], '.');
    base_buffer_fini(&text);
    launch_summary_fini(&summary);
    launch_steps_fini(&kept);
}

static launch_step step_of(double compute_ms, double exposed_ms, double optimizer_ms)
{
    return (launch_step){
        .times.tokens = 1000,
        .times.compute_ns = (int64_t)(compute_ms * 1e6),
        .times.allreduce_ns = (int64_t)(exposed_ms * 2e6),
        .times.allreduce_exposed_ns = (int64_t)(exposed_ms * 1e6),
        .times.optimizer_ns = (int64_t)(optimizer_ms * 1e6),
        .times.step_ns = (int64_t)((compute_ms + 2 * exposed_ms + optimizer_ms) * 1e6),
    };
}

static void two_ranks_against_one(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    const launch_step slower = step_of(10, 0.25, 2); /* 12.5 ms: 160000 tokens/s */
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "2 processes handled 160000 tokens/s where one handled 100000 tokens/s "
                       "(99000 to 101000 in 3 rounds): 1.60 times");
    assert_has(lesson, "80 % of the ideal 2");
    assert_has(lesson, "it took 2.50 ms more");
    assert_has(lesson, "took 9.00 ms alone and take 10.00 ms now");
    assert_has(lesson, "one process never does, costs 0.500 ms");
    assert_has(lesson, "50 % of it while backward still ran");

    const launch_step exchanging = step_of(9, 1, 1.5);
    lesson_of(&made, &exchanging, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "exchange of 1.88 MB of gradients");

    const launch_step ideal = step_of(9, 0.05, 0.9);
    lesson_of(&made, &ideal, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "it took no longer");
    assert_null(strstr(lesson, "largest loss"));
}

/* Ranks that share a batch have parts of it, whose step says nothing beside one of a whole batch. */
static void shared_batches_are_compared_by_speed(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    made.job.parallel.context_ranks = 2;
    launch_step step = step_of(10, 0.25, 2);
    step.times.context_ns = 1250000;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "took 1.25 ms (10.0 % of the step), waiting");
    assert_has(lesson, "80 % of the ideal 2.");
    assert_null(strstr(lesson, "own batch"));
    assert_null(strstr(lesson, "largest loss"));
    lesson_of(&made, &step, 10, 1, lesson, sizeof lesson);
    assert_null(strstr(lesson, "own batch"));
}

static void exchanges_of_experts_are_told(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    launch_step step = step_of(10, 0.25, 2);
    step.times.expert_ns = 1250000;
    sample_make(&made, "unused", 2, 10);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_null(strstr(lesson, "experts"));
    made.job.parallel.expert_ranks = 2;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "2 ranks share out the experts. Of forward and backward, sending rows to "
                       "experts and back took 1.25 ms (10.0 % of the step)");
    assert_null(strstr(lesson, "most rows"));
    step.times.expert_rows = 600;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "The rank whose experts got the most rows had 1.00 times the mean of all");
}

/* The text has the parts of the rank that arrived last, and they add up to the longest step. */
static void check_parts(bool bracketed)
{
    base_error error;
    launch_steps kept = {0};
    sample made;
    launch_summary summary;
    sample_make(&made, "unused", 2, 4);
    assert_ok(launch_steps_init(&kept, 2, 0, 1, &error), &error);
    for (int i = 0; i < 8; i++) { /* rank 1 computes 6 ms longer in odd steps, rank 0 waits */
        const bool late = i % 2 == 1 && i / 2 % 2 == 1;
        launch_step step = step_of(late ? 16 : 10, 0, 2);
        step.step = (uint64_t)(i / 2);
        step.rank = i % 2;
        step.times.allreduce_exposed_ns = (i / 2 % 2 == 1 && !late ? 7 : 1) * 1000000;
        step.times.barrier_ns = bracketed ? step.times.allreduce_exposed_ns - 400000 : 0;
        step.times.allreduce_exposed_ns -= step.times.barrier_ns;
        step.times.allreduce_ns = step.times.allreduce_exposed_ns + 500000;
        step.times.step_ns = step.times.compute_ns + step.times.allreduce_ns +
                             step.times.barrier_ns + step.times.optimizer_ns +
                             (i % 2 == 0 ? 300000 : 200000); /* rank 0's step is the longest */
        assert_ok(launch_steps_add(&kept, &step, &error), &error);
    }
    assert_ok(launch_summary_init(&summary, &kept, 0, &made.end, &error), &error);
    static const double expected_ms[LAUNCH_PARTS] = {13, 0.5, 1, 0, 2, 0.3}; /* of steps 2 and 3 */
    double sum_ms = 0;
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        assert_true(fabs(summary.mean_step.part_ms[p] - expected_ms[p]) < 1e-9);
        sum_ms += summary.mean_step.part_ms[p];
    }
    assert_true(fabs(summary.mean_step.step_ms - 16.8) < 1e-9);
    assert_true(fabs(sum_ms - summary.mean_step.step_ms) < 1e-9);
    assert_true(fabs(summary.step_ms.mean - summary.mean_step.step_ms) < 1e-9);

    const launch_run_info info = {.cpus_allowed = 2, .cpus_online = 2, .load_before = 0};
    const launch_run run = {
        .job = &made.job, .steps = &kept, .summary = &summary, .info = &info, .end = &made.end};
    base_buffer text = {0};
    launch_lesson_write(&run, &text);
    assert_has(
        text.data,
        "The mean step took 16.80 ms, in the rank that arrived last: 13.00 ms (77.4 %) of "
        "forward and backward, 0.500 ms (3.0 %) of all-reduce calls while backward ran, 1.00 ms "
        "(6.0 %) of exchanging gradients after it, 2.00 ms (11.9 %) of AdamW and 0.300 ms (1.8 %) "
        "of other work. The other rank waited for it in the all-reduce, 3.00 ms in the mean.");
    base_buffer_fini(&text);
    launch_summary_fini(&summary);
    launch_steps_fini(&kept);
}

/* Also where ranks wait in a barrier before they exchange. */
static void the_parts_of_a_step_add_up(void **state)
{
    (void)state;
    check_parts(false);
    check_parts(true);
}

/* Of rounds of local steps whole ones are measured, with as many exchanges as there are. */
static void whole_rounds_are_measured(void **state)
{
    (void)state;
    static const struct {
        int64_t round;
        size_t steps, first;
    } cases[] = {{0, 21, 10}, {1, 21, 10}, {5, 20, 10}, {4, 20, 8}, {20, 20, 0}, {50, 20, 0}};
    base_error error;
    sample made;
    sample_make(&made, "unused", 1, 30);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        launch_steps kept = {0};
        launch_summary summary;
        assert_ok(launch_steps_init(&kept, 1, 0, 1, &error), &error);
        kept.round = cases[c].round;
        for (size_t i = 0; i < cases[c].steps; i++) {
            launch_step step = step_of(10, 1, 0);
            step.step = i;
            assert_ok(launch_steps_add(&kept, &step, &error), &error);
        }
        assert_ok(launch_summary_init(&summary, &kept, 0, &made.end, &error), &error);
        assert_int_equal(summary.measured_first, cases[c].first);
        launch_summary_fini(&summary);
        launch_steps_fini(&kept);
    }
}

static void local_steps_exchange_now_and_then(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    made.job.train.local_steps = 5;
    const launch_step exchanging = step_of(9, 1, 1.5);
    lesson_of(&made, &exchanging, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "of exchanging losses, and now and then what ranks have changed");
    assert_has(lesson, "the exchange of 1.88 MB every 5 steps; --local-steps can make it rarer.");
}

/* The cause of slower computing depends on the measurements: a rank without a core, slower cores,
 * the host. Without evidence the text says "probably". */
static void a_cause_needs_evidence(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    launch_step slower = step_of(13, 0.25, 1);
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson); /* no CPU times */
    assert_has(lesson, "probably because cores that work at once share the memory");
    assert_has(lesson, "was not measured");
    slower.times.compute_cpu_ns = 9500000; /* 0.5 of 4.25 ms */
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "a rank was without a core for 3.75 ms a step longer than alone");
    assert_null(strstr(lesson, "cache"));
    slower.times.compute_cpu_ns = 13000000;
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "CPU time rose from 9.00 ms to 13.00 ms a step. Cores that");
    steal_share = 0.001;
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "with no steal time to speak of. Cores that");
    assert_null(strstr(lesson, "probably"));
    steal_share = 0.12;
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "probably because the host of this virtual machine gave 12.0 %");
    assert_null(strstr(lesson, "cache"));
    steal_share = NAN;
}

/* A few steps, or some, are far longer than the others: the mean says nothing of these. */
static void a_few_long_steps_are_named(void **state)
{
    (void)state;
    static const struct {
        int every; /* so many steps one is long, the others take 10 ms */
        int long_ms;
        const char *expected;
    } CASES[] = {
        {40, 6010,
         "A few steps took most of the time: the mean is 16 times the median, 10.00 ms. "},
        {4, 70, "Some steps took far longer than others: the mean is 2.5 times the median, "},
        {40, 200, NULL},
    };
    base_error error;
    sample made;
    sample_make(&made, "unused", 1, 160);
    for (size_t c = 0; c < sizeof CASES / sizeof CASES[0]; c++) {
        launch_steps kept = {0};
        launch_summary summary;
        base_buffer text = {0};
        const launch_run_info info = {.cpus_allowed = 2, .cpus_online = 2};
        assert_ok(launch_steps_init(&kept, 1, 0, 1, &error), &error);
        for (int i = 0; i < 160; i++) {
            launch_step step = step_of(i % CASES[c].every == 0 ? CASES[c].long_ms : 10, 0, 0);
            step.step = (uint64_t)i;
            assert_ok(launch_steps_add(&kept, &step, &error), &error);
        }
        assert_ok(launch_summary_init(&summary, &kept, 0, &made.end, &error), &error);
        const launch_run run = {
            .job = &made.job, .steps = &kept, .summary = &summary, .info = &info, .end = &made.end};
        launch_lesson_write(&run, &text);
        if (CASES[c].expected != NULL) {
            assert_has(text.data, CASES[c].expected);
        } else {
            assert_null(strstr(text.data, "the median"));
        }
        base_buffer_fini(&text);
        launch_summary_fini(&summary);
        launch_steps_fini(&kept);
    }
}

/* What the last rank computes longer than the others is the price of waiting for it. */
static void the_last_rank_is_waited_for(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    made.scaling[1] = sample_point(2, 120000, 14, 1.2);
    made.scaling[1].mean_step.others_waiting_ms = 8; /* the mean of both ranks computes 10 ms */
    made.end.scaling_count = 2;
    const launch_step step = step_of(14, 0.25, 1.2);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "the other ranks wait for the last one for 8.00 ms. ");
    assert_has(lesson, "largest loss is waiting: in each step all ranks wait for the one that ends "
                       "backward last.");
    made.scaling[1].mean_step.compute_cpu_ms = 10;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "last, which was without a core for 4.00 ms a step longer than alone");
}

/* The job's own ranks were measured in turns with one rank, so those figures are compared. */
static void points_of_the_same_rounds_are_compared(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    made.scaling[1] = sample_point(2, 150000, 12, 1.4);
    made.end.scaling_count = 2;
    const launch_step other = step_of(30, 1, 2); /* the run itself was slower than that */
    lesson_of(&made, &other, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "Measured in turns after the training, 2 processes handled 150000 tokens/s "
                       "(148500 to 151500 "
                       "in 3 rounds) where one handled 100000 tokens/s (99000 to 101000 in 3 "
                       "rounds): 1.50 times as many, 75 %");
    made.scaling[1].tokens_per_second_high = 198001; /* one round was as good as ideal */
    lesson_of(&made, &other, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "it took no longer, within the noise of these measurements");
}

/* A disturbed round of one rank: no speed-up is named, and no cause. */
static void a_suspect_speed_up_is_not_explained(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 21000, 9, 1);
    made.scaling[0].tokens_per_second_low = 63;
    made.scaling[1] = sample_point(2, 15442, 12, 1.4);
    made.end.scaling_count = 2;
    const launch_step step = step_of(12, 1, 1.4);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_int_equal(strncmp(lesson, "The rounds of one process differ 337 times (63 to ", 50), 0);
    assert_has(lesson, "15442 tokens/s (15288 to 15596 in 3 rounds) where one handled 21000");
    assert_null(strstr(lesson, "times as many"));
    assert_null(strstr(lesson, "slower than one"));
    assert_null(strstr(lesson, "largest loss"));
}

static void two_ranks_slower_than_one(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    const launch_step step = step_of(20, 7.5, 2);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "0.54 times");
    assert_has(lesson, "slower than one here");
}

static void more_ranks_than_cores(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 8, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    const launch_step step = step_of(38, 5, 2);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "8 ranks share 2 cores");
    assert_has(lesson, "the ideal here is 2 times one process, not 8");
}

static void one_rank_alone(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 1, 10);
    const launch_step step = step_of(9, 0, 1);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "One process alone handled 100000 tokens/s");
    assert_null(strstr(lesson, "ideal"));
}

static void nothing_to_compare_with(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.end.scaling_count = 0;
    const launch_step step = step_of(9, 0, 1);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "was not measured");
    lesson_of(&made, &step, 1, 2, lesson, sizeof lesson); /* a single step */
    assert_has(lesson, "was not measured");
    lesson_of(&made, &step, 0, 2, lesson, sizeof lesson);
    assert_has(lesson, "No step was finished");
    const launch_step frozen = {0}; /* a clock that stood still */
    lesson_of(&made, &frozen, 4, 2, lesson, sizeof lesson);
    assert_has(lesson, "nothing was measured");
}

static void a_busy_machine_is_mentioned(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 1, 10);
    const launch_step step = step_of(9, 0, 1);
    load_before = 3.25;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "The machine was busy with other work when this run began (load 3.2");
    assert_ptr_equal(strstr(lesson, "The machine was busy"), lesson); /* a warning comes first */
    load_before = 0.2;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_null(strstr(lesson, "busy"));
    load_before = NAN;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_null(strstr(lesson, "busy"));
}

/* Likelier causes come before caches: CPUs that other jobs held, or too much load. */
static void other_work_comes_before_caches(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = sample_point(1, 100000, 9, 1);
    made.end.unbound = "2 CPUs wanted, 1 not taken by other jobs";
    made.end.cpus_taken = true;
    const launch_step slower = step_of(10, 0.25, 2);
    load_before = 0.2;
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "(2 CPUs wanted, 1 not taken by other jobs), so the ranks were not bound");
    assert_true(strstr(lesson, "likely cause") < strstr(lesson, "share the memory"));
    made.end.cpus_taken = false;
    made.end.unbound = "--no-bind";
    load_before = 5.5;
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "more work than cores (load 5.5 on 2 cores)");
    assert_true(strstr(lesson, "likely cause") < strstr(lesson, "share the memory"));
    assert_null(strstr(lesson, "busy"));
    made.end.cpus_taken = true; /* nothing was lost, but it is mentioned */
    load_before = 0.2;
    const launch_step ideal = step_of(9, 0.05, 0.9);
    lesson_of(&made, &ideal, 10, 2, lesson, sizeof lesson);
    assert_has(lesson, "had no CPUs of their own");
    assert_null(strstr(lesson, "likely cause"));
    load_before = NAN;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_against_one),
        cmocka_unit_test(shared_batches_are_compared_by_speed),
        cmocka_unit_test(exchanges_of_experts_are_told),
        cmocka_unit_test(the_parts_of_a_step_add_up),
        cmocka_unit_test(whole_rounds_are_measured),
        cmocka_unit_test(local_steps_exchange_now_and_then),
        cmocka_unit_test(a_cause_needs_evidence),
        cmocka_unit_test(a_few_long_steps_are_named),
        cmocka_unit_test(the_last_rank_is_waited_for),
        cmocka_unit_test(points_of_the_same_rounds_are_compared),
        cmocka_unit_test(a_suspect_speed_up_is_not_explained),
        cmocka_unit_test(two_ranks_slower_than_one),
        cmocka_unit_test(more_ranks_than_cores),
        cmocka_unit_test(one_rank_alone),
        cmocka_unit_test(nothing_to_compare_with),
        cmocka_unit_test(a_busy_machine_is_mentioned),
        cmocka_unit_test(other_work_comes_before_caches),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
