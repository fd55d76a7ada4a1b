/* A made-up run with figures that never change. Used by the tests of the record. */
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "record/steps.h"

/* In place of the C library's: a record says so where the machine was busy, and a sample's never is. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int getloadavg(double loads[], int count)
{
    for (int i = 0; i < count; i++) {
        loads[i] = 0.1;
    }
    return count;
}

static char words[][32] = {
    "build/release/bin/launcher", "--ranks", "2", "--mode", "ddp-cpu", "--out",
    "my experiment's <out>"};
static char *arguments[] = {words[0], words[1], words[2], words[3],
                            words[4], words[5], words[6], NULL};

static void fill_job(proto_job *job, int ranks, int steps)
{
    proto_job_defaults(job);
    job->job.world_size = ranks;
    job->train.steps = steps;
    job->parallel.bucket_bytes = 1 << 20;
}

static void fill_ranks(sample *made, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        launch_rank_info *info = &made->ranks[r];
        memset(info->params_sha256, 0xab, sizeof info->params_sha256);
        info->finished = true;
        info->byte_equal = true;
        info->max_rss_bytes = 41u << 20;
        info->sentences_total = 20480;
        info->sentences_shard = 20480 / (uint64_t)ranks;
        info->sentences_long = (uint64_t)r;
        (void)snprintf(info->first_sentence, sizeof info->first_sentence,
                       r % 2 == 0 ? "he goed to school" : "she dont like <apples> & \"pears\"");
        (void)snprintf(info->host, sizeof info->host, "example");
        info->pid = 4242 + r;
        info->startup_ns = 9 * 1000 * 1000;
    }
}

launch_scaling_point sample_point(int ranks, double tokens_per_second, double compute_ms,
                                  double optimizer_ms)
{
    return (launch_scaling_point){
        .ranks = ranks,
        .rounds = 3,
        .steps = 45,
        .tokens_per_second = tokens_per_second,
        .tokens_per_second_low = 0.99 * tokens_per_second,
        .tokens_per_second_high = 1.01 * tokens_per_second,
        .mean_step =
            {.step_ms = compute_ms + optimizer_ms,
             .part_ms =
                 {[LAUNCH_PART_COMPUTE] = compute_ms, [LAUNCH_PART_OPTIMIZER] = optimizer_ms},
             .compute_cpu_ms = compute_ms},
    };
}

void sample_make(sample *made, const char *name, int ranks, int steps)
{
    memset(made, 0, sizeof *made);
    (void)snprintf(made->out, sizeof made->out, "%s", test_shared_path(name));
    fill_job(&made->job, ranks, steps);
    fill_ranks(made, ranks);
    made->scaling[0] = sample_point(1, 96400, 9.1, 1.5);
    made->options = (launch_record_options){
        .out = made->out,
        .argc = (int)(sizeof arguments / sizeof arguments[0]) - 1,
        .argv = arguments,
        .job = &made->job,
    };
    made->end = (launch_record_end){
        .transport = "shm",
        .algorithm = "direct",
        .instruction_set = "avx512",
        .model_params = 470528,
        .trained_params = 470528,
        .ranks = made->ranks,
        .scaling = made->scaling,
        .scaling_count = 1,
        .job_seconds = 2.5,
    };
}

/* A number between 0 and 1 that looks random. */
static double scatter(uint64_t step, int rank)
{
    return (double)((step * 2654435761u + (uint64_t)rank * 40503u) % 1000) / 1000;
}

launch_step sample_step(const sample *from, uint64_t step, int rank)
{
    const double noise = scatter(step, rank);
    const double slow = step < 3 ? 9e6 * (double)(3 - step) : 0;
    const double loss = 0.9 + 5.3 * exp(-(double)step / 30);
    launch_step made = {
        .step = step,
        .rank = rank,
        .loss = loss + 0.1 * (noise - 0.5),
        .loss_global = loss + 0.06 * (scatter(step, -1) - 0.5),
        .times.tokens = 1024,
        .times.compute_cpu_ns = (int64_t)(9.1e6 + 0.6e6 * noise + slow),
        .times.compute_ns = (int64_t)(9.2e6 + 0.6e6 * noise + slow),
        .times.allreduce_ns = (int64_t)(2.1e6 + 0.5e6 * noise),
        .times.allreduce_exposed_ns = (int64_t)(0.3e6 + 0.5e6 * (1 - noise)),
        .times.optimizer_ns = (int64_t)(0.9e6 + 0.05e6 * noise),
        .times.bytes_sent = 1882112,
        .learning_rate = from->job.train.learning_rate,
        .grad_norm = 2.5 - 0.01 * (double)(step % 100),
    };
    if (step % 25 == 24) {
        made.evaluated = true;
        made.heldout_loss = made.loss_global + 0.2;
        made.heldout_sentences = 1248;
        made.heldout_correct = (uint64_t)(1248 * (1 - exp(-(double)step / 60)));
    }
    made.times.step_ns = made.times.compute_ns + made.times.allreduce_exposed_ns +
                         made.times.optimizer_ns +
                         (made.times.allreduce_ns - made.times.allreduce_exposed_ns) + 120000;
    return made;
}

base_status sample_report(launch_record *record, const launch_step *step, base_error *reterr)
{
    const base_status status = launch_steps_add(launch_record_steps(record), step, reterr);
    return status == BASE_OK ? launch_record_step(record, step, reterr) : status;
}

void sample_add(launch_record *record, const launch_step *step)
{
    base_error error;
    assert_ok(sample_report(record, step, &error), &error);
}

launch_record *sample_begin(const sample *from, uint64_t first_step)
{
    base_error error;
    launch_record *record = NULL;
    assert_ok(launch_record_open(&from->options, &record, &error), &error);
    assert_ok(launch_record_begin(record, first_step, &error), &error);
    return record;
}

void sample_end(const sample *from, launch_record *record)
{
    base_error error;
    assert_ok(launch_record_finish(record, &from->end, &error), &error);
    launch_record_close(record);
}

void sample_write(const sample *from, uint64_t steps)
{
    launch_record *record = sample_begin(from, 0);
    for (uint64_t i = 0; i < steps; i++) {
        for (int r = 0; r < from->job.job.world_size; r++) {
            const launch_step step = sample_step(from, i, r);
            sample_add(record, &step);
        }
    }
    sample_end(from, record);
}

char *sample_text(const sample *from, const char *name)
{
    char path[BASE_PATH_BYTES + 64];
    void *text = NULL;
    size_t text_bytes = 0;
    base_error error;
    (void)snprintf(path, sizeof path, "%s/%s", from->out, name);
    assert_ok(base_file_read(path, 4 << 20, &text, &text_bytes, &error), &error);
    assert_int_equal(strlen(text), text_bytes);
    return text;
}

json_t *sample_load(const char *directory, const char *name)
{
    char path[BASE_PATH_BYTES];
    json_error_t flaw;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &flaw);
    if (object == NULL) {
        fail_msg("%s: %s", path, flaw.text);
    }
    return object;
}

json_t *sample_manifest(const sample *from, uint64_t steps)
{
    sample_write(from, steps);
    return sample_load(from->options.out, "manifest.json");
}

double sample_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) {
        fail_msg("%s is no number", key);
    }
    return json_number_value(value);
}

void sample_assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-6 * fabs(expected))) {
        fail_msg("%.9g, expected %.9g", value, expected);
    }
}

enum { DEPTH_MAX = 32, NAME_BYTES = 16 };

void sample_assert_well_formed(const char *page)
{
    char open[DEPTH_MAX][NAME_BYTES];
    int depth = 0;
    for (const char *at = page; *at != '\0'; at++) {
        if (*at == '>') {
            fail_msg("a bare > at: %.60s", at);
        }
        if (*at != '<') {
            continue;
        }
        const char *end = at + 1;
        for (bool quoted = false; *end != '\0' && (quoted || *end != '>'); end++) {
            quoted = (*end == '"') != quoted;
            if (*end == '<') {
                fail_msg("a bare < at: %.60s", at);
            }
        }
        assert_int_equal(*end, '>');
        char name[NAME_BYTES] = "";
        const bool closing = at[1] == '/';
        (void)sscanf(at + 1 + closing, "%15[a-zA-Z0-9!]", name);
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(name, open[--depth]);
        } else if (end[-1] != '/' && strcmp(name, "!DOCTYPE") != 0 && strcmp(name, "meta") != 0) {
            assert_true(depth < DEPTH_MAX);
            memcpy(open[depth++], name, sizeof name);
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}
