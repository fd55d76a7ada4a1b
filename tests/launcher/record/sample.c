#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

static char words[][32] = {
    "build/release/bin/launcher", "--ranks", "2", "--mode", "ddp-cpu", "--out",
    "my experiment's <out>"};
static char *arguments[] = {words[0], words[1], words[2], words[3],
                            words[4], words[5], words[6], NULL};

static void fill_job(proto_job *job, int ranks, int steps)
{
    *job = (proto_job){
        .mode = "ddp-cpu",
        .world_size = ranks,
        .seed = 35000,
        .vocab_size = 512,
        .width = 128,
        .layers = 2,
        .heads = 4,
        .context = 64,
        .loss_on = "correction",
        .steps = steps,
        .batch = 16,
        .micro_batches = 1,
        .learning_rate = 3e-4,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
        .weight_decay = 0.01,
        .clip_norm = 1,
        .schedule = "constant",
        .transport = "auto",
        .algorithm = "auto",
        .timing = "overlapped",
        .bucket_bytes = 1 << 20,
        .timeout_ms = 300000,
        .join_timeout_ms = 30000,
        .threads_per_rank = 1,
    };
}

static void fill_ranks(sample *made, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        launch_rank_facts *facts = &made->ranks[r];
        memset(facts->params_sha256, 0xab, sizeof facts->params_sha256);
        facts->finished = true;
        facts->byte_equal = true;
        facts->max_rss_bytes = 41u << 20;
        facts->sentences_total = 20480;
        facts->sentences_shard = 20480 / (uint64_t)ranks;
        facts->sentences_long = (uint64_t)r;
        (void)snprintf(facts->first_sentence, sizeof facts->first_sentence,
                       r % 2 == 0 ? "he goed to school" : "she dont like <apples> & \"pears\"");
        (void)snprintf(facts->host, sizeof facts->host, "example");
        facts->pid = 4242 + r;
        facts->startup_ns = 9 * 1000 * 1000;
        facts->matrix_first_use_ns = 27 * 1000 * 1000;
    }
}

void sample_make(sample *made, const char *out, int ranks, int steps)
{
    memset(made, 0, sizeof *made);
    fill_job(&made->job, ranks, steps);
    fill_ranks(made, ranks);
    made->scaling[0] = (launch_scaling_point){
        .ranks = 1,
        .tokens_per_second = 96400,
        .step_ms_p50 = 10.6,
        .allreduce_ms_p50 = 0,
        .compute_ms_p50 = 9.1,
    };
    made->options = (launch_record_options){
        .out = out,
        .argc = (int)(sizeof arguments / sizeof arguments[0]) - 1,
        .argv = arguments,
        .job = &made->job,
    };
    made->end = (launch_record_end){
        .transport = "shm",
        .algorithm = "direct",
        .instruction_set = "avx512",
        .matrix_library = "oneDNN 2.6.3 avx512_core",
        .model_params = 470528,
        .ranks = made->ranks,
        .scaling = made->scaling,
        .scaling_count = 1,
        .wall_seconds = 2.5,
    };
}

/* Something between 0 and 1 that looks accidental. */
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
        .tokens = 1024,
        .compute_ns = (int64_t)(9.2e6 + 0.6e6 * noise + slow),
        .allreduce_ns = (int64_t)(2.1e6 + 0.5e6 * noise),
        .allreduce_exposed_ns = (int64_t)(0.3e6 + 0.5e6 * (1 - noise)),
        .optimizer_ns = (int64_t)(0.9e6 + 0.05e6 * noise),
        .bytes_sent = 1882112,
        .learning_rate = from->job.learning_rate,
        .grad_norm = 2.5 - 0.01 * (double)(step % 100),
    };
    made.step_ns = made.compute_ns + made.allreduce_exposed_ns + made.optimizer_ns + 120000;
    return made;
}

void sample_write(const sample *from, uint64_t steps)
{
    base_error error;
    launch_record *record = NULL;
    assert_ok(launch_record_open(&from->options, &record, &error), &error);
    assert_ok(launch_record_begin(record, &error), &error);
    for (uint64_t i = 0; i < steps; i++) {
        for (int r = 0; r < from->job.world_size; r++) {
            const launch_step step = sample_step(from, i, r);
            assert_ok(launch_record_step(record, &step, &error), &error);
        }
    }
    assert_ok(launch_record_finish(record, &from->end, &error), &error);
    launch_record_close(record);
}
