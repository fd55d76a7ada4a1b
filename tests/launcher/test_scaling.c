/* cli/scaling.h: which jobs are measured after a job. */
#include "cli/scaling.h"

#include "words.h"

static void measurements_after_a_job(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    int ranks[LAUNCH_SCALING_POINTS_MAX];
    assert_ok(parse(&options, WORDS("--steps", "50"), &error), &error);
    assert_int_equal(launch_scaling_plan(&options, ranks), 2);
    assert_int_equal(ranks[0], 2); /* the job's own, measured under the same conditions */
    assert_int_equal(ranks[1], 1);
    assert_ok(parse(&options, WORDS("--steps", "49"), &error), &error);
    assert_int_equal(launch_scaling_plan(&options, ranks), 0);
    assert_ok(parse(&options, WORDS("--ranks", "1"), &error), &error);
    assert_int_equal(launch_scaling_plan(&options, ranks), 0);
    assert_ok(parse(&options, WORDS("--no-scaling"), &error), &error);
    assert_int_equal(launch_scaling_plan(&options, ranks), 0);
    assert_ok(parse(&options, WORDS("--scaling", "1,2,4,4", "--steps", "5"), &error), &error);
    assert_int_equal(launch_scaling_plan(&options, ranks), 3);
    assert_int_equal(ranks[0], 2);
    assert_int_equal(ranks[1], 1);
    assert_int_equal(ranks[2], 4);
    assert_ok(parse(&options, WORDS("--scaling", "2"), &error), &error);
    assert_int_equal(launch_scaling_plan(&options, ranks), 0);
}

/* Rounds are measured whole, and not without being asked for where they are long. */
static void measurements_have_whole_rounds(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    int ranks[LAUNCH_SCALING_POINTS_MAX];
    static const struct {
        const char *local;
        int64_t steps;
        int points;
    } cases[] = {{"1", 30, 2}, {"7", 35, 2}, {"30", 30, 2}, {"50", 50, 2}, {"51", 51, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(
            parse(&options, WORDS("--steps", "107100", "--local-steps", cases[i].local), &error),
            &error);
        assert_int_equal(launch_scaling_steps(&options.job), cases[i].steps);
        assert_int_equal(launch_scaling_plan(&options, ranks), cases[i].points);
    }
    options.scaling_ranks[0] = 1;
    options.scaling_count = 1;
    assert_int_equal(launch_scaling_plan(&options, ranks), 2);
}

/* What several pipelines may say, one may not, as the sum's algorithm. */
static void measurements_of_fewer_pipelines_are_jobs(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    assert_ok(parse(&options,
                    WORDS("--mode", "pp-cpu", "--ranks", "8", "--stages", "2", "--layers", "2",
                          "--algorithm", "ring", "--scaling", "1,2,4"),
                    &error),
              &error);
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
        const proto_job point = launch_scaling_job(&options.job, ranks);
        assert_ok(proto_job_check(&point, &error), &error);
        assert_int_equal(proto_job_stages(&point), ranks < 2 ? 1 : 2);
        assert_int_equal(point.parallel.algorithm,
                         ranks > 2 ? PROTO_ALGORITHM_RING : PROTO_ALGORITHM_AUTO);
    }
    assert_ok(parse(&options,
                    WORDS("--mode", "pp-cpu", "--ranks", "8", "--stages", "2", "--tensor", "4",
                          "--layers", "4", "--scaling", "1,2,4,6"),
                    &error),
              &error);
    static const struct {
        int ranks, stages, tensor;
    } points[] = {{8, 2, 4}, {1, 1, 1}, {2, 1, 2}, {4, 1, 4}, {6, 3, 2}, {16, 2, 4}};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        const proto_job point = launch_scaling_job(&options.job, points[i].ranks);
        assert_ok(proto_job_check(&point, &error), &error);
        assert_int_equal(proto_job_stages(&point), points[i].stages);
        assert_int_equal(proto_job_tensor(&point), points[i].tensor);
    }
    assert_ok(launch_options_check(&options, &error), &error);
    assert_ok(parse(&options,
                    WORDS("--mode", "pp-cpu", "--ranks", "4", "--stages", "2", "--layers", "2",
                          "--scaling", "3"),
                    &error),
              &error);
    assert_int_equal(launch_options_check(&options, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--scaling 3: --ranks 3: each stage has a layer at least");
    assert_ok(parse(&options,
                    WORDS("--mode", "pp-cpu", "--ranks", "4", "--stages", "2", "--layers", "6",
                          "--micro-batches", "4", "--pipeline", "interleaved", "--scaling", "3"),
                    &error),
              &error);
    for (int ranks = 1; ranks <= 4; ranks *= 2) { /* one stage is not interleaved */
        const proto_job point = launch_scaling_job(&options.job, ranks);
        assert_ok(proto_job_check(&point, &error), &error);
        assert_int_equal(proto_job_pipeline(&point).chunks, ranks == 1 ? 1 : 2);
    }
    assert_int_equal(launch_options_check(&options, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--scaling 3: --pipeline interleaved: --micro-batches 4 must be a "
                              "multiple of the 3 stages");
}

/* Fewer ranks share a batch where so many ranks, or heads, cannot be shared. Whether tensor ranks can share
 * the heads of a checkpoint is not known yet. */
static void measurements_have_the_context_ranks_that_fit(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    static const int shared[] = {1, 2, 3, 4, 1, 6, 1, 4};
    assert_ok(parse(&options,
                    WORDS("--ranks", "12", "--context-ranks", "6", "--heads", "12", "--width", "48",
                          "--scaling", "1"),
                    &error),
              &error);
    for (int ranks = 1; ranks <= 8; ranks++) {
        const proto_job point = launch_scaling_job(&options.job, ranks);
        assert_int_equal(proto_job_context_ranks(&point), shared[ranks - 1]);
        assert_ok(proto_job_check(&point, &error), &error);
    }
    proto_job odd = options.job;
    odd.job.mode = PROTO_MODE_PP_CPU;
    odd.model.heads = 3;
    odd.parallel.tensor = 2;
    const proto_job point = launch_scaling_job(&odd, 2);
    assert_int_equal(proto_job_context_ranks(&point), 1);
    assert_int_equal(proto_job_tensor(&point), 2);
}

/* Fewer ranks share out the experts where so many do not divide the ranks, or slots would not be dealt so. */
static void measurements_have_the_expert_ranks_that_fit(void **state)
{
    (void)state;
    static launch_options options;
    base_error error;
    static const int shared[][8] = {{1, 2, 1, 4, 1, 2, 1, 4}, {1, 2, 1, 4, 1, 1, 1, 4}};
    static const char *const micro_batches[] = {"1", "2"};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(parse(&options,
                        WORDS("--ranks", "8", "--experts", "4", "--expert-ranks", "4",
                              "--micro-batches", micro_batches[i], "--scaling", "1"),
                        &error),
                  &error);
        for (int ranks = 1; ranks <= 8; ranks++) {
            const proto_job point = launch_scaling_job(&options.job, ranks);
            assert_int_equal(proto_job_expert_ranks(&point), shared[i][ranks - 1]);
            assert_ok(proto_job_check(&point, &error), &error);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measurements_after_a_job),
        cmocka_unit_test(measurements_have_whole_rounds),
        cmocka_unit_test(measurements_of_fewer_pipelines_are_jobs),
        cmocka_unit_test(measurements_have_the_context_ranks_that_fit),
        cmocka_unit_test(measurements_have_the_expert_ranks_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
