#include <math.h>
#include <string.h>

#include "record/run.h"
#include "sample.h"
#include "support.h"

static double load_before;

/* The lesson of a run of `steps` identical steps on that many allowed CPUs. */
static void lesson_of(const sample *made, const launch_step *like, int steps, int cpus,
                      char *lesson, size_t size_bytes)
{
    base_error error;
    launch_steps kept = {0};
    launch_summary summary;
    launch_text text = {0};
    const launch_facts facts = {
        .cpus_allowed = cpus, .cpus_online = cpus, .load_before = load_before};
    assert_ok(launch_steps_init(&kept, (int)made->job.world_size, &error), &error);
    for (int i = 0; i < steps * (int)made->job.world_size; i++) {
        launch_step step = *like;
        step.step = (uint64_t)(i / (int)made->job.world_size);
        step.rank = i % (int)made->job.world_size;
        assert_ok(launch_steps_add(&kept, &step, &error), &error);
    }
    assert_ok(launch_summary_init(&summary, &kept, &made->end, &error), &error);
    const launch_run run = {
        .job = &made->job, .steps = &kept, .summary = &summary, .facts = &facts, .end = &made->end};
    launch_lesson_write(&run, &text);
    assert_false(text.failed);
    assert_true(text.length_bytes < size_bytes);
    memcpy(lesson, text.data, text.length_bytes + 1);
    assert_null(strstr(lesson, "nan"));
    assert_null(strstr(lesson, "inf"));
    assert_null(strstr(lesson, "  "));
    assert_int_equal(lesson[strlen(lesson) - 1], '.');
    launch_text_fini(&text);
    launch_summary_fini(&summary);
    launch_steps_fini(&kept);
}

static launch_step step_of(double compute_ms, double exposed_ms, double optimizer_ms)
{
    return (launch_step){
        .tokens = 1000,
        .compute_ns = (int64_t)(compute_ms * 1e6),
        .allreduce_ns = (int64_t)(exposed_ms * 2e6),
        .allreduce_exposed_ns = (int64_t)(exposed_ms * 1e6),
        .optimizer_ns = (int64_t)(optimizer_ms * 1e6),
        .step_ns = (int64_t)((compute_ms + exposed_ms + optimizer_ms) * 1e6),
    };
}

static void assert_tells(const char *lesson, const char *expected)
{
    if (strstr(lesson, expected) == NULL) {
        fail_msg("\"%s\" is not in: %s", expected, lesson);
    }
}

static void two_ranks_against_one(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = (launch_scaling_point){1, 100000, 10, 0, 9};
    const launch_step slower = step_of(10, 0.5, 2); /* 12.5 ms: 160000 tokens/s */
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson,
                 "2 processes handled 160000 tokens/s where one handled 100000: 1.60 times");
    assert_tells(lesson, "80 % of the ideal 2");
    assert_tells(lesson, "it took 2.50 ms more");
    assert_tells(lesson, "took 9.00 ms alone and take 10.00 ms now");
    assert_tells(lesson, "one process never does, costs 0.500 ms");
    assert_tells(lesson, "50 % of it while backward still ran");
    assert_tells(lesson, "share the memory");

    const launch_step waiting = step_of(9, 2, 1.5);
    lesson_of(&made, &waiting, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "exchange of 1.88 MB of gradients");

    const launch_step ideal = step_of(9, 0.1, 0.9);
    lesson_of(&made, &ideal, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "it took no longer");
    assert_null(strstr(lesson, "larger loss"));
}

static void two_ranks_slower_than_one(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = (launch_scaling_point){1, 100000, 10, 0, 9};
    const launch_step step = step_of(20, 15, 2);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "0.54 times");
    assert_tells(lesson, "slower than one here");
}

static void more_ranks_than_cores(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 8, 10);
    made.scaling[0] = (launch_scaling_point){1, 100000, 10, 0, 9};
    const launch_step step = step_of(38, 5, 2);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "8 ranks share 2 cores");
    assert_tells(lesson, "the ideal here is 2 times one process, not 8");
}

static void one_rank_alone(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 1, 10);
    const launch_step step = step_of(9, 0, 1);
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "One process alone handled 100000 tokens/s");
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
    assert_tells(lesson, "was not measured");
    lesson_of(&made, &step, 1, 2, lesson, sizeof lesson); /* a single step */
    assert_tells(lesson, "was not measured");
    lesson_of(&made, &step, 0, 2, lesson, sizeof lesson);
    assert_tells(lesson, "No step was finished");
    const launch_step frozen = {0}; /* a clock that stood still */
    lesson_of(&made, &frozen, 4, 2, lesson, sizeof lesson);
    assert_tells(lesson, "nothing was measured");
}

static void a_busy_machine_is_told(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 1, 10);
    const launch_step step = step_of(9, 0, 1);
    load_before = 3.25;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson,
                 "adds. The machine was busy with other work when this run began (load 3.2");
    load_before = 0.2;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_null(strstr(lesson, "busy"));
    load_before = NAN;
    lesson_of(&made, &step, 10, 2, lesson, sizeof lesson);
    assert_null(strstr(lesson, "busy"));
}

/* What is likelier than caches comes before them: CPUs that others held, or too much load. */
static void other_work_comes_before_caches(void **state)
{
    (void)state;
    sample made;
    char lesson[4096];
    sample_make(&made, "unused", 2, 10);
    made.scaling[0] = (launch_scaling_point){1, 100000, 10, 0, 9};
    made.end.unbound = "2 CPUs wanted, 1 not taken by other jobs";
    made.end.cpus_taken = true;
    const launch_step slower = step_of(10, 0.5, 2);
    load_before = 0.2;
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "(2 CPUs wanted, 1 not taken by other jobs), so the ranks were not bound");
    assert_true(strstr(lesson, "likely cause") < strstr(lesson, "share the memory"));
    made.end.cpus_taken = false;
    made.end.unbound = "--no-bind";
    load_before = 5.5;
    lesson_of(&made, &slower, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "more work than cores (load 5.5 on 2 cores)");
    assert_true(strstr(lesson, "likely cause") < strstr(lesson, "share the memory"));
    assert_null(strstr(lesson, "busy"));
    made.end.cpus_taken = true; /* nothing was lost: told all the same */
    load_before = 0.2;
    const launch_step ideal = step_of(9, 0.1, 0.9);
    lesson_of(&made, &ideal, 10, 2, lesson, sizeof lesson);
    assert_tells(lesson, "had no CPUs of their own");
    assert_null(strstr(lesson, "likely cause"));
    load_before = NAN;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_against_one),
        cmocka_unit_test(two_ranks_slower_than_one),
        cmocka_unit_test(more_ranks_than_cores),
        cmocka_unit_test(one_rank_alone),
        cmocka_unit_test(nothing_to_compare_with),
        cmocka_unit_test(a_busy_machine_is_told),
        cmocka_unit_test(other_work_comes_before_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
