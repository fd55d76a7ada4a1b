/* Writes the lines of timings.jsonl, and reads them back when a training goes on. Called by record.c. */
#include "record/timings.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* What a line says: a step, and what follows from it and its job. */
typedef struct timings_line {
    launch_step step;
    uint64_t heldout; /* sentences that the held-out loss is of, or that were to be corrected */
    int part;         /* of a stage, which the rank is */
} timings_line;

typedef enum timings_kind {
    TIMINGS_NUMBER, /* int */
    TIMINGS_COUNT,  /* uint64_t */
    TIMINGS_PAIRS,  /* uint64_t; null: nothing was to be corrected */
    TIMINGS_REAL,   /* double; null: NaN */
    TIMINGS_MS,     /* int64_t: nanoseconds, as milliseconds with every digit */
    TIMINGS_KNOWN,  /* the same; null: 0 */
} timings_kind;

/* Which lines have a field. */
typedef enum timings_when {
    TIMINGS_ALWAYS,
    TIMINGS_ROUTER,
    TIMINGS_BUSIEST,
    TIMINGS_EVALUATED, /* --eval-every */
    TIMINGS_CONTEXT,   /* ranks that share tokens */
    TIMINGS_EXPERTS,   /* ranks that share out experts */
    TIMINGS_BRACKETED,
    TIMINGS_STAGE,
    TIMINGS_SPLIT, /* a stage whose backward has two passes */
    TIMINGS_PART,  /* a stage of several ranks */
} timings_when;

#define AT(member) offsetof(timings_line, member)

/* In the order of a line. */
static const struct {
    const char *key;
    timings_kind kind;
    timings_when when;
    size_t at; /* of the member */
} fields[] = {
    {"step", TIMINGS_COUNT, TIMINGS_ALWAYS, AT(step.step)},
    {"rank", TIMINGS_NUMBER, TIMINGS_ALWAYS, AT(step.rank)},
    {"loss", TIMINGS_REAL, TIMINGS_ALWAYS, AT(step.loss)},
    {"loss_global", TIMINGS_REAL, TIMINGS_ALWAYS, AT(step.loss_global)},
    {"tokens", TIMINGS_COUNT, TIMINGS_ALWAYS, AT(step.times.tokens)},
    {"compute_ms", TIMINGS_MS, TIMINGS_ALWAYS, AT(step.times.compute_ns)},
    {"compute_cpu_ms", TIMINGS_KNOWN, TIMINGS_ALWAYS, AT(step.times.compute_cpu_ns)},
    {"allreduce_ms", TIMINGS_MS, TIMINGS_ALWAYS, AT(step.times.allreduce_ns)},
    {"allreduce_exposed_ms", TIMINGS_MS, TIMINGS_ALWAYS, AT(step.times.allreduce_exposed_ns)},
    {"optimizer_ms", TIMINGS_MS, TIMINGS_ALWAYS, AT(step.times.optimizer_ns)},
    {"step_ms", TIMINGS_MS, TIMINGS_ALWAYS, AT(step.times.step_ns)},
    {"bytes_sent", TIMINGS_COUNT, TIMINGS_ALWAYS, AT(step.times.bytes_sent)},
    {"epoch", TIMINGS_COUNT, TIMINGS_ALWAYS, AT(step.epoch)},
    {"learning_rate", TIMINGS_REAL, TIMINGS_ALWAYS, AT(step.learning_rate)},
    {"grad_norm", TIMINGS_REAL, TIMINGS_ALWAYS, AT(step.grad_norm)},
    {"router_loss", TIMINGS_REAL, TIMINGS_ROUTER, AT(step.router_loss)},
    {"busiest_expert", TIMINGS_REAL, TIMINGS_BUSIEST, AT(step.busiest_expert)},
    {"heldout_loss", TIMINGS_REAL, TIMINGS_EVALUATED, AT(step.heldout_loss)},
    {"heldout_sentences", TIMINGS_COUNT, TIMINGS_EVALUATED, AT(heldout)},
    {"heldout_correct", TIMINGS_PAIRS, TIMINGS_EVALUATED, AT(step.heldout_correct)},
    {"context_ms", TIMINGS_MS, TIMINGS_CONTEXT, AT(step.times.context_ns)},
    {"expert_ms", TIMINGS_MS, TIMINGS_EXPERTS, AT(step.times.expert_ns)},
    {"expert_rows", TIMINGS_COUNT, TIMINGS_EXPERTS, AT(step.times.expert_rows)},
    {"barrier_ms", TIMINGS_MS, TIMINGS_BRACKETED, AT(step.times.barrier_ns)},
    {"stage", TIMINGS_NUMBER, TIMINGS_STAGE, AT(step.stage_number)},
    {"part", TIMINGS_NUMBER, TIMINGS_PART, AT(part)},
    {"forward_ms", TIMINGS_MS, TIMINGS_STAGE, AT(step.stage.forward_ns)},
    {"backward_ms", TIMINGS_MS, TIMINGS_STAGE, AT(step.stage.backward_ns)},
    {"weights_ms", TIMINGS_MS, TIMINGS_SPLIT, AT(step.stage.weights_ns)},
    {"tensor_ms", TIMINGS_MS, TIMINGS_PART, AT(step.stage.tensor_ns)},
    {"neighbour_ms", TIMINGS_MS, TIMINGS_STAGE, AT(step.stage.neighbour_ns)},
    {"span_ms", TIMINGS_MS, TIMINGS_STAGE, AT(step.stage.span_ns)},
    {"held", TIMINGS_COUNT, TIMINGS_STAGE, AT(step.stage.held)},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static bool is_written(timings_when when, const launch_step *step, const proto_job *job)
{
    const bool staged = step->stage.held > 0;
    return when == TIMINGS_ALWAYS      ? true
           : when == TIMINGS_ROUTER    ? step->router_loss > 0
           : when == TIMINGS_BUSIEST   ? step->busiest_expert > 0
           : when == TIMINGS_EVALUATED ? step->evaluated
           : when == TIMINGS_CONTEXT   ? proto_job_context_ranks(job) > 1
           : when == TIMINGS_EXPERTS   ? proto_job_expert_ranks(job) > 1
           : when == TIMINGS_BRACKETED ? job->parallel.timing == PROTO_TIMING_BRACKETED
           : when == TIMINGS_STAGE     ? staged
           : when == TIMINGS_SPLIT     ? staged && step->stage.weights_ns > 0
                                       : staged && proto_job_tensor(job) > 1;
}

static void put_value(FILE *stream, const timings_line *line, timings_kind kind, const void *member)
{
    if (kind == TIMINGS_NUMBER) {
        (void)fprintf(stream, "%d", *(const int *)member);
    } else if (kind == TIMINGS_COUNT ||
               (kind == TIMINGS_PAIRS && line->step.heldout_sentences > 0)) {
        (void)fprintf(stream, "%" PRIu64, *(const uint64_t *)member);
    } else if (kind == TIMINGS_REAL && isfinite(*(const double *)member)) {
        (void)fprintf(stream, "%.9g", *(const double *)member);
    } else if (kind == TIMINGS_MS || (kind == TIMINGS_KNOWN && *(const int64_t *)member > 0)) {
        (void)fprintf(stream, "%.6f", (double)*(const int64_t *)member * 1e-6);
    } else {
        (void)fputs("null", stream);
    }
}

static const char line_begin[] = "{\"step\": ";

void launch_timings_put(FILE *stream, const launch_step *step, const proto_job *job)
{
    const bool has_pairs = step->heldout_sentences > 0;
    const timings_line line = {.step = *step,
                               .heldout =
                                   has_pairs ? step->heldout_sentences : step->heldout_measured,
                               .part = step->rank % (int)proto_job_tensor(job)};
    for (size_t i = 0; i < FIELDS; i++) {
        if (is_written(fields[i].when, step, job)) {
            (void)fprintf(stream, "%s\"%s\": ", i > 0 ? ", " : "{", fields[i].key);
            put_value(stream, &line, fields[i].kind, (const char *)&line + fields[i].at);
        }
    }
    (void)fputs("}\n", stream);
}

static void take_value(const json_t *value, timings_kind kind, void *member)
{
    if (kind == TIMINGS_NUMBER) {
        *(int *)member = (int)json_integer_value(value);
    } else if (kind == TIMINGS_COUNT || kind == TIMINGS_PAIRS) {
        *(uint64_t *)member = (uint64_t)json_integer_value(value);
    } else if (kind == TIMINGS_REAL) {
        *(double *)member = json_is_number(value) ? json_number_value(value) : NAN;
    } else {
        *(int64_t *)member = llround(json_number_value(value) * 1e6);
    }
}

static timings_line take_line(const json_t *object)
{
    timings_line line = {.part = 0};
    for (size_t i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(object, fields[i].key);
        if (value != NULL) {
            take_value(value, fields[i].kind, (char *)&line + fields[i].at);
        }
    }
    const bool has_pairs = json_is_integer(json_object_get(object, "heldout_correct"));
    line.step.evaluated = json_object_get(object, "heldout_loss") != NULL;
    line.step.heldout_sentences = has_pairs ? line.heldout : 0;
    line.step.heldout_measured = line.heldout;
    return line;
}

/* Whether the rank had this place in a job as that of these steps. */
static bool is_placed(const launch_steps *steps, const json_t *object, const timings_line *line)
{
    const int tensor = steps->tensor;
    const launch_step *step = &line->step;
    const bool is_stage = step->stage.held > 0;
    const bool has_part = json_object_get(object, "part") != NULL;
    return is_stage == (steps->stages > 0) &&
           (!is_stage || step->stage_number == step->rank / tensor % steps->stages) &&
           has_part == (tensor > 1) && line->part == step->rank % tensor;
}

/* Whether a line begins as those written here. */
static bool is_step(const char *line)
{
    return strncmp(line, line_begin, sizeof line_begin - 1) == 0;
}

/* What a file's lines are read into. */
typedef struct timings_reader {
    launch_steps *steps;
    bool begun;
} timings_reader;

/* Adds a line's step. False: it is none, or not the next one. */
static bool add_line(timings_reader *reader, const char *text, size_t text_bytes,
                     base_status *status, base_error *reterr)
{
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, NULL);
    const bool whole = is_step(text) && json_is_object(object) && text[text_bytes - 1] == '\n' &&
                       json_is_integer(json_object_get(object, "step")) &&
                       json_is_integer(json_object_get(object, "rank"));
    *status = BASE_OK;
    if (whole) {
        const timings_line line = take_line(object);
        if (!reader->begun) {
            launch_steps_go_on_from(reader->steps, line.step.step);
        }
        reader->begun = true;
        *status = is_placed(reader->steps, object, &line)
                      ? launch_steps_add(reader->steps, &line.step, reterr)
                      : BASE_ERR_INVALID;
    }
    json_decref(object);
    return whole && *status == BASE_OK;
}

base_status launch_timings_read(const char *path, launch_steps *steps, base_error *reterr)
{
    timings_reader reader = {.steps = steps};
    char *line = NULL;
    size_t capacity = 0;
    ssize_t got = 0;
    base_status status = BASE_OK;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return errno == ENOENT ? BASE_OK : base_fail_errno(reterr, errno, "cannot read %s", path);
    }
    while ((got = getline(&line, &capacity, file)) > 0 &&
           add_line(&reader, line, (size_t)got, &status, reterr)) {
    }
    free(line);
    (void)fclose(file);
    if (status == BASE_ERR_INVALID) { /* of another mode, or more ranks, or not in order */
        launch_steps_go_on_from(steps, 0);
        status = BASE_OK;
    }
    return status;
}

bool launch_timings_copy(const char *path, const launch_steps *steps, FILE *to)
{
    const size_t steps_kept = launch_steps_count(steps);
    size_t left = steps_kept * (size_t)steps->world_size; /* lines: what follows them is not ours */
    char *line = NULL;
    size_t capacity = 0;
    bool written = true;
    FILE *from = left > 0 ? fopen(path, "re") : NULL;
    if (from == NULL) {
        return left == 0;
    }
    while (written && left > 0 && getline(&line, &capacity, from) > 0) {
        const uint64_t step =
            is_step(line) ? strtoull(line + sizeof line_begin - 1, NULL, 10) : UINT64_MAX;
        if (step >= steps->first && step - steps->first < steps_kept) {
            written = fputs(line, to) >= 0;
            left--;
        }
    }
    free(line);
    (void)fclose(from);
    if (written && left > 0) { /* it was cut, or cannot be read */
        errno = EIO;
    }
    return written && left == 0;
}
