/* Runs a job with its restarts, keeps its record and the ranks' flight records, and measures
 * scaling afterwards. Called by cli.c. */
#include "cli/run_job.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "cli/feed.h"
#include "cli/summary_lines.h"
#include "engine/place.h"
#include "gpus/watch.h"
#include "job/writer.h"
#include "proto/checkpoints.h"
#include "record/flight_page.h"
#include "record/inference.h"

int launch_report_error(const base_error *error)
{
    base_log(BASE_LOG_ERROR, "%s", error->message);
    return BASE_EXIT_ERROR;
}

static base_status on_step(void *user, const launch_step *step, base_error *reterr)
{
    launch_cli_run *run = user;
    launch_gpu_watch_sample(run->gpus);
    return run->record != NULL ? launch_record_step(run->record, step, reterr) : BASE_OK;
}

static void on_output(void *user, uint64_t index, const char *prompt, const char *text)
{
    launch_cli_run *run = user;
    (void)index;
    (void)prompt;
    launch_gpu_watch_sample(run->gpus);
    launch_writer_result("%s\n", run->streamed ? "" : text);
    run->streamed = false;
}

static void on_piece(void *user, const char *text)
{
    launch_cli_run *run = user;
    launch_writer_result("%s", text);
    run->streamed = true;
}

/* Writes the ranks' flight records into the record's directory, or else into that of the logs.
 * *line is what to log. */
static void keep_flights(const launch_cli_run *run, const char *const *records, int ranks,
                         const char *cause, base_error *line)
{
    const launch_options *options = run->options;
    const char *directory = run->recording ? options->job.output.directory : options->log_dir;
    base_error error;
    line->message[0] = '\0';
    if (directory[0] == '\0' && (options->program != NULL || cause[0] == '\0')) {
        (void)snprintf(line->message, sizeof line->message,
                       "the ranks' flight records are kept with --log-dir DIR only");
    } else if (directory[0] != '\0' &&
               launch_flight_write(directory, records, ranks, cause, &error) != BASE_OK) {
        (void)snprintf(line->message, sizeof line->message, "warning: no flight records: %.*s",
                       (int)sizeof line->message - 32, error.message);
    } else if (directory[0] != '\0') {
        (void)snprintf(line->message, sizeof line->message,
                       "what each rank was doing: %.*s/flight.html", (int)sizeof line->message - 48,
                       directory);
    }
}

static void log_flights(base_error *line)
{
    if (line->message[0] != '\0') {
        base_log(BASE_LOG_INFO, "%s", line->message);
        line->message[0] = '\0';
    }
}

static void on_flights(void *user, const char *const *records, int ranks, const char *cause)
{
    launch_cli_run *run = user;
    keep_flights(run, records, ranks, cause, &run->flights);
    if (cause[0] == '\0') { /* the user asked for the records; otherwise the error comes first */
        log_flights(&run->flights);
    }
}

/* Keeps a rank's last output, if --log-dir does not keep all of it. */
static void on_tail(void *user, int rank, const char *text, size_t bytes)
{
    launch_cli_run *run = user;
    launch_rank_logs_write(&run->rank_logs, run->options->job.output.directory, run->recording,
                           rank, text, bytes);
}

/* The error's line says where the ranks' output is. */
static void name_rank_logs(launch_cli_run *run)
{
    base_error *cause = &run->result.cause;
    const size_t used = strlen(cause->message);
    if (run->rank_logs.directory[0] != '\0' && used > 0) {
        (void)snprintf(cause->message + used, sizeof cause->message - used,
                       "; what the ranks wrote last: %s/rank-N.log", run->rank_logs.directory);
    }
}

/* Logs each of the record's notes on stderr. */
static void print_notes(const launch_cli_run *run)
{
    if (run->record == NULL || run->options->quiet) {
        return;
    }
    const char *notes = launch_record_notes(run->record);
    while (notes[0] != '\0') {
        const size_t length = strcspn(notes, "\n");
        base_log(BASE_LOG_INFO, "%.*s", (int)length, notes);
        notes += length + (notes[length] == '\n' ? 1 : 0);
    }
}

static base_status open_record(launch_cli_run *run, base_error *reterr)
{
    const launch_options *options = run->options;
    if (proto_mode_get(options->job.job.mode)->record != PROTO_RECORD_TRAINING) {
        return BASE_OK; /* the ranks write all there is */
    }
    const launch_record_options record_options = {
        .out = options->job.output.directory,
        .overwrite = options->overwrite,
        .plots = options->plots,
        .log_dir = options->log_dir[0] != '\0' ? options->log_dir : NULL,
        .argc = run->argc,
        .argv = run->argv,
        .engine = run->engine,
        .job = &options->job,
    };
    return launch_record_open(&record_options, &run->record, reterr);
}

/* Says with what a training begins, if that is not fresh parameters. */
static void say_beginning(const launch_cli_run *run)
{
    const proto_job *job = &run->options->job;
    const uint64_t first = run->result.first_step;
    if (run->options->quiet) {
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
    if (job->train.resume) {
        base_log(BASE_LOG_INFO, "--resume: no checkpoint in %s: starts at the beginning",
                 job->output.directory);
    }
    if (job->model.checkpoint[0] != '\0') {
        base_log(BASE_LOG_INFO,
                 "--checkpoint: the parameters are those of %s; the optimizer is fresh, and the "
                 "data starts from the beginning",
                 job->model.checkpoint);
    }
}

static base_status on_ready(void *user, base_error *reterr)
{
    launch_cli_run *run = user;
    if (run->record == NULL) {
        return BASE_OK;
    }
    say_beginning(run);
    base_status status = launch_record_check_room(run->record, run->options->job.job.world_size,
                                                  run->result.model_params, reterr);
    if (status == BASE_OK) {
        status = launch_record_begin(run->record, run->result.first_step, reterr);
    }
    run->recording = status == BASE_OK;
    print_notes(run);
    return status;
}

/* Measures the scaling curve after the job. */
static void measure_scaling(launch_cli_run *run)
{
    launch_job_result *result = &run->result;
    if (result->exit_status != 0) {
        return;
    }
    launch_scaling_measure(run->options, run->rank_path, &run->scaling);
    if (run->scaling.stop_signal != 0) {
        result->stop_signal = run->scaling.stop_signal;
        result->exit_status = BASE_EXIT_SIGNAL_BASE + result->stop_signal;
    }
}

/* Why the job did not do all of its work; empty if it did. */
static void describe_end(const launch_cli_run *run, base_error *reason)
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
                       "stopped by %s after step %" PRId64 " of %" PRId64, name, result->steps_done,
                       run->options->job.train.steps);
    }
}

static base_status finish_record(launch_cli_run *run, base_error *reterr)
{
    const launch_job_result *result = &run->result;
    if (run->record == NULL || !result->ready) {
        return BASE_OK; /* there is no record yet: stderr has all there is to say */
    }
    base_error reason;
    describe_end(run, &reason);
    const launch_record_end end = {
        .exit_status = result->exit_status,
        .message = reason.message,
        .transport = result->transport,
        .algorithm = result->algorithm,
        .instruction_set = result->instruction_set,
        .unbound = result->unbound,
        .cpus_taken = result->cpus_taken,
        .model_params = result->model_params,
        .ranks = result->ranks,
        .scaling = run->scaling.points,
        .scaling_count = run->scaling.point_count,
        .scaling_failed = run->scaling.failures,
        .scaling_failed_count = run->scaling.failure_count,
        .job_seconds = result->wall_seconds,
        .cost = run->lease != NULL ? &run->cost : NULL,
        .nvlink = launch_cli_find_nvlink(run),
    };
    const base_status status = launch_record_finish(run->record, &end, reterr);
    print_notes(run);
    return status;
}

/* Runs the job once. If the launcher itself fails, that is in the result as well. */
static base_status run_once(launch_cli_run *run, int attempt)
{
    const launch_options *options = run->options;
    const bool on_gpus = proto_mode_get(options->job.job.mode)->on_gpus;
    base_error error = {0};
    launch_cli_feed *feed = NULL;
    base_status status = options->job.infer.requests
                             ? launch_cli_feed_create(options, STDIN_FILENO, &feed, &error)
                             : BASE_OK;
    const launch_job_options job_options = {
        .job = &options->job,
        .root = options->root,
        .rank_path = run->rank_path,
        .program = options->program,
        .hosts = options->hosts.nodes > 1 ? &options->hosts : NULL,
        .place = &options->hosts.place,
        .files = run->files,
        .file_count = run->file_count,
        .lease = run->lease,
        .attempt = attempt,
        .log_dir = options->log_dir[0] != '\0' ? options->log_dir : NULL,
        .bind = options->bind,
        .quiet = options->quiet,
        .on_ready = on_ready,
        .on_step = on_step,
        .on_output = on_output,
        .on_piece = on_piece,
        .on_flights = on_flights,
        .on_tail = on_gpus && options->log_dir[0] == '\0' ? on_tail : NULL,
        .feed = feed != NULL ? launch_cli_feed_table(feed) : NULL,
        .user = run,
    };
    run->gpus = on_gpus ? launch_gpu_watch_open() : NULL;
    run->rank_logs = (launch_rank_logs){.begun = false};
    if (status == BASE_OK) {
        status = launch_job_run(&job_options, &run->result, &error);
    }
    launch_cli_take_watch(run);
    name_rank_logs(run);
    launch_cli_feed_destroy(feed);
    if (run->streamed) {
        on_output(run, 0, "", ""); /* ends the line of a text that has no end */
    }
    if (status != BASE_OK) {
        const int stop_signal = run->result.stop_signal;
        run->result.exit_status = launch_report_error(&error);
        if (stop_signal != 0) {
            run->result.exit_status = BASE_EXIT_SIGNAL_BASE + stop_signal;
        }
        run->result.cause = error;
    } else if (run->result.cause.message[0] != '\0') {
        base_log(BASE_LOG_ERROR, "%s", run->result.cause.message);
    }
    log_flights(&run->flights);
    return status;
}

/* Whether a job that ended so may be started again. It may not if the user ended it, if it never
 * began, or if it would be refused again. */
static bool may_restart(const launch_cli_run *run, int attempt)
{
    const launch_job_result *result = &run->result;
    const int status = result->exit_status;
    const bool refused = status == BASE_EXIT_USAGE || status == BASE_EXIT_OVER_CAP ||
                         status == BASE_EXIT_REFUSED || status == BASE_EXIT_BAD_TOKEN;
    const int attempts_max = run->lease != NULL ? launch_lease_attempts_max(run->lease)
                                                : (int)run->options->max_restarts + 1;
    return status != 0 && result->started && !refused && result->stop_signal == 0 &&
           attempt <= run->options->max_restarts && attempt < attempts_max;
}

/* Says how a training that ended early goes on. */
static void say_resume(const launch_cli_run *run)
{
    const proto_job *job = &run->options->job;
    bool found = false;
    uint64_t step = 0;
    if (run->result.exit_status != 0 && run->recording && job->train.save_every > 0 &&
        proto_checkpoints_newest(job->output.directory, &found, &step, NULL) == BASE_OK && found) {
        base_log(BASE_LOG_INFO, "the same command%s goes on after step %" PRIu64,
                 job->train.resume ? "" : " with --resume", step);
    }
}

/* Runs all attempts. The result is the last one's. */
static void run_attempts(launch_cli_run *run)
{
    for (int attempt = 1;; attempt++) {
        const base_status status = run_once(run, attempt);
        if (status != BASE_OK || !may_restart(run, attempt)) {
            say_resume(run);
            return;
        }
        base_log(BASE_LOG_WARNING, "starting again: attempt %d of at most %d", attempt + 1,
                 (int)run->options->max_restarts + 1);
        launch_job_result_fini(&run->result);
    }
}

/* Adds to the ranks' results how the job ended. begun: what was known before the job. */
static base_status finish_inference(const launch_cli_run *run, const launch_inference *begun,
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
    inference.nvlink = launch_cli_find_nvlink(run);
    inference.plots = run->options->plots;
    launch_text notes = {0};
    const base_status status = launch_inference_write(&inference, &notes, reterr);
    if (notes.data != NULL && !run->options->quiet) {
        base_log(BASE_LOG_INFO, "%.*s", (int)strcspn(notes.data, "\n"), notes.data);
    }
    launch_text_fini(&notes);
    if (status == BASE_OK && !run->options->quiet) {
        base_log(BASE_LOG_INFO, "record: %s", run->options->job.output.directory);
    }
    return status;
}

/* One line says what has started this launcher, unless that was the user. */
static void name_engine(launch_cli_run *run)
{
    const launch_hosts_options *hosts = &run->options->hosts;
    if (hosts->place.engine == LAUNCH_ENGINE_NONE) {
        return;
    }
    launch_place_describe(&hosts->place, run->engine);
    if (!run->options->quiet) {
        base_log(BASE_LOG_INFO, "started by %s: launcher %" PRId64 " of %" PRId64, run->engine,
                 hosts->node_rank, hosts->nodes);
    }
}

/* Lists the files that other hosts may fetch. They are read whole, which may take long. */
static base_status list_files(launch_cli_run *run, base_error *reterr)
{
    const int64_t begun_ns = base_now_ns();
    uint64_t bytes = 0;
    const base_status status =
        proto_job_files(&run->options->job, &run->files, &run->file_count, reterr);
    const double seconds = (double)(base_now_ns() - begun_ns) / BASE_NS_PER_S;
    for (int i = 0; i < run->file_count; i++) {
        bytes += run->files[i].size_bytes;
    }
    if (status == BASE_OK && seconds > 1 && !run->options->quiet) {
        base_log(BASE_LOG_INFO, "read the job's files for their digests: %.1f MB in %.1f s",
                 (double)bytes / 1e6, seconds);
    }
    return status;
}

/* From here on the job itself hears what the user says. A signal that comes when it is over waits
 * until record and lease are done. */
static void block_stops(void)
{
    sigset_t stops;
    (void)sigemptyset(&stops);
    (void)sigaddset(&stops, SIGINT);
    (void)sigaddset(&stops, SIGTERM);
    (void)sigaddset(&stops, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &stops, NULL);
}

static bool flush_soon(void)
{
    return launch_writer_flush(base_deadline_after_ns(LAUNCH_WRITER_FLUSH_MS * BASE_NS_PER_MS));
}

/* The ranks' output is a part of the result, so a job of which some was lost has not ended well, but
 * it does not run again for that. A reader who is slow does not hold up the record. */
static void note_lost_output(launch_cli_run *run)
{
    (void)flush_soon(); /* the rest comes in finish_output */
    if (launch_writer_lost() != 0 && run->result.exit_status == BASE_EXIT_DONE) {
        run->result.exit_status = BASE_EXIT_ERROR;
    }
}

/* Runs the job, with all that belongs to it. */
static int run_whole(launch_cli_run *run)
{
    const launch_options *options = run->options;
    base_error error = {0};
    int lock_fd = -1; /* of --out; a record of training has its own */
    launch_inference inference = {.job = &options->job, .argc = run->argc, .argv = run->argv};
    const bool infers = proto_mode_get(options->job.job.mode)->record == PROTO_RECORD_INFERENCE;
    if (options->hosts.nodes > 1 && options->program == NULL &&
        list_files(run, &error) != BASE_OK) {
        return launch_report_error(&error);
    }
    launch_inference_begin(&inference);
    name_engine(run);
    if (infers &&
        launch_inference_lock(options->job.output.directory, &lock_fd, &error) != BASE_OK) {
        return launch_report_error(&error);
    }
    if (open_record(run, &error) != BASE_OK) {
        return launch_report_error(&error);
    }
    if (run->lease != NULL) {
        launch_lease_cost(run->lease, &run->cost);
    }
    block_stops();
    run_attempts(run);
    note_lost_output(run);
    if (run->result.cause.message[0] == '\0') {
        measure_scaling(run);
    }
    if ((infers ? finish_inference(run, &inference, &error) : finish_record(run, &error)) !=
        BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        run->result.exit_status =
            run->result.exit_status != 0 ? run->result.exit_status : BASE_EXIT_ERROR;
    }
    launch_summary_print(options, &run->result, &run->scaling,
                         run->record != NULL && launch_record_is_whole(run->record));
    const int exit_status = run->result.exit_status;
    launch_record_close(run->record);
    if (lock_fd >= 0) {
        (void)close(lock_fd);
    }
    launch_lease_destroy(run->lease);
    free(run->files);
    launch_job_result_fini(&run->result);
    return exit_status;
}

/* Waits until all output is written. The user may end that: no signal is blocked then. */
static void finish_output(const sigset_t *mask_before)
{
    const bool done = flush_soon();
    (void)pthread_sigmask(SIG_SETMASK, mask_before, NULL);
    if (!done && launch_writer_is_idle(STDERR_FILENO)) {
        base_log(BASE_LOG_INFO,
                 "the job is over, but its output is not read: Ctrl-C drops the rest");
    }
    launch_writer_stop();
}

int launch_run_job(launch_cli_run *run)
{
    sigset_t mask_before;
    base_error error;
    if (launch_writer_start(&error) != BASE_OK) {
        return launch_report_error(&error);
    }
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    const int exit_status = run_whole(run);
    finish_output(&mask_before);
    if (launch_writer_lost() != 0) {
        base_log(BASE_LOG_ERROR, "cannot write to standard output: %s",
                 strerror(launch_writer_lost()));
        return exit_status == BASE_EXIT_DONE ? BASE_EXIT_ERROR : exit_status;
    }
    return exit_status;
}
