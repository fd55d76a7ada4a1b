/* Reads a trace for the report. Called by record.c. */
#include "record/trace.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/grow.h"
#include "base/limits.h"
#include "base/log.h"

enum {
    FILE_BYTES_MAX = 128 << 20,
    LINE_BYTES_MAX = 1 << 16, /* of one that is parsed; JSON in memory is many times as large */
    SPANS_FIRST = 1024,
    STEPS_MAX = PROTO_TRACE_STEPS_MAX,
};

static const double TIME_US_MAX = 1e15; /* thirty years */

static const char *const categories[LAUNCH_TRACE_CATEGORIES] = {
    [LAUNCH_TRACE_STEP] = "step",           [LAUNCH_TRACE_FORWARD] = "forward",
    [LAUNCH_TRACE_BACKWARD] = "backward",   [LAUNCH_TRACE_WEIGHTS] = "weights",
    [LAUNCH_TRACE_LAYER] = "layer",         [LAUNCH_TRACE_EMBEDDING] = "embedding",
    [LAUNCH_TRACE_ATTENTION] = "attention", [LAUNCH_TRACE_MLP] = "mlp",
    [LAUNCH_TRACE_OUTPUT] = "output",       [LAUNCH_TRACE_DRAFT] = "draft",
    [LAUNCH_TRACE_DRAW] = "draw",           [LAUNCH_TRACE_OVERLAPPED] = "overlapped",
    [LAUNCH_TRACE_WAITING] = "waiting",     [LAUNCH_TRACE_EXCHANGE] = "exchange",
    [LAUNCH_TRACE_OPTIMIZER] = "optimizer", [LAUNCH_TRACE_NEWTON_SCHULZ] = "newton_schulz",
    [LAUNCH_TRACE_OTHER] = "other",
};

typedef struct reading {
    launch_trace *trace;
    int world_size;
    size_t capacity;
    bool described; /* otherData was there */
} reading;

static int64_t integer_of(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static bool category_of(const json_t *event, launch_trace_category *category)
{
    const char *name = json_string_value(json_object_get(event, "cat"));
    for (int i = 0; name != NULL && i < LAUNCH_TRACE_CATEGORIES; i++) {
        if (strcmp(name, categories[i]) == 0) {
            *category = (launch_trace_category)i;
            return true;
        }
    }
    return false;
}

static bool time_of(const json_t *event, const char *key, double *time_ms)
{
    const json_t *value = json_object_get(event, key);
    const double time_us = json_number_value(value);
    *time_ms = time_us / 1e3;
    return json_is_number(value) && isfinite(time_us) && time_us >= 0 && time_us <= TIME_US_MAX;
}

/* False: it is no span that a report draws. */
static bool span_of(const json_t *event, int world_size, launch_trace_span *span)
{
    const json_t *arguments = json_object_get(event, "args");
    const char *name = json_string_value(json_object_get(event, "name"));
    const int64_t process = integer_of(event, "pid", 0);
    const int64_t thread = integer_of(event, "tid", 0);
    double took_ms = 0;
    if (name == NULL || !category_of(event, &span->category) ||
        !time_of(event, "ts", &span->begin_ms) || !time_of(event, "dur", &took_ms) || process < 1 ||
        process > world_size || thread < 1 || thread > BASE_RANKS_MAX) {
        return false;
    }
    (void)snprintf(span->name, sizeof span->name, "%s", name);
    span->end_ms = span->begin_ms + took_ms;
    span->rank = (int)process - 1;
    span->lane = (int)thread - 1;
    span->step = integer_of(arguments, "step", -1);
    span->micro_batch = integer_of(arguments, "micro_batch", -1);
    span->bucket = integer_of(arguments, "bucket", -1);
    span->layer = integer_of(arguments, "layer", -1);
    span->tokens = integer_of(arguments, "drawn", integer_of(arguments, "tokens", 0));
    span->drafted = integer_of(arguments, "accepted", integer_of(arguments, "drafted", 0));
    span->bytes = integer_of(arguments, "bytes", 0);
    return span->step >= 0;
}

static base_status add_event(reading *self, const json_t *event, base_error *reterr)
{
    launch_trace *trace = self->trace;
    launch_trace_span span = {0};
    if (trace->count >= LAUNCH_TRACE_SPANS_MAX || !span_of(event, self->world_size, &span)) {
        return BASE_OK;
    }
    launch_trace_span *more =
        base_grow(trace->spans, trace->count, &self->capacity, SPANS_FIRST, sizeof *more);
    if (more == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the spans of a trace");
    }
    trace->spans = more;
    trace->spans[trace->count++] = span;
    return BASE_OK;
}

static void take_clocks(launch_trace *trace, const json_t *clocks)
{
    const size_t count = json_array_size(clocks);
    trace->clock_count = 0; /* a line may be there twice */
    for (size_t i = 0; i < count && i < LAUNCH_TRACE_HOSTS_MAX; i++) {
        const json_t *from = json_array_get(clocks, i);
        launch_trace_clock *clock = &trace->clocks[trace->clock_count++];
        const char *host = json_string_value(json_object_get(from, "host"));
        (void)snprintf(clock->host, sizeof clock->host, "%s", host != NULL ? host : "");
        clock->known = json_is_true(json_object_get(from, "known"));
        clock->uncertainty_ms = json_number_value(json_object_get(from, "uncertainty_us")) / 1e3;
    }
}

/* A line of the file: an event, or what the trace says of itself. */
static base_status take_line(reading *self, const char *line, size_t bytes, base_error *reterr)
{
    static const char OTHER[] = "\"otherData\":";
    static const char OPERATION[] = "\"cat\":\"operation\"";
    base_status status = BASE_OK;
    const bool other = bytes > sizeof OTHER && memcmp(line, OTHER, sizeof OTHER - 1) == 0;
    if (!other && (bytes == 0 || line[0] != '{' || memmem(line, bytes, "\"ph\":\"X\"", 8) == NULL ||
                   memmem(line, bytes, OPERATION, sizeof OPERATION - 1) != NULL)) {
        return BASE_OK;
    }
    if (bytes > LINE_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "a line of it is too long");
    }
    const size_t head = other ? sizeof OTHER - 1 : 0;
    const size_t tail = other || line[bytes - 1] == ',' ? 1 : 0;
    json_t *value = json_loadb(line + head, bytes - head - tail, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(value)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "a line of it is no event of a trace");
    } else if (other) {
        const int64_t whole = integer_of(value, "whole_steps", 0);
        self->described = integer_of(value, "format", 0) == 1;
        self->trace->whole = whole > 0;
        self->trace->steps = whole > 0 && whole <= STEPS_MAX ? (int)whole : 1;
        self->trace->operations = integer_of(value, "steps_with_operations", 0) >= whole;
        take_clocks(self->trace, json_object_get(value, "clocks"));
    } else {
        status = add_event(self, value, reterr);
    }
    json_decref(value);
    return status;
}

static int by_place(const void *left, const void *right)
{
    const launch_trace_span *a = left;
    const launch_trace_span *b = right;
    const double first = a->rank != b->rank           ? a->rank - b->rank
                         : a->lane != b->lane         ? a->lane - b->lane
                         : a->begin_ms != b->begin_ms ? a->begin_ms - b->begin_ms
                                                      : b->end_ms - a->end_ms;
    return (first > 0) - (first < 0);
}

typedef struct step_length {
    int64_t step;
    double ms;
} step_length;

static int by_length(const void *left, const void *right)
{
    const step_length *a = left;
    const step_length *b = right;
    return a->ms != b->ms ? (a->ms > b->ms) - (a->ms < b->ms)
                          : (a->step > b->step) - (a->step < b->step);
}

/* The step of median length, on the first rank that is there. */
static bool choose(launch_trace *trace)
{
    step_length lengths[STEPS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < trace->count && count < STEPS_MAX; i++) {
        const launch_trace_span *span = &trace->spans[i];
        if (span->category == LAUNCH_TRACE_STEP && span->rank == trace->spans[0].rank) {
            lengths[count++] = (step_length){span->step, span->end_ms - span->begin_ms};
        }
    }
    qsort(lengths, count, sizeof lengths[0], by_length);
    trace->step = count > 0 ? lengths[count / 2].step : -1;
    return count > 0;
}

/* Keeps the spans of that step, and counts time from its begin. */
static void keep_step(launch_trace *trace)
{
    size_t kept = 0;
    double begin_ms = INFINITY;
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->spans[i].step == trace->step) {
            trace->spans[kept++] = trace->spans[i];
            begin_ms = fmin(begin_ms, trace->spans[i].begin_ms);
        }
    }
    trace->count = kept;
    for (size_t i = 0; i < kept; i++) {
        trace->spans[i].begin_ms -= begin_ms;
        trace->spans[i].end_ms -= begin_ms;
    }
}

base_status launch_trace_read(const char *directory, int world_size, launch_trace *trace,
                              base_error *reterr)
{
    char path[BASE_PATH_BYTES + 32];
    void *file = NULL;
    size_t left = 0;
    reading self = {.trace = trace, .world_size = world_size};
    *trace = (launch_trace){.step = -1};
    (void)snprintf(path, sizeof path, "%s/" PROTO_TRACE_FILE, directory);
    base_status status = base_file_read_regular(path, FILE_BYTES_MAX, &file, &left, reterr);
    const char *at = file;
    while (status == BASE_OK && left > 0) {
        const char *end = memchr(at, '\n', left);
        const size_t bytes = end != NULL ? (size_t)(end - at) : left;
        status = take_line(&self, at, bytes, reterr);
        left -= end != NULL ? bytes + 1 : bytes;
        at += bytes + 1;
    }
    free(file);
    if (status == BASE_OK && self.described && trace->count > 0) {
        qsort(trace->spans, trace->count, sizeof *trace->spans, by_place);
        if (choose(trace)) {
            keep_step(trace);
            return BASE_OK;
        }
    }
    if (status == BASE_OK) {
        status = base_fail(reterr, BASE_ERR_INVALID, "it has no step");
    }
    launch_trace_fini(trace);
    return status;
}

const launch_trace *launch_trace_find(const char *directory, const proto_job *job,
                                      launch_trace *trace)
{
    base_error error;
    *trace = (launch_trace){.step = -1};
    if (job->output.trace == 0) {
        return NULL;
    }
    const base_status status =
        launch_trace_read(directory, (int)job->job.world_size, trace, &error);
    if (status != BASE_OK && status != BASE_ERR_NOTFOUND) {
        base_log(BASE_LOG_WARNING, "%s/" PROTO_TRACE_FILE " is not drawn: %s", directory,
                 error.message);
    }
    return status == BASE_OK ? trace : NULL;
}

void launch_trace_fini(launch_trace *trace)
{
    free(trace->spans);
    *trace = (launch_trace){.step = -1};
}
