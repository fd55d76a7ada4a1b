/* Prints the plan of a job for --dry-run: ranks, CPUs, environment, files. Called by cli.c in place
 * of running it. */
#include "cli/dry_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/scaling.h"
#include "engine/place.h"
#include "job/affinity.h"
#include "job/spawn.h"
#include "proto/checkpoints.h"
#include "record/inference.h"

static void print_binding(const launch_options *options, const launch_affinity *affinity,
                          FILE *stream)
{
    const int ranks = (int)options->job.job.world_size;
    if (!options->bind) {
        (void)fprintf(stream, "binding: none (--no-bind)\n");
        return;
    }
    if (proto_mode_get(options->job.job.mode)->on_gpus) {
        (void)fprintf(stream, "binding: each rank to the CPUs near its GPU\n");
        return;
    }
    if (!affinity->bound) {
        (void)fprintf(stream, "binding: none (%s)\n", affinity->why_not);
        return;
    }
    (void)fprintf(stream, "binding:");
    for (int rank = 0; rank < ranks; rank++) {
        (void)fprintf(stream, "%s rank %d on CPU", rank == 0 ? "" : ",", rank);
        for (int i = 0; i < affinity->cpus_per_rank; i++) {
            (void)fprintf(stream, " %d", affinity->cpus[rank * affinity->cpus_per_rank + i]);
        }
    }
    (void)fprintf(stream, "\n");
}

static bool has_file(const char *directory, const char *name)
{
    char path[BASE_PATH_BYTES];
    return base_path_join(directory, name, path, NULL) == BASE_OK && access(path, F_OK) == 0;
}

/* Prints what becomes of a record that is there. */
static void print_fate(const launch_options *options, bool inference, FILE *stream)
{
    const char *out = options->job.output.directory;
    bool goes_on = false;
    uint64_t step = 0;
    if (!has_file(out, "manifest.json") && !has_file(out, "timings.jsonl") &&
        !has_file(out, PROTO_CHECKPOINTS_DIRECTORY)) {
        return;
    }
    if (options->job.train.resume &&
        proto_checkpoints_newest(out, &goes_on, &step, NULL) == BASE_OK && goes_on) {
        (void)fprintf(stream, " (there is one already: it goes on after step %" PRIu64 ")", step);
        return;
    }
    (void)fprintf(stream, " (there is one already: it is %s)",
                  options->overwrite || inference ? "replaced" : "moved away");
}

/* The model, as checkpoint/hf_directory.c of the ranks writes it, or its adapters. */
static void print_model(const proto_job *job, FILE *stream)
{
    char tokenizer[BASE_PATH_BYTES];
    const char *source = job->model.checkpoint;
    if (job->lora.rank > 0 && !job->lora.merge) {
        (void)fprintf(stream, " adapter_config.json adapter_model.safetensors "
                              "generation_config.json");
        return;
    }
    (void)fprintf(stream, " model.safetensors config.json generation_config.json tokenizer.json "
                          "tokenizer_config.json");
    if (source[0] != '\0' && base_path_join(source, "tokenizer.json", tokenizer, NULL) == BASE_OK &&
        strcmp(tokenizer, job->data.tokenizer) == 0 && has_file(source, "chat_template.jinja")) {
        (void)fprintf(stream, " chat_template.jinja");
    }
    if (job->lora.merge) {
        (void)fprintf(stream, " " PROTO_ADAPTER_DIRECTORY "/adapter_config.json"
                              " " PROTO_ADAPTER_DIRECTORY "/adapter_model.safetensors"
                              " " PROTO_ADAPTER_DIRECTORY "/generation_config.json");
    }
}

static void print_training(const proto_job *job, FILE *stream)
{
    (void)fprintf(stream, " scaling.svg scaling.dat loss.svg loss.dat steptime.svg steptime.dat");
    print_model(job, stream);
    /* rank 0 saves the parameters of all stages, shards or experts */
    const bool parts = proto_mode_get(job->job.mode)->pipelined ||
                       job->parallel.zero == PROTO_ZERO_PARAMETERS ||
                       proto_job_expert_ranks(job) > 1;
    for (int64_t rank = 0; rank < (parts ? 1 : job->job.world_size); rank++) {
        (void)fprintf(stream, " state-rank-%" PRId64 ".safetensors", rank);
    }
    (void)fprintf(stream, "%s", job->train.save_every > 0 ? " checkpoints/" : "");
}

/* A job that fails leaves others, too. */
static void print_files(const launch_options *options, FILE *stream)
{
    const proto_job *job = &options->job;
    const bool inference = proto_job_record(job) == PROTO_RECORD_INFERENCE;
    if (options->log_dir[0] != '\0') {
        (void)fprintf(stream, "logs: %s/rank-0.log … rank-%" PRId64 ".log\n", options->log_dir,
                      job->job.world_size - 1);
    }
    if (job->output.directory[0] == '\0') {
        (void)fprintf(stream, "files: none\n");
        return;
    }
    (void)fprintf(stream, "record: %s", job->output.directory);
    print_fate(options, inference, stream);
    (void)fprintf(stream, "\nfiles: timings.jsonl manifest.json report.html%s",
                  job->output.trace > 0 ? " " PROTO_TRACE_FILE : "");
    if (inference) {
        (void)fprintf(stream, " results.json%s",
                      job->infer.curve[0] != '\0' ? " scaling-curve.svg scaling-curve.dat" : "");
    } else {
        print_training(job, stream);
    }
    (void)fprintf(stream, "\n");
}

static void print_ranks(const launch_options *options, const char *rank_path, FILE *stream)
{
    static char variables[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES]; /* large for a stack */
    const int world_size = (int)options->job.job.world_size;
    for (int rank = 0; rank < world_size; rank++) {
        const launch_spawn_options spawn = {
            .rank_path = rank_path,
            .rank = rank,
            .world_size = world_size,
            .local_rank = rank % (world_size / (int)options->hosts.nodes),
            .local_world_size = world_size / (int)options->hosts.nodes,
            .threads = (int)options->job.parallel.threads_per_rank,
            .host_timeout_ms = (int)options->hosts.host_timeout_ms,
            .bind_to_gpu = options->bind,
            .root = options->root,
            .files = "",
            .interface = "",
            .ports = options->hosts.ports,
            .address = "127.0.0.1",
            .port = "(chosen by the system)",
            .job_fd = -1,
            .key_fd = -1,
            .lifeline_fd = -1,
            .lease_fd = -1,
        };
        const int count = launch_spawn_variables(&spawn, variables);
        (void)fprintf(stream, "rank %d: %s", rank, rank_path);
        for (char *const *argument = options->program;
             argument != NULL && argument[0] != NULL && *++argument != NULL;) {
            (void)fprintf(stream, " %s", *argument);
        }
        (void)fprintf(stream, "\n ");
        for (int i = 0; i < count; i++) {
            const char *value = strchr(variables[i], '=');
            if ((!proto_mode_costs_money(options->job.job.mode) &&
                 strncmp(variables[i], "RINGFENCE_LEASE_FD=", 19) == 0) ||
                (!proto_mode_get(options->job.job.mode)->on_gpus &&
                 strncmp(variables[i], "RINGFENCE_BIND_TO_GPU=", 22) == 0)) {
                continue;
            }
            if (value != NULL && strcmp(value, "=-1") == 0) {
                (void)fprintf(stream, " %.*s=(inherited)", (int)(value - variables[i]),
                              variables[i]);
            } else {
                (void)fprintf(stream, " %s", variables[i]);
            }
        }
        (void)fprintf(stream, "\n");
    }
}

base_status launch_dry_run_print(const launch_options *options, const char *rank_path, FILE *stream,
                                 base_error *reterr)
{
    const proto_job *job = &options->job;
    launch_affinity affinity = {0};
    char *text = NULL;
    size_t text_bytes = 0;
    int points[LAUNCH_SCALING_POINTS_MAX];
    base_status status = proto_job_write(job, options->root, &text, &text_bytes, reterr);
    if (status == BASE_OK && proto_job_record(job) == PROTO_RECORD_INFERENCE) {
        status = launch_inference_check_out(job->output.directory, reterr);
    }
    if (status == BASE_OK && options->bind) {
        status =
            launch_affinity_init(&affinity, (int)job->job.world_size,
                                 (int)job->parallel.threads_per_rank, LAUNCH_AFFINITY_LOOK, reterr);
    }
    if (status == BASE_OK) {
        (void)fprintf(stream, "job: %s\n", text);
        if (options->hosts.nodes > 1) {
            char engine[LAUNCH_PLACE_TEXT_BYTES];
            const bool named = options->hosts.rendezvous[0] != '\0';
            launch_place_describe(&options->hosts.place, engine);
            (void)fprintf(stream, "hosts: %" PRId64 ", by %s; %s%s\n", options->hosts.nodes, engine,
                          named ? "the head listens at " : "the engine says where the head listens",
                          options->hosts.rendezvous);
        }
        (void)fprintf(stream, "control: tcp://%s, port chosen by the system, CURVE\n",
                      options->hosts.nodes > 1 ? "(the head's address)" : "127.0.0.1");
        print_ranks(options, rank_path, stream);
        print_binding(options, &affinity, stream);
        print_files(options, stream);
        const int count = launch_scaling_plan(options, points);
        for (int i = 0; i < count; i++) {
            (void)fprintf(stream,
                          "then, %d times in turn: %" PRId64 " steps on %d %s, to measure\n",
                          LAUNCH_SCALING_ROUNDS, launch_scaling_steps(&options->job), points[i],
                          points[i] == 1 ? "rank" : "ranks");
        }
    }
    free(text);
    if (options->bind) {
        launch_affinity_fini(&affinity);
    }
    return status;
}
