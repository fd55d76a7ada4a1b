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
#include "base/text.h"
#include "cli/feed.h"
#include "cli/summary_lines.h"
#include "engine/place.h"
#include "gpus/watch.h"
#include "job/writer.h"
#include "record/flight_page.h"
#include "record/inference.h"
#include "serve/server.h"

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

static void on_output(void *user, uint64_t index, const char *text)
{
    launch_cli_run *run = user;
    (void)index;
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
               launch_flight_write(directory, records, ranks,
                                   options->max_restarts > 0 ? run->attempt : 0, cause,
                                   &error) != BASE_OK) {
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
    if (run->rank_logs.directory[0] != '\0' && cause->message[0] != '\0') {
        base_text_append(cause->message, sizeof cause->message,
                         "; what the ranks wrote last: %s/rank-N.log", run->rank_logs.directory);
    }
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

/* Where requests come from while the job runs: standard input, or HTTP. */
typedef struct requests_source {
    const launch_feed *feed; /* NULL: none come */
    launch_cli_feed *input;
    launch_server *server;
} requests_source;

static base_status open_requests(const launch_options *options, requests_source *source,
                                 base_error *reterr)
{
    base_status status = BASE_OK;
    if (options->serve[0] != '\0') {
        status = launch_server_create(
            &(launch_server_options){.address = options->serve,
                                     .key_file = options->serve_key_file,
                                     .open = options->serve_open,
                                     .origin = options->serve_origin,
                                     .drain_ms = options->serve_drain_ms,
                                     .model_name = options->served_model_name,
                                     .url_directory = options->job.output.directory,
                                     .job = &options->job},
            &source->server, reterr);
        if (status == BASE_OK) {
            source->feed = launch_server_feed(source->server);
            launch_writer_result("serving at %s\n", launch_server_url(source->server));
        }
    } else if (options->job.infer.requests) {
        status = launch_cli_feed_create(options, STDIN_FILENO, &source->input, reterr);
        source->feed = status == BASE_OK ? launch_cli_feed_table(source->input) : NULL;
    }
    return status;
}

base_status launch_cli_run_once(launch_cli_run *run)
{
    const launch_options *options = run->options;
    const bool on_gpus = proto_mode_get(options->job.job.mode)->on_gpus;
    base_error error = {0};
    requests_source source = {.feed = NULL};
    base_status status = open_requests(options, &source, &error);
    const launch_job_options job_options = {
        .job = &options->job,
        .root = options->root,
        .rank_path = run->rank_path,
        .program = options->program,
        .hosts = options->hosts.nodes > 1 ? &options->hosts : NULL,
        .place = &options->hosts.place,
        .files = run->files,
        .file_count = run->file_count,
        .steps = run->record != NULL ? launch_record_steps(run->record) : NULL,
        .lease = run->lease,
        .attempt = run->attempt,
        .tried_again = launch_cli_has_restarts(run),
        .goes_on = launch_cli_goes_on,
        .would_grow = options->hosts.min_nodes > 0 ? launch_cli_would_grow : NULL,
        .host_count = run->host_count,
        .min_hosts = (int)options->hosts.min_nodes,
        .kept_head = &run->head,
        .log_dir = options->log_dir[0] != '\0' ? options->log_dir : NULL,
        .bind = options->bind,
        .quiet = options->quiet,
        .on_ready = launch_cli_on_ready,
        .on_step = on_step,
        .on_output = on_output,
        .on_piece = on_piece,
        .on_flights = on_flights,
        .on_tail = on_gpus && options->log_dir[0] == '\0' ? on_tail : NULL,
        .feed = source.feed,
        .user = run,
    };
    run->gpus = on_gpus ? launch_gpu_watch_open() : NULL;
    run->rank_logs = (launch_rank_logs){.begun = false};
    if (status == BASE_OK) {
        status = launch_job_run(&job_options, &run->result, &error);
    }
    launch_cli_take_watch(run);
    name_rank_logs(run);
    launch_server_destroy(source.server, run->result.stop_signal != 0 ? ""
                                         : status != BASE_OK          ? error.message
                                                                      : run->result.cause.message);
    launch_cli_feed_destroy(source.input);
    if (run->streamed) {
        on_output(run, 0, ""); /* ends the line of a text that has no end */
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
    const bool infers = proto_job_record(&options->job) == PROTO_RECORD_INFERENCE;
    const bool stood = access(options->job.output.directory, F_OK) == 0;
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
    if (launch_cli_open_record(run, &error) != BASE_OK) {
        return launch_report_error(&error);
    }
    if (run->lease != NULL) {
        launch_lease_cost(run->lease, &run->cost);
    }
    block_stops();
    launch_cli_run_attempts(run);
    note_lost_output(run);
    if (run->result.cause.message[0] == '\0') {
        measure_scaling(run);
    }
    if ((infers ? launch_cli_finish_inference(run, &inference, &error)
                : launch_cli_finish_record(run, &error)) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        run->result.exit_status =
            run->result.exit_status != 0 ? run->result.exit_status : BASE_EXIT_ERROR;
    }
    launch_summary_print(options, &run->result, &run->scaling,
                         run->record != NULL && launch_record_is_whole(run->record));
    const int exit_status = run->result.exit_status;
    launch_record_close(run->record);
    if (lock_fd >= 0) {
        if (!stood) {
            (void)rmdir(options->job.output.directory); /* if nothing was written there */
        }
        (void)close(lock_fd);
    }
    free(run->files);
    free(run->attempts);
    launch_job_result_fini(&run->earlier);
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
        launch_lease_destroy(run->lease);
        return launch_report_error(&error);
    }
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    const int exit_status = run_whole(run);
    finish_output(&mask_before);
    launch_lease_print_open(run->lease);
    launch_lease_destroy(run->lease);
    if (launch_writer_lost() != 0) {
        base_log(BASE_LOG_ERROR, "cannot write to standard output: %s",
                 strerror(launch_writer_lost()));
        return exit_status == BASE_EXIT_DONE ? BASE_EXIT_ERROR : exit_status;
    }
    return exit_status;
}
