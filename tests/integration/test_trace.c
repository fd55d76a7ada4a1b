/* trace.json of real trainings: spans are nested, of the right steps, and in the order that the job says; what was
 * exchanged is there; and a trace changes no bits. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/pipeline.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

static const char MODEL[] = "model.safetensors";
static const char TRACE[] = "trace.json";

#define LAYERS "--layers", "3", "--bucket-bytes", "8192"

enum { RANKS_MAX = 8, THREADS_MAX = 1 + 64, DEPTH_MAX = 16, STEPS_MAX = 64 };

typedef struct span {
    int rank;
    int thread; /* 1: the rank's own */
    int step;
    int64_t begin_ns;
    int64_t end_ns;
    const char *name;
    const char *category;
    const json_t *args;
} span;

typedef struct trace {
    json_t *file;
    span *spans; /* by rank, thread and begin; the longer one first */
    size_t count;
    int steps[STEPS_MAX]; /* of rank 0 */
    int step_count;
} trace;

/* Times of the file are whole nanoseconds, in microseconds. */
static int64_t ns_of(const json_t *event, const char *key)
{
    return llround(json_number_value(json_object_get(event, key)) * 1e3);
}

static int integer_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int)json_integer_value(value) : -1;
}

static int by_place(const void *left, const void *right)
{
    const span *a = left;
    const span *b = right;
    if (a->rank != b->rank) {
        return a->rank - b->rank;
    }
    if (a->thread != b->thread) {
        return a->thread - b->thread;
    }
    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns ? -1 : 1;
    }
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

static trace read_trace(const training_run *run)
{
    trace found = {.count = 0};
    json_error_t error;
    size_t bytes = 0;
    char *text = training_file(run, TRACE, &bytes);
    found.file = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (found.file == NULL) {
        fail_msg("trace.json, line %d: %s", error.line, error.text);
    }
    const json_t *events = json_object_get(found.file, "traceEvents");
    found.spans = calloc(json_array_size(events) + 1, sizeof *found.spans);
    assert_non_null(found.spans);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const json_t *args = json_object_get(event, "args");
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0) {
            found.spans[found.count++] =
                (span){.rank = integer_of(event, "pid") - 1,
                       .thread = integer_of(event, "tid"),
                       .step = integer_of(args, "step"),
                       .begin_ns = ns_of(event, "ts"),
                       .end_ns = ns_of(event, "ts") + ns_of(event, "dur"),
                       .name = json_string_value(json_object_get(event, "name")),
                       .category = json_string_value(json_object_get(event, "cat")),
                       .args = args};
        }
    }
    qsort(found.spans, found.count, sizeof *found.spans, by_place);
    for (size_t i = 0; i < found.count && found.spans[i].rank == 0; i++) {
        if (strcmp(found.spans[i].category, "step") == 0) {
            assert_true(found.step_count < STEPS_MAX);
            found.steps[found.step_count++] = found.spans[i].step;
        }
    }
    return found;
}

static void free_trace(trace *of)
{
    free(of->spans);
    json_decref(of->file);
}

static bool is(const span *of, const char *category)
{
    return strcmp(of->category, category) == 0;
}

/* The span of that rank's step. */
static const span *step_of(const trace *in, int rank, int step)
{
    for (size_t i = 0; i < in->count; i++) {
        if (in->spans[i].rank == rank && in->spans[i].step == step && is(&in->spans[i], "step")) {
            return &in->spans[i];
        }
    }
    fail_msg("rank %d has no step %d", rank, step);
    return NULL;
}

/* Spans of one thread are nested or apart, and all lie in their step. */
static void check_nesting(const trace *in)
{
    const span *open[DEPTH_MAX];
    int depth = 0;
    for (size_t i = 0; i < in->count; i++) {
        const span *own = &in->spans[i];
        const span *step = step_of(in, own->rank, own->step);
        const bool new_thread =
            i == 0 || in->spans[i - 1].rank != own->rank || in->spans[i - 1].thread != own->thread;
        assert_true(own->end_ns >= own->begin_ns);
        assert_true(own->begin_ns >= step->begin_ns);
        assert_true(own->end_ns <= step->end_ns);
        depth = new_thread ? 0 : depth;
        while (depth > 0 && open[depth - 1]->end_ns <= own->begin_ns) {
            depth--;
        }
        if (depth > 0 && own->end_ns > open[depth - 1]->end_ns) {
            fail_msg("rank %d, thread %d: %s overlaps %s", own->rank, own->thread, own->name,
                     open[depth - 1]->name);
        }
        assert_true(own->thread == 1 || depth == 0); /* exchanges are not nested */
        assert_true(depth < DEPTH_MAX);
        open[depth++] = own;
    }
}

/* All ranks have the last `steps` steps before `end`. */
static void check_steps(const trace *in, int ranks, int end, int steps)
{
    const json_t *other = json_object_get(in->file, "otherData");
    assert_int_equal(integer_of(other, "whole_steps"), steps);
    assert_int_equal(integer_of(other, "ranks"), ranks);
    assert_int_equal(integer_of(other, "exchanges_left_out"), 0);
    assert_int_equal(in->step_count, steps);
    for (int i = 0; i < steps; i++) {
        assert_int_equal(in->steps[i], end - steps + i);
        for (int rank = 0; rank < ranks; rank++) {
            (void)step_of(in, rank, in->steps[i]);
        }
    }
}

static double number_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

/* A step has the same length, to the nanosecond, as in timings.jsonl. Its passes take no more than computing and
 * all-reduce together. */
static void check_timings(const trace *in, const training_run *run)
{
    size_t bytes = 0;
    char *text = training_file(run, "timings.jsonl", &bytes);
    int checked = 0;
    for (char *line = text; line < text + bytes;) {
        char *end = memchr(line, '\n', (size_t)(text + bytes - line));
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        const int rank = integer_of(row, "rank");
        const int step = integer_of(row, "step");
        int64_t passes_ns = 0;
        for (size_t i = 0; i < in->count; i++) {
            const span *own = &in->spans[i];
            if (own->rank != rank || own->step != step) {
                continue;
            }
            if (is(own, "step")) {
                assert_int_equal(own->end_ns - own->begin_ns,
                                 llround(number_of(row, "step_ms") * 1e6));
                checked++;
            }
            passes_ns +=
                is(own, "forward") || is(own, "backward") ? own->end_ns - own->begin_ns : 0;
        }
        assert_true(passes_ns <=
                    llround((number_of(row, "compute_ms") + number_of(row, "allreduce_ms")) * 1e6));
        json_decref(row);
        line = end + 1;
    }
    free(text);
    assert_true(checked > 0);
}

/* Every bucket is exchanged once in each step, and together they are the gradient. */
static void check_buckets(const trace *in, int ranks, int64_t params, int buckets_min)
{
    for (int rank = 0; rank < ranks; rank++) {
        for (int s = 0; s < in->step_count; s++) {
            uint64_t seen = 0;
            int64_t bytes = 0;
            for (size_t i = 0; i < in->count; i++) {
                const span *own = &in->spans[i];
                if (own->rank == rank && own->step == in->steps[s] && is(own, "exchange") &&
                    integer_of(own->args, "bucket") >= 0) {
                    const uint64_t bit = UINT64_C(1) << integer_of(own->args, "bucket");
                    assert_true((seen & bit) == 0);
                    assert_has(own->name, "of bucket");
                    assert_non_null(json_object_get(own->args, "algorithm"));
                    seen |= bit;
                    bytes += integer_of(own->args, "bytes");
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
    (void)snprintf(path, sizeof path, "%s/%s", one.out, TRACE);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void two_ranks_show_their_steps(void **state)
{
    (void)state;
    size_t bytes = 0;
    training_expect(&one, &test_shared_directory, "steps", 0, FLAGS("--ranks", "2", LAYERS));
    trace found = read_trace(&one);
    check_steps(&found, 2, 6, 3);
    check_nesting(&found);
    check_timings(&found, &one);
    check_buckets(&found, 2, params_of(&one), 5);
    char *report = training_file(&one, "report.html", &bytes);
    assert_has(report, "<h2>One step</h2>");
    assert_has(report, "backward, micro-batch 0, rank 1:");
    assert_has(report, "all-reduce of bucket");
    assert_null(strstr(report, "<script"));
    free(report);
    free_trace(&found);
}

/* Asking for more steps than there are gives all. */
static void few_steps_are_all_there(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "one-step", 0,
                    FLAGS("--ranks", "2", "--steps", "1", "--trace", "5"));
    trace found = read_trace(&one);
    check_steps(&found, 2, 1, 1);
    check_nesting(&found);
    free_trace(&found);
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
        trace found = read_trace(&one);
        const int ranks = layouts[i][0][2] == 'r' ? 2 : 4;
        bool there = false;
        check_steps(&found, ranks, 6, 3);
        check_nesting(&found);
        check_timings(&found, &one);
        for (size_t j = 0; j < found.count; j++) {
            there = there || strcmp(found.spans[j].name, seen[i]) == 0;
        }
        if (!there) {
            fail_msg("layout %zu has no %s", i, seen[i]);
        }
        free_trace(&found);
    }
}

/* Passes come in the order of the schedule, on every stage. */
static void a_pipeline_follows_its_schedule(void **state)
{
    (void)state;
    enum { STAGES = 2, MICRO_BATCHES = 4, LAYER_COUNT = 4 };
    static const char *const names[] = {"gpipe", "1f1b", "interleaved"};
    static const proto_pipeline_kind kinds[] = {PROTO_PIPELINE_GPIPE, PROTO_PIPELINE_1F1B,
                                                PROTO_PIPELINE_INTERLEAVED};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const proto_pipeline schedule = {.kind = kinds[k],
                                         .stages = STAGES,
                                         .chunks = kinds[k] == PROTO_PIPELINE_INTERLEAVED ? 2 : 1,
                                         .micro_batches = MICRO_BATCHES};
        training_expect(&one, &test_shared_directory, names[k], 0,
                        FLAGS("--mode", "pp-cpu", "--ranks", "2", "--layers", "4",
                              "--micro-batches", "4", "--pipeline", names[k]));
        trace found = read_trace(&one);
        check_steps(&found, STAGES, 6, 3);
        check_nesting(&found);
        int next = 0;
        int passes = 0;
        for (size_t i = 0; i < found.count; i++) {
            const span *own = &found.spans[i];
            if (!is(own, "forward") && !is(own, "backward")) {
                next = is(own, "step") ? 0 : next;
                continue;
            }
            const proto_pipeline_task task = proto_pipeline_task_at(&schedule, own->rank, next++);
            const int chunk = integer_of(own->args, "chunk");
            assert_int_equal(is(own, "backward"), task.backward);
            assert_int_equal(integer_of(own->args, "micro_batch"), task.micro_batch);
            assert_int_equal(chunk < 0 ? 0 : chunk, task.chunk);
            passes++;
        }
        assert_int_equal(passes, 3 * STAGES * proto_pipeline_tasks(&schedule));
        free_trace(&found);
    }
}

/* Layers that a stage does not have are not in its trace; backward goes through them the other way. */
static void layers_come_in_their_order(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "layers", 0,
                    FLAGS("--ranks", "1", LAYERS, "--trace", "1"));
    trace found = read_trace(&one);
    int order[8];
    int count = 0;
    for (size_t i = 0; i < found.count; i++) {
        if (is(&found.spans[i], "layer")) {
            assert_true(count < 8);
            order[count++] = integer_of(found.spans[i].args, "layer");
        }
    }
    const int expected[] = {0, 1, 2, 2, 1, 0};
    assert_int_equal(count, 6);
    assert_memory_equal(order, expected, sizeof expected);
    free_trace(&found);
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
    trace found = read_trace(&one);
    json_t *manifest = training_manifest(&one);
    const int done = integer_of(manifest, "steps");
    check_steps(&found, 2, done, done < 3 ? done : 3);
    check_nesting(&found);
    json_decref(manifest);
    free_trace(&found);
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
    trace found = read_trace(&one);
    check_steps(&found, 2, 6, 2);
    free_trace(&found);
    training_expect(
        &one, &test_shared_directory, name, 0,
        FLAGS("--ranks", "2", "--steps", "8", "--save-every", "2", "--resume", "--trace", "0"));
    (void)snprintf(path, sizeof path, "%s/%s", one.out, TRACE);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void modes_that_are_not_traced_refuse(void **state)
{
    (void)state;
    training_expect_refused(&one, FLAGS("--mode", "ddp-nccl", "--trace", "3"),
                            "--trace goes with modes whose steps are traced (ddp-cpu, pp-cpu)");
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
