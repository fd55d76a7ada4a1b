/* The launcher as a function: parses the command line, opens lease and record, runs the job with
 * its restarts, measures scaling, and prints the summary. Called by main.c and by tests. */
#include "launch/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "base/log.h"
#include "budget/lease.h"
#include "cli/paths.h"
#include "cli/plan.h"
#include "cli/scaling.h"
#include "cli/summary_lines.h"
#include "launch/job_run.h"
#include "record/compare.h"
#include "record/flight_page.h"
#include "record/inference.h"
#include "record/record.h"

/* A job with what is around it. */
typedef struct cli_run {
    const launch_options *options;
    const char *rank_path;
    int argc;
    char **argv;
    launch_record *record; /* NULL: none is kept */
    bool recording;        /* it has begun: the directory is ours */
    bool streamed;         /* a text stands on stdout without its end */
    launch_lease *lease;   /* of a mode that may cost money */
    launch_job_result result;
    launch_scaling scaling;
    base_error flights; /* what to say of the flight records once the error is told */
} cli_run;

static int report_error(const base_error *error)
{
    base_log(BASE_LOG_ERROR, "%s", error->message);
    return BASE_EXIT_ERROR;
}

static base_status on_step(void *user, const launch_step *step, base_error *reterr)
{
    cli_run *run = user;
    return run->record != NULL ? launch_record_step(run->record, step, reterr) : BASE_OK;
}

static void on_output(void *user, uint64_t index, const char *prompt, const char *text)
{
    cli_run *run = user;
    (void)index;
    (void)prompt;
    (void)printf("%s\n", run->streamed ? "" : text);
    (void)fflush(stdout);
    run->streamed = false;
}

static void on_piece(void *user, const char *text)
{
    cli_run *run = user;
    (void)fputs(text, stdout);
    (void)fflush(stdout);
    run->streamed = true;
}

/* The ranks' flight records go to the record's directory, or to that of the logs. */
static void keep_flights(const cli_run *run, const char *const *records, int ranks,
                         const char *cause, base_error *words)
{
    const launch_options *options = run->options;
    const char *directory = run->recording ? options->job.output.directory : options->log_dir;
    base_error error;
    words->message[0] = '\0';
    if (directory[0] == '\0' && (options->program != NULL || cause[0] == '\0')) {
        (void)snprintf(words->message, sizeof words->message,
                       "the ranks' flight records are kept with --log-dir DIR only");
    } else if (directory[0] != '\0' &&
               launch_flight_write(directory, records, ranks, cause, &error) != BASE_OK) {
        (void)snprintf(words->message, sizeof words->message, "warning: no flight records: %.*s",
                       (int)sizeof words->message - 32, error.message);
    } else if (directory[0] != '\0') {
        (void)snprintf(words->message, sizeof words->message,
                       "what each rank was doing: %.*s/flight.html",
                       (int)sizeof words->message - 48, directory);
    }
}

static void tell_flights(base_error *words)
{
    if (words->message[0] != '\0') {
        base_log(BASE_LOG_INFO, "%s", words->message);
        words->message[0] = '\0';
    }
}

static void on_flights(void *user, const char *const *records, int ranks, const char *cause)
{
    cli_run *run = user;
    keep_flights(run, records, ranks, cause, &run->flights);
    if (cause[0] == '\0') { /* somebody has asked: else the error comes first */
        tell_flights(&run->flights);
    }
}

/* "note" lines of the record, each on stderr. */
static void print_notes(const cli_run *run)
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

static base_status open_record(cli_run *run, base_error *reterr)
{
    const launch_options *options = run->options;
    if (proto_mode_get(options->job.job.mode)->record != PROTO_RECORD_TRAINING) {
        return BASE_OK; /* the ranks write what there is */
    }
    const launch_record_options record_options = {
        .out = options->job.output.directory,
        .overwrite = options->overwrite,
        .plots = options->plots,
        .log_dir = options->log_dir[0] != '\0' ? options->log_dir : NULL,
        .argc = run->argc,
        .argv = run->argv,
        .job = &options->job,
    };
    return launch_record_open(&record_options, &run->record, reterr);
}

static base_status on_ready(void *user, base_error *reterr)
{
    cli_run *run = user;
    if (run->record == NULL) {
        return BASE_OK;
    }
    const base_status status = launch_record_begin(run->record, 0, reterr);
    run->recording = status == BASE_OK;
    print_notes(run);
    return status;
}

/* The measurements after the job. */
static void measure_scaling(cli_run *run)
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

/* Why the job is not whole; empty when it is. */
static void describe_end(const cli_run *run, base_error *words)
{
    const launch_job_result *result = &run->result;
    char name[32] = "";
    *words = result->cause;
    if (words->message[0] != '\0' || result->stop_signal == 0) {
        return;
    }
    const char *short_name = sigabbrev_np(result->stop_signal);
    (void)snprintf(name, sizeof name, "SIG%s", short_name != NULL ? short_name : "?");
    if (run->scaling.stop_signal != 0) {
        (void)snprintf(words->message, sizeof words->message,
                       "stopped by %s while measuring %d %s, after the job itself was done", name,
                       run->scaling.stopped_at, run->scaling.stopped_at == 1 ? "rank" : "ranks");
    } else {
        (void)snprintf(words->message, sizeof words->message,
                       "stopped by %s after step %" PRId64 " of %" PRId64, name, result->steps_done,
                       run->options->job.train.steps);
    }
}

static base_status finish_record(cli_run *run, base_error *reterr)
{
    const launch_job_result *result = &run->result;
    if (run->record == NULL || !result->ready) {
        return BASE_OK; /* nothing was begun: what is on stderr is all there is to say */
    }
    base_error words;
    describe_end(run, &words);
    const launch_record_end end = {
        .exit_status = result->exit_status,
        .message = words.message,
        .transport = result->transport,
        .algorithm = result->algorithm,
        .instruction_set = result->instruction_set,
        .matrix_library = result->matrix_library,
        .unbound = result->unbound,
        .cpus_taken = result->cpus_taken,
        .model_params = result->model_params,
        .ranks = result->ranks,
        .scaling = run->scaling.points,
        .scaling_count = run->scaling.point_count,
        .scaling_failed = run->scaling.failures,
        .scaling_failed_count = run->scaling.failure_count,
        .job_seconds = result->wall_seconds,
    };
    const base_status status = launch_record_finish(run->record, &end, reterr);
    print_notes(run);
    return status;
}

/* The job itself, once. What went wrong with the machinery is in the result as well. */
static base_status run_once(cli_run *run)
{
    const launch_options *options = run->options;
    base_error error = {0};
    const launch_job_options job_options = {
        .job = &options->job,
        .root = options->root,
        .rank_path = run->rank_path,
        .program = options->program,
        .lease = run->lease,
        .log_dir = options->log_dir[0] != '\0' ? options->log_dir : NULL,
        .bind = options->bind,
        .quiet = options->quiet,
        .on_ready = on_ready,
        .on_step = on_step,
        .on_output = on_output,
        .on_piece = on_piece,
        .on_flights = on_flights,
        .user = run,
    };
    const base_status status = launch_job_run(&job_options, &run->result, &error);
    if (run->streamed) {
        on_output(run, 0, "", ""); /* the text has no end */
    }
    if (status != BASE_OK) {
        run->result.exit_status = report_error(&error);
        run->result.cause = error;
    } else if (run->result.cause.message[0] != '\0') {
        base_log(BASE_LOG_ERROR, "%s", run->result.cause.message);
    }
    tell_flights(&run->flights);
    return status;
}

/* Whether a job that ended so may be started anew: not when somebody wanted it to end, or when it
 * would be refused again. */
static bool may_restart(const cli_run *run, int attempt)
{
    const launch_job_result *result = &run->result;
    const int status = result->exit_status;
    const bool refused = status == BASE_EXIT_USAGE || status == BASE_EXIT_OVER_CAP ||
                         status == BASE_EXIT_REFUSED || status == BASE_EXIT_BAD_TOKEN;
    const int attempts_max = run->lease != NULL ? launch_lease_attempts_max(run->lease)
                                                : (int)run->options->max_restarts + 1;
    return status != 0 && !refused && result->stop_signal == 0 &&
           attempt <= run->options->max_restarts && attempt < attempts_max;
}

/* All attempts; the result is the last one's. */
static void run_attempts(cli_run *run)
{
    for (int attempt = 1;; attempt++) {
        int exit_code = BASE_EXIT_ERROR;
        base_error error = {0};
        if (run->lease != NULL &&
            launch_lease_redeem(run->lease, attempt, &exit_code, &error) != BASE_OK) {
            (void)report_error(&error);
            run->result.exit_status = exit_code;
            run->result.cause = error;
            return;
        }
        const base_status status = run_once(run);
        if (status != BASE_OK || !may_restart(run, attempt)) {
            return;
        }
        base_log(BASE_LOG_WARNING, "starting anew: attempt %d of at most %d", attempt + 1,
                 (int)run->options->max_restarts + 1);
        launch_job_result_fini(&run->result);
    }
}

/* What the ranks have left, and how the job came to it. begun: what was known before the job. */
static base_status finish_inference(const cli_run *run, const launch_inference *begun,
                                    base_error *reterr)
{
    const launch_job_result *result = &run->result;
    base_error words;
    const bool stopped = result->stop_signal != 0;
    if (result->ranks == NULL || !result->ranks[0].finished) {
        return BASE_OK; /* results that are there are of an older run */
    }
    words = result->cause;
    if (stopped && words.message[0] == '\0') {
        (void)snprintf(words.message, sizeof words.message, "stopped by signal %d",
                       result->stop_signal);
    }
    launch_inference inference = *begun;
    inference.job_seconds = result->wall_seconds;
    inference.exit_status = result->exit_status;
    inference.message = words.message;
    inference.ranks = result->ranks;
    return launch_inference_write(&inference, reterr);
}

static int run_job(cli_run *run)
{
    const launch_options *options = run->options;
    base_error error = {0};
    launch_inference inference = {.job = &options->job, .argc = run->argc, .argv = run->argv};
    const bool infers = proto_mode_get(options->job.job.mode)->record == PROTO_RECORD_INFERENCE;
    base_timestamp(inference.started_at);
    if (infers && launch_inference_check(options->job.output.directory, &error) != BASE_OK) {
        return report_error(&error);
    }
    if (open_record(run, &error) != BASE_OK) {
        return report_error(&error);
    }
    if (options->job.model.checkpoint[0] != '\0' && proto_mode_get(options->job.job.mode)->trains &&
        !options->quiet) {
        base_log(BASE_LOG_INFO,
                 "--checkpoint: the parameters are those of %s; the optimizer is fresh, and the "
                 "data starts from the beginning",
                 options->job.model.checkpoint);
    }
    run_attempts(run);
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
    launch_lease_destroy(run->lease);
    launch_job_result_fini(&run->result);
    return exit_status;
}

static int write_job(const launch_options *options)
{
    base_error error;
    char *text = NULL;
    size_t text_bytes = 0;
    base_status status = proto_job_write(&options->job, options->root, &text, &text_bytes, &error);
    if (status == BASE_OK) {
        status = base_file_write(options->write_job, text, text_bytes, &error);
    }
    free(text);
    return status == BASE_OK ? BASE_EXIT_DONE : report_error(&error);
}

static int compare(const launch_options *options)
{
    base_error error;
    launch_likeness likeness = LAUNCH_DIFFERENT;
    const base_status status =
        launch_compare(options->compare[0], options->compare[1], stdout, &likeness, &error);
    if (status != BASE_OK) {
        return report_error(&error);
    }
    return likeness == LAUNCH_DIFFERENT ? BASE_EXIT_ERROR : BASE_EXIT_DONE;
}

/* A program of the user's: no data, no model, no record. */
static int run_program(launch_options *options)
{
    base_error error;
    char path[BASE_PATH_BYTES];
    if (launch_path_program(options->program[0], path, &error) != BASE_OK ||
        proto_job_check(&options->job, &error) != BASE_OK) {
        (void)report_error(&error);
        return BASE_EXIT_USAGE;
    }
    if (options->dry_run) {
        return launch_plan_print(options, path, stdout, &error) == BASE_OK ? BASE_EXIT_DONE
                                                                           : report_error(&error);
    }
    cli_run whole = {.options = options, .rank_path = path};
    return run_job(&whole);
}

static int take_lease(cli_run *run)
{
    base_error error;
    char *text = NULL;
    size_t text_bytes = 0;
    int exit_code = BASE_EXIT_ERROR;
    base_status status =
        proto_job_write(&run->options->job, run->options->root, &text, &text_bytes, &error);
    if (status == BASE_OK) {
        status = launch_lease_take(run->options, text, text_bytes, &run->lease, &exit_code, &error);
    }
    free(text);
    if (status != BASE_OK) {
        (void)report_error(&error);
        return exit_code;
    }
    return BASE_EXIT_DONE;
}

/* A token at hand is looked at, which prints what it may cost, and not redeemed. */
static int print_plan(cli_run *run)
{
    base_error error;
    if (proto_mode_costs_money(run->options->job.job.mode) &&
        run->options->budget.token[0] != '\0') {
        const int exit_status = take_lease(run);
        if (exit_status != BASE_EXIT_DONE) {
            return exit_status;
        }
        launch_lease_destroy(run->lease);
    }
    return launch_plan_print(run->options, run->rank_path, stdout, &error) == BASE_OK
               ? BASE_EXIT_DONE
               : report_error(&error);
}

static int run(launch_options *options, int argc, char **argv, const char *rank_path)
{
    base_error error;
    char beside[BASE_PATH_BYTES];
    if (options->program != NULL) {
        return run_program(options);
    }
    if (rank_path == NULL) {
        if (launch_path_rank(beside, &error) != BASE_OK) {
            return report_error(&error);
        }
        rank_path = beside;
    }
    if (launch_options_complete(options, &error) != BASE_OK) {
        return report_error(&error);
    }
    if (launch_options_check(options, &error) != BASE_OK) {
        (void)report_error(&error);
        return BASE_EXIT_USAGE;
    }
    const bool cloud = proto_mode_costs_money(options->job.job.mode);
    if (options->write_job[0] != '\0') {
        const int exit_status = write_job(options);
        if (exit_status != BASE_EXIT_DONE || !options->dry_run) {
            return exit_status;
        }
    }
    if (cloud && options->budget.token[0] == '\0' &&
        launch_lease_print_estimate(options, options->dry_run ? stdout : stderr, &error) !=
            BASE_OK) {
        (void)report_error(&error);
        return BASE_EXIT_REFUSED;
    }
    cli_run whole = {.options = options, .rank_path = rank_path, .argc = argc, .argv = argv};
    if (options->dry_run) {
        return print_plan(&whole);
    }
    if (cloud) {
        const int exit_status = take_lease(&whole);
        if (exit_status != BASE_EXIT_DONE) {
            return exit_status;
        }
    }
    return run_job(&whole);
}

int launch_cli(int argc, char **argv, const char *rank_path)
{
    launch_options *options = calloc(1, sizeof *options);
    base_error error;
    int exit_status = BASE_EXIT_DONE;
    if (options == NULL) {
        base_log(BASE_LOG_ERROR, "no memory");
        return BASE_EXIT_ERROR;
    }
    if (launch_options_parse(argc, argv, options, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s (launcher --help lists the flags)", error.message);
        free(options);
        return BASE_EXIT_USAGE;
    }
    switch (options->action) {
    case LAUNCH_ACTION_HELP:
        launch_options_help(stdout);
        break;
    case LAUNCH_ACTION_VERSION:
        (void)printf("launcher (Ringfence) %s\n", RINGFENCE_VERSION);
        break;
    case LAUNCH_ACTION_COMPARE:
        exit_status = compare(options);
        break;
    case LAUNCH_ACTION_RUN:
        exit_status = run(options, argc, argv, rank_path);
        break;
    }
    free(options);
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && exit_status == BASE_EXIT_DONE) {
        base_log(BASE_LOG_ERROR, "cannot write to standard output");
        exit_status = BASE_EXIT_ERROR;
    }
    return exit_status;
}
