/* Writes the lines of timings.jsonl, and reads them back when a training goes on. Called by record.c. */
#include "record/timings.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "null" if JSON has no number for the value. */
static void print_real(FILE *stream, const char *key, double value)
{
    if (isfinite(value)) {
        (void)fprintf(stream, ", \"%s\": %.9g", key, value);
    } else {
        (void)fprintf(stream, ", \"%s\": null", key);
    }
}

/* Nanoseconds as milliseconds, with every digit. */
static void print_ms(FILE *stream, const char *key, int64_t ns)
{
    (void)fprintf(stream, ", \"%s\": %.6f", key, (double)ns * 1e-6);
}

/* --eval-every. Of what has no pairs there is no accuracy. */
static void print_heldout(FILE *stream, const launch_step *step)
{
    const bool has_pairs = step->heldout_sentences > 0;
    const uint64_t sentences = has_pairs ? step->heldout_sentences : step->heldout_measured;
    print_real(stream, "heldout_loss", step->heldout_loss);
    (void)fprintf(stream, ", \"heldout_sentences\": %llu", (unsigned long long)sentences);
    if (has_pairs) {
        (void)fprintf(stream, ", \"heldout_correct\": %llu",
                      (unsigned long long)step->heldout_correct);
    } else {
        (void)fputs(", \"heldout_correct\": null", stream);
    }
}

static const char line_begin[] = "{\"step\": ";

void launch_timings_put(FILE *stream, const launch_step *step, const proto_job *job)
{
    const int tensor = (int)proto_job_tensor(job);
    (void)fprintf(stream, "%s%llu, \"rank\": %d", line_begin, (unsigned long long)step->step,
                  step->rank);
    print_real(stream, "loss", step->loss);
    print_real(stream, "loss_global", step->loss_global);
    (void)fprintf(stream, ", \"tokens\": %llu", (unsigned long long)step->times.tokens);
    print_ms(stream, "compute_ms", step->times.compute_ns);
    print_real(stream, "compute_cpu_ms",
               step->times.compute_cpu_ns > 0 ? (double)step->times.compute_cpu_ns * 1e-6 : NAN);
    print_ms(stream, "allreduce_ms", step->times.allreduce_ns);
    print_ms(stream, "allreduce_exposed_ms", step->times.allreduce_exposed_ns);
    print_ms(stream, "optimizer_ms", step->times.optimizer_ns);
    print_ms(stream, "step_ms", step->times.step_ns);
    (void)fprintf(stream, ", \"bytes_sent\": %llu, \"epoch\": %llu",
                  (unsigned long long)step->times.bytes_sent, (unsigned long long)step->epoch);
    print_real(stream, "learning_rate", step->learning_rate);
    print_real(stream, "grad_norm", step->grad_norm);
    if (step->router_loss > 0) {
        print_real(stream, "router_loss", step->router_loss);
    }
    if (step->busiest_expert > 0) {
        print_real(stream, "busiest_expert", step->busiest_expert);
    }
    if (step->evaluated) {
        print_heldout(stream, step);
    }
    if (proto_job_context_ranks(job) > 1) {
        print_ms(stream, "context_ms", step->times.context_ns);
    }
    if (proto_job_expert_ranks(job) > 1) {
        print_ms(stream, "expert_ms", step->times.expert_ns);
        (void)fprintf(stream, ", \"expert_rows\": %llu",
                      (unsigned long long)step->times.expert_rows);
    }
    if (job->parallel.timing == PROTO_TIMING_BRACKETED) {
        print_ms(stream, "barrier_ms", step->times.barrier_ns);
    }
    if (step->stage.held > 0) {
        (void)fprintf(stream, ", \"stage\": %d", step->stage_number);
        if (tensor > 1) {
            (void)fprintf(stream, ", \"part\": %d", step->rank % tensor);
        }
        print_ms(stream, "forward_ms", step->stage.forward_ns);
        print_ms(stream, "backward_ms", step->stage.backward_ns);
        if (step->stage.weights_ns > 0) {
            print_ms(stream, "weights_ms", step->stage.weights_ns);
        }
        if (tensor > 1) {
            print_ms(stream, "tensor_ms", step->stage.tensor_ns);
        }
        print_ms(stream, "neighbour_ms", step->stage.neighbour_ns);
        print_ms(stream, "span_ms", step->stage.span_ns);
        (void)fprintf(stream, ", \"held\": %llu", (unsigned long long)step->stage.held);
    }
    (void)fputs("}\n", stream);
}

/* Milliseconds as they were printed, with every digit. */
static int64_t take_ns(const json_t *line, const char *key)
{
    return llround(json_number_value(json_object_get(line, key)) * 1e6);
}

static uint64_t take_count(const json_t *line, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(line, key));
}

/* NaN stands as null. */
static double take_real(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static launch_step take_step(const json_t *line)
{
    const bool has_pairs = json_is_integer(json_object_get(line, "heldout_correct"));
    const uint64_t sentences = take_count(line, "heldout_sentences");
    return (launch_step){
        .step = take_count(line, "step"),
        .rank = (int)json_integer_value(json_object_get(line, "rank")),
        .loss = take_real(line, "loss"),
        .loss_global = take_real(line, "loss_global"),
        .times = {.tokens = take_count(line, "tokens"),
                  .bytes_sent = take_count(line, "bytes_sent"),
                  .compute_ns = take_ns(line, "compute_ms"),
                  .compute_cpu_ns = take_ns(line, "compute_cpu_ms"),
                  .context_ns = take_ns(line, "context_ms"),
                  .expert_ns = take_ns(line, "expert_ms"),
                  .expert_rows = take_count(line, "expert_rows"),
                  .barrier_ns = take_ns(line, "barrier_ms"),
                  .allreduce_ns = take_ns(line, "allreduce_ms"),
                  .allreduce_exposed_ns = take_ns(line, "allreduce_exposed_ms"),
                  .optimizer_ns = take_ns(line, "optimizer_ms"),
                  .step_ns = take_ns(line, "step_ms")},
        .epoch = take_count(line, "epoch"),
        .learning_rate = take_real(line, "learning_rate"),
        .grad_norm = take_real(line, "grad_norm"),
        .router_loss = json_number_value(json_object_get(line, "router_loss")),
        .busiest_expert = json_number_value(json_object_get(line, "busiest_expert")),
        .evaluated = json_object_get(line, "heldout_loss") != NULL,
        .heldout_loss = take_real(line, "heldout_loss"),
        .heldout_sentences = has_pairs ? sentences : 0,
        .heldout_measured = sentences,
        .heldout_correct = take_count(line, "heldout_correct"),
        .stage_number = (int)json_integer_value(json_object_get(line, "stage")),
        .stage = {.forward_ns = take_ns(line, "forward_ms"),
                  .backward_ns = take_ns(line, "backward_ms"),
                  .weights_ns = take_ns(line, "weights_ms"),
                  .neighbour_ns = take_ns(line, "neighbour_ms"),
                  .span_ns = take_ns(line, "span_ms"),
                  .tensor_ns = take_ns(line, "tensor_ms"),
                  .held = take_count(line, "held")},
    };
}

/* Whether the rank had this place in a job as that of these steps. */
static bool is_placed(const launch_steps *steps, const json_t *line, const launch_step *step)
{
    const int tensor = steps->tensor;
    const bool is_stage = step->stage.held > 0;
    const bool has_part = json_object_get(line, "part") != NULL;
    return is_stage == (steps->stages > 0) &&
           (!is_stage || step->stage_number == step->rank / tensor % steps->stages) &&
           has_part == (tensor > 1) &&
           (!has_part || take_count(line, "part") == (uint64_t)(step->rank % tensor));
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
    json_t *line = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, NULL);
    const bool whole = is_step(text) && json_is_object(line) && text[text_bytes - 1] == '\n' &&
                       json_is_integer(json_object_get(line, "step")) &&
                       json_is_integer(json_object_get(line, "rank"));
    *status = BASE_OK;
    if (whole) {
        const launch_step step = take_step(line);
        if (!reader->begun) {
            launch_steps_go_on_from(reader->steps, step.step);
        }
        reader->begun = true;
        *status = is_placed(reader->steps, line, &step)
                      ? launch_steps_add(reader->steps, &step, reterr)
                      : BASE_ERR_INVALID;
    }
    json_decref(line);
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
