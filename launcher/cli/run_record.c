/* The record of a job: opens it, begins it when all ranks are ready, and writes it at the end. Called by
 * run_job.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/run_job.h"
#include "record/inference.h"
#include "record/steps.h"

/* Logs each line on stderr. NULL: there is none. */
static void print_lines(const char *lines)
{
    while (lines != NULL && lines[0] != '\0') {
        const size_t length = strcspn(lines, "\n");
        base_log(BASE_LOG_INFO, "%.*s", (int)length, lines);
        lines += length + (lines[length] == '\n' ? 1 : 0);
    }
}

/* Says what a training with --checkpoint takes from there. */
static void say_checkpoint(const launch_cli_run *run)
{
    const char *checkpoint = run->options->job.model.checkpoint;
    const char *adapter = run->options->job.model.adapter;
    if (run->options->job.lora.rank > 0 && !run->options->quiet) {
        base_log(
            BASE_LOG_INFO,
            "--lora: the parameters are those of %s and stay so; adapters alone are trained%s%s",
            checkpoint, adapter[0] != '\0' ? ", from those of " : "", adapter);
    } else if (checkpoint[0] != '\0' && !run->options->quiet) {
        base_log(BASE_LOG_INFO,
                 "--checkpoint: the parameters are those of %s; the optimizer is fresh, and the "
                 "data starts from the beginning",
                 checkpoint);
    }
}

base_status launch_cli_open_record(launch_cli_run *run, base_error *reterr)
{
    const launch_options *options = run->options;
    if (proto_job_record(&options->job) != PROTO_RECORD_TRAINING) {
        return BASE_OK; /* the ranks write all there is */
    }
    const launch_record_options record_options = {
        .out = options->job.output.directory,
        .overwrite = options->overwrite,
        .log_dir = options->log_dir[0] != '\0' ? options->log_dir : NULL,
        .argc = run->argc,
        .argv = run->argv,
        .engine = run->engine,
        .job = &options->job,
    };
    if (!options->job.train.resume) { /* else it is known only when rank 0 has looked */
        say_checkpoint(run);
    }
    return launch_record_open(&record_options, &run->record, reterr);
}

/* With --resume: says where the training begins. */
static void say_beginning(const launch_cli_run *run)
{
    const proto_job *job = &run->options->job;
    const uint64_t first = run->result.first_step;
    if (run->options->quiet || !job->train.resume) {
        return;
    }
    if (first > 0) {
        base_log(BASE_LOG_INFO, "--resume: goes on after step %" PRIu64 " of %" PRId64 "%s", first,
                 job->train.steps,
                 (int64_t)first >= job->train.steps
                     ? ": nothing is left to train (a larger --steps trains on)"
                     : "");
        return;
    }
    base_log(BASE_LOG_INFO, "--resume: no checkpoint in %s: starts at the beginning",
             job->output.directory);
    say_checkpoint(run);
}

base_status launch_cli_on_ready(void *user, base_error *reterr)
{
    launch_cli_run *run = user;
    if (run->record == NULL) {
        return BASE_OK;
    }
    say_beginning(run);
    base_status status = launch_record_check_room(
        run->record, run->options->job.job.world_size,
        &(launch_record_params){run->result.model_params, run->result.trained_params},
        run->result.first_step, reterr);
    if (status == BASE_OK) {
        status = launch_record_share_out(run->record, &run->options->job, run->result.first_step,
                                         reterr);
    }
    if (status == BASE_OK) {
        status = launch_record_begin(run->record, run->result.first_step, reterr);
    }
    run->recording = run->recording || status == BASE_OK;
    if (!run->options->quiet) {
        print_lines(launch_record_notes(run->record));
    }
    return status;
}

/* Why the job did not do all of its work; empty if it did. ready: the last attempt that was. */
static void describe_end(const launch_cli_run *run, const launch_job_result *ready,
                         base_error *reason)
{
    const launch_job_result *result = &run->result;
    char name[32] = "";
    *reason = result->cause;
    if (reason->message[0] != '\0' || result->stop_signal == 0) {
        return;
    }
    const char *short_name = sigabbrev_np(result->stop_signal);
    (void)snprintf(name, sizeof name, "SIG%s", short_name != NULL ? short_name : "?");
    if (run->scaling.stop_signal != 0) {
        (void)snprintf(reason->message, sizeof reason->message,
                       "stopped by %s while measuring %d %s, after the job itself was done", name,
                       run->scaling.stopped_at, run->scaling.stopped_at == 1 ? "rank" : "ranks");
    } else {
        (void)snprintf(reason->message, sizeof reason->message,
                       "stopped by %s after step %" PRId64 " of %" PRId64, name, ready->steps_done,
                       run->options->job.train.steps);
    }
}

base_status launch_cli_finish_record(launch_cli_run *run, base_error *reterr)
{
    const launch_job_result *result = run->result.ready ? &run->result : &run->earlier;
    if (run->record == NULL || !run->recording) {
        return BASE_OK; /* there is no record yet: stderr has all there is to say */
    }
    base_error reason;
    /* else the last attempt has failed when it began the record anew, with other ranks */
    const bool same = launch_record_steps(run->record)->world_size == result->world_size;
    describe_end(run, result, &reason);
    const launch_record_end end = {
        .exit_status = run->result.exit_status,
        .message = reason.message,
        .transport = result->transport,
        .algorithm = result->algorithm,
        .instruction_set = result->instruction_set,
        .unbound = result->unbound,
        .cpus_taken = result->cpus_taken,
        .model_params = result->model_params,
        .trained_params = result->trained_params,
        .ranks = same ? result->ranks : NULL,
        .experts = result->experts,
        .scaling = run->scaling.points,
        .scaling_count = run->scaling.point_count,
        .scaling_failed = run->scaling.failures,
        .scaling_failed_count = run->scaling.failure_count,
        .job_seconds = result->wall_seconds,
        .attempts = run->attempts,
        .attempt_count = run->attempt_count,
        .cost = run->lease != NULL ? &run->cost : NULL,
        .nvlink = launch_cli_find_nvlink(result, result->world_size),
    };
    return launch_record_finish(run->record, &end, reterr);
}

/* Adds to the ranks' results how the job ended. begun: what was known before the job. */
base_status launch_cli_finish_inference(const launch_cli_run *run, const launch_inference *begun,
                                        base_error *reterr)
{
    const launch_job_result *result = &run->result;
    base_error reason;
    const bool stopped = result->stop_signal != 0;
    if (result->ranks == NULL || !result->ranks[0].finished) {
        return BASE_OK; /* if there are results, they are an older run's */
    }
    reason = result->cause;
    if (stopped && reason.message[0] == '\0') {
        (void)snprintf(reason.message, sizeof reason.message, "stopped by signal %d",
                       result->stop_signal);
    }
    launch_inference inference = *begun;
    inference.job_seconds = result->wall_seconds;
    inference.exit_status = result->exit_status;
    inference.message = reason.message;
    inference.ranks = result->ranks;
    inference.cost = run->lease != NULL ? &run->cost : NULL;
    inference.nvlink = launch_cli_find_nvlink(result, run->options->job.job.world_size);
    base_buffer lines = {0};
    const base_status status = launch_inference_write(&inference, &lines, reterr);
    if (!run->options->quiet) {
        print_lines(lines.data);
    }
    base_buffer_fini(&lines);
    if (status == BASE_OK && !run->options->quiet) {
        base_log(BASE_LOG_INFO, "record: %s", run->options->job.output.directory);
    }
    return status;
}
