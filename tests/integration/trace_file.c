/* Reads traces of real jobs. Used by test_trace.c and test_trace_inference.c. */
#include "trace_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 };

/* Times of the file are whole nanoseconds, in microseconds. */
static int64_t ns_of(const json_t *event, const char *key)
{
    return llround(json_number_value(json_object_get(event, key)) * 1e3);
}

int trace_file_integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int)json_integer_value(value) : -1;
}

static int by_place(const void *left, const void *right)
{
    const trace_span *a = left;
    const trace_span *b = right;
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

trace_file trace_file_read(const training_run *run)
{
    trace_file found = {.count = 0};
    json_error_t error;
    size_t bytes = 0;
    char *text = training_file(run, "trace.json", &bytes);
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
                (trace_span){.rank = trace_file_integer(event, "pid") - 1,
                             .thread = trace_file_integer(event, "tid"),
                             .step = trace_file_integer(args, "step"),
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
            assert_true(found.step_count < TRACE_FILE_STEPS_MAX);
            found.steps[found.step_count++] = found.spans[i].step;
        }
    }
    return found;
}

void trace_file_free(trace_file *of)
{
    free(of->spans);
    json_decref(of->file);
}

bool trace_file_is(const trace_span *of, const char *category)
{
    return strcmp(of->category, category) == 0;
}

/* The span of that rank's step. */
static const trace_span *step_of(const trace_file *in, int rank, int step)
{
    for (size_t i = 0; i < in->count; i++) {
        if (in->spans[i].rank == rank && in->spans[i].step == step &&
            trace_file_is(&in->spans[i], "step")) {
            return &in->spans[i];
        }
    }
    fail_msg("rank %d has no step %d", rank, step);
    return NULL;
}

void trace_file_check_nesting(const trace_file *in)
{
    const trace_span *open[DEPTH_MAX];
    int depth = 0;
    for (size_t i = 0; i < in->count; i++) {
        const trace_span *own = &in->spans[i];
        const trace_span *step = step_of(in, own->rank, own->step);
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

void trace_file_check_steps(const trace_file *in, int ranks, int end, int steps)
{
    const json_t *other = json_object_get(in->file, "otherData");
    assert_int_equal(trace_file_integer(other, "whole_steps"), steps);
    assert_int_equal(trace_file_integer(other, "ranks"), ranks);
    assert_int_equal(trace_file_integer(other, "exchanges_left_out"), 0);
    assert_int_equal(in->step_count, steps);
    for (int i = 0; i < steps; i++) {
        assert_int_equal(in->steps[i], end - steps + i);
        for (int rank = 0; rank < ranks; rank++) {
            (void)step_of(in, rank, in->steps[i]);
        }
    }
}
