/* trace.json of real trainings: spans are nested, of the right steps, and in the order that the job says; what was
 * exchanged is there; and a trace changes no bits. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/pipeline.h"
#include "trace_file.h"

static training_run one, two; /* large: they hold a program's output */

static const char MODEL[] = "model.safetensors";

#define LAYERS "--layers", "3", "--bucket-bytes", "8192"

static double number_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

/* A step has the same length, to the nanosecond, as in timings.jsonl. Its passes take no more than computing and
 * all-reduce together. */
static void check_timings(const trace_file *in, const training_run *run)
{
    size_t at = 0;
    const json_t *row = NULL;
    json_t *rows = training_timings(run->out);
    int checked = 0;
    json_array_foreach(rows, at, row)
    {
        const int rank = trace_file_integer(row, "rank");
        const int step = trace_file_integer(row, "step");
        int64_t passes_ns = 0;
        for (size_t i = 0; i < in->count; i++) {
            const trace_span *own = &in->spans[i];
            if (own->rank != rank || own->step != step) {
                continue;
            }
            if (trace_file_is(own, "step")) {
                assert_int_equal(own->end_ns - own->begin_ns,
                                 llround(number_of(row, "step_ms") * 1e6));
                checked++;
            }
            passes_ns += trace_file_is(own, "forward") || trace_file_is(own, "backward")
                             ? own->end_ns - own->begin_ns
                             : 0;
        }
        assert_true(passes_ns <=
                    llround((number_of(row, "compute_ms") + number_of(row, "allreduce_ms")) * 1e6));
    }
    json_decref(rows);
    assert_true(checked > 0);
}

/* Every bucket is exchanged once in each step, and together they are the gradient. */
static void check_buckets(const trace_file *in, int ranks, int64_t params, int buckets_min)
{
    for (int rank = 0; rank < ranks; rank++) {
        for (int s = 0; s < in->step_count; s++) {
            uint64_t seen = 0;
            int64_t bytes = 0;
            for (size_t i = 0; i < in->count; i++) {
                const trace_span *own = &in->spans[i];
                if (own->rank == rank && own->step == in->steps[s] &&
                    trace_file_is(own, "exchange") &&
                    trace_file_integer(own->args, "bucket") >= 0) {
                    const uint64_t bit = UINT64_C(1) << trace_file_integer(own->args, "bucket");
                    assert_true((seen & bit) == 0);
                    assert_has(own->name, "of bucket");
                    assert_non_null(json_object_get(own->args, "algorithm"));
                    seen |= bit;
                    bytes += trace_file_integer(own->args, "bytes");
                }
            }
            assert_int_equal(bytes, params * (int64_t)sizeof(float));
            assert_true((seen & (seen + 1)) == 0); /* 0, 1, 2 … */
            assert_true(seen >> (buckets_min - 1) != 0);
        }
    }
}

static int64_t params_of(const training_run *run)
{
    json_t *manifest = training_manifest(run);
    const int64_t params = json_integer_value(json_object_get(manifest, "model_params"));
    json_decref(manifest);
    assert_true(params > 0);
    return params;
}

static void a_trace_changes_no_bits(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES + 32];
    training_expect(&one, &test_shared_directory, "untraced", 0,
                    FLAGS("--ranks", "2", LAYERS, "--trace", "0"));
    training_expect(&two, &test_shared_directory, "traced", 0,
                    FLAGS("--ranks", "2", LAYERS, "--trace", "3"));
    training_assert_same_file(&one, MODEL, &two, MODEL);
    (void)snprintf(path, sizeof path, "%s/%s", one.out, "trace.json");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void two_ranks_show_their_steps(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "steps", 0, FLAGS("--ranks", "2", LAYERS));
    trace_file found = trace_file_read(&one);
    trace_file_check_steps(&found, 2, 6, 3);
    trace_file_check_nesting(&found);
    check_timings(&found, &one);
    check_buckets(&found, 2, params_of(&one), 5);
    char *report = training_file(&one, "report.html", NULL);
    assert_has(report, "<h2>One step</h2>");
    assert_has(report, "backward, micro-batch 0, rank 1:");
    assert_has(report, "all-reduce of bucket");
    assert_null(strstr(report, "<script"));
    free(report);
    trace_file_free(&found);
}

/* Asking for more steps than there are gives all. */
static void few_steps_are_all_there(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "one-step", 0,
                    FLAGS("--ranks", "2", "--steps", "1", "--trace", "5"));
    trace_file found = trace_file_read(&one);
    trace_file_check_steps(&found, 2, 1, 1);
    trace_file_check_nesting(&found);
    trace_file_free(&found);
}

/* Micro-batches, shards, ranks that share batches or experts, local steps, several pipelines. */
static void all_layouts_are_nested(void **state)
{
    (void)state;
    static const char *const layouts[][16] = {
        {"--ranks", "2", "--micro-batches", "3", "--timing", "bracketed", NULL},
        {"--ranks", "2", "--zero", "1", NULL},
        {"--ranks", "2", "--zero", "2", "--micro-batches", "2", NULL},
        {"--ranks", "2", "--zero", "3", "--recompute", NULL},
        {"--ranks", "2", "--context-ranks", "2", NULL},
        {"--ranks", "2", "--experts", "4", "--expert-ranks", "2", "--micro-batches", "2", NULL},
        {"--ranks", "2", "--local-steps", "2", NULL},
        {"--mode", "pp-cpu", "--ranks", "4", "--stages", "2", "--tensor", "2", NULL},
        {"--mode", "pp-cpu", "--ranks", "4", "--stages", "2", "--micro-batches", "2", NULL},
    };
    static const char *const seen[] = {"barrier",
                                       "all-gather of parameters",
                                       "reduce-scatter of bucket 0",
                                       "all-gather of parameters 0",
                                       "all-to-all of heads",
                                       "rows to experts and back",
                                       "outer step",
                                       "all-reduce of parts",
                                       "all-reduce of bucket 0"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const char *flags[TRAINING_FLAGS_MAX] = {"--layers", "3"};
        size_t count = 2;
        for (size_t j = 0; layouts[i][j] != NULL; j++) {
            flags[count++] = layouts[i][j];
        }
        training_expect(&one, &test_shared_directory, "layout", 0, flags);
        trace_file found = trace_file_read(&one);
        const int ranks = layouts[i][0][2] == 'r' ? 2 : 4;
        bool there = false;
        trace_file_check_steps(&found, ranks, 6, 3);
        trace_file_check_nesting(&found);
        check_timings(&found, &one);
        for (size_t j = 0; j < found.count; j++) {
            there = there || strcmp(found.spans[j].name, seen[i]) == 0;
        }
        if (!there) {
            fail_msg("layout %zu has no %s", i, seen[i]);
        }
        trace_file_free(&found);
    }
}

/* Passes come in the order of the schedule, on every stage. */
static void a_pipeline_follows_its_schedule(void **state)
{
    (void)state;
    enum { STAGES = 2, MICRO_BATCHES = 4, LAYER_COUNT = 4 };
    static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
    static const proto_pipeline_kind kinds[] = {PROTO_PIPELINE_GPIPE, PROTO_PIPELINE_1F1B,
                                                PROTO_PIPELINE_INTERLEAVED, PROTO_PIPELINE_ZB_H1};
    static const char *const passes_are[PROTO_PIPELINE_PASSES] = {
        [PROTO_PIPELINE_FORWARD] = "forward",
        [PROTO_PIPELINE_BACKWARD] = "backward",
        [PROTO_PIPELINE_WEIGHTS] = "weights"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const proto_pipeline schedule = {.kind = kinds[k],
                                         .stages = STAGES,
                                         .chunks = kinds[k] == PROTO_PIPELINE_INTERLEAVED ? 2 : 1,
                                         .micro_batches = MICRO_BATCHES};
        training_expect(&one, &test_shared_directory, names[k], 0,
                        FLAGS("--mode", "pp-cpu", "--ranks", "2", "--layers", "4",
                              "--micro-batches", "4", "--pipeline", names[k]));
        trace_file found = trace_file_read(&one);
        trace_file_check_steps(&found, STAGES, 6, 3);
        trace_file_check_nesting(&found);
        int next = 0;
        int passes = 0;
        for (size_t i = 0; i < found.count; i++) {
            const trace_span *own = &found.spans[i];
            if (!trace_file_is(own, "forward") && !trace_file_is(own, "backward") &&
                !trace_file_is(own, "weights")) {
                next = trace_file_is(own, "step") ? 0 : next;
                continue;
            }
            const proto_pipeline_task task = proto_pipeline_task_at(&schedule, own->rank, next++);
            const int chunk = trace_file_integer(own->args, "chunk");
            assert_true(trace_file_is(own, passes_are[task.pass]));
            assert_int_equal(trace_file_integer(own->args, "micro_batch"), task.micro_batch);
            assert_int_equal(chunk < 0 ? 0 : chunk, task.chunk);
            passes++;
        }
        assert_int_equal(passes, 3 * STAGES * proto_pipeline_tasks(&schedule));
        trace_file_free(&found);
    }
}

/* Layers that a stage does not have are not in its trace; backward goes through them the other way. */
static void layers_come_in_their_order(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "layers", 0,
                    FLAGS("--ranks", "1", LAYERS, "--trace", "1"));
    trace_file found = trace_file_read(&one);
    int order[8];
    int count = 0;
    for (size_t i = 0; i < found.count; i++) {
        if (trace_file_is(&found.spans[i], "layer")) {
            assert_true(count < 8);
            order[count++] = trace_file_integer(found.spans[i].args, "layer");
        }
    }
    const int expected[] = {0, 1, 2, 2, 1, 0};
    assert_int_equal(count, 6);
    assert_memory_equal(order, expected, sizeof expected);
    trace_file_free(&found);
}

/* The last steps before a Ctrl-C. */
static void a_stopped_training_shows_its_last_steps(void **state)
{
    (void)state;
    training_start(&one, &test_shared_directory, "stopped",
                   FLAGS("--ranks", "2", "--steps", "1000000"));
    test_program_wait_text(&one.program, TEST_STDERR, "step ");
    assert_int_equal(kill(one.program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&one.program), 128 + SIGINT);
    trace_file found = trace_file_read(&one);
    json_t *manifest = training_manifest(&one);
    const int done = trace_file_integer(manifest, "steps");
    trace_file_check_steps(&found, 2, done, done < 3 ? done : 3);
    trace_file_check_nesting(&found);
    json_decref(manifest);
    trace_file_free(&found);
}

/* A training that goes on replaces the trace of its first part, and without --trace removes it. */
static void a_resumed_training_has_its_own_trace(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES + 32];
    const char *name = "resumed";
    training_expect(&one, &test_shared_directory, name, 0,
                    FLAGS("--ranks", "2", "--steps", "4", "--save-every", "2", "--resume"));
    training_expect(&one, &test_shared_directory, name, 0,
                    FLAGS("--ranks", "2", "--steps", "6", "--save-every", "2", "--resume"));
    trace_file found = trace_file_read(&one);
    trace_file_check_steps(&found, 2, 6, 2);
    trace_file_free(&found);
    training_expect(
        &one, &test_shared_directory, name, 0,
        FLAGS("--ranks", "2", "--steps", "8", "--save-every", "2", "--resume", "--trace", "0"));
    (void)snprintf(path, sizeof path, "%s/%s", one.out, "trace.json");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void modes_that_are_not_traced_refuse(void **state)
{
    (void)state;
    training_expect_refused(
        &one, FLAGS("--mode", "ddp-nccl", "--trace", "3"),
        "--trace goes with modes whose steps are traced (ddp-cpu, generate, tp-cpu, "
        "pp-cpu)");
    training_expect_refused(&one, FLAGS("--ranks", "2", "--trace", "1001"), "--trace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_changes_no_bits),
        cmocka_unit_test(two_ranks_show_their_steps),
        cmocka_unit_test(few_steps_are_all_there),
        cmocka_unit_test(all_layouts_are_nested),
        cmocka_unit_test(a_pipeline_follows_its_schedule),
        cmocka_unit_test(layers_come_in_their_order),
        cmocka_unit_test(a_stopped_training_shows_its_last_steps),
        cmocka_unit_test(a_resumed_training_has_its_own_trace),
        cmocka_unit_test(modes_that_are_not_traced_refuse),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
