/* The launcher as a function: parses the command line, takes the lease, and runs the job, compares
 * files or prints a plan. Called by main.c and by tests. */
#include "cli/cli.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/version.h"
#include "cli/dry_run.h"
#include "cli/paths.h"
#include "cli/plan_command.h"
#include "cli/preflight.h"
#include "cli/run_job.h"
#include "engine/parent.h"
#include "engine/place.h"
#include "gpus/gpus.h"
#include "job/descriptors.h"
#include "job/processes.h"
#include "proto/job_key.h"
#include "record/compare.h"

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
    return status == BASE_OK ? BASE_EXIT_DONE : launch_report_error(&error);
}

static int compare(const launch_options *options)
{
    base_error error;
    launch_likeness likeness = LAUNCH_DIFFERENT;
    const base_status status =
        launch_compare(options->compare[0], options->compare[1], stdout, &likeness, &error);
    if (status != BASE_OK) { /* as of cmp(1): 1 is what a difference ends with */
        (void)launch_report_error(&error);
        return BASE_EXIT_USAGE;
    }
    return likeness == LAUNCH_DIFFERENT ? BASE_EXIT_ERROR : BASE_EXIT_DONE;
}

static int print_gpus(bool as_json)
{
    base_error error;
    const base_status status = launch_gpus_print(stdout, as_json, &error);
    if (status == BASE_OK) {
        return BASE_EXIT_DONE;
    }
    (void)launch_report_error(&error);
    return BASE_EXIT_NO_GPU;
}

static int make_job_key(const char *path)
{
    base_error error;
    proto_job_key key;
    proto_job_key_make(&key);
    const base_status status = proto_job_key_write(path, &key, &error);
    if (status == BASE_OK) {
        (void)printf("key of run %s: %s\n", key.run_id, path);
    }
    proto_wipe(&key, sizeof key);
    return status == BASE_OK ? BASE_EXIT_DONE : launch_report_error(&error);
}

/* Runs a user's program: without data, model or record. */
static int run_program(launch_options *options)
{
    base_error error;
    char path[BASE_PATH_BYTES];
    if (base_path_program(options->program[0], path, &error) != BASE_OK ||
        launch_options_check(options, &error) != BASE_OK) {
        (void)launch_report_error(&error);
        return BASE_EXIT_USAGE;
    }
    if (options->dry_run) {
        return launch_dry_run_print(options, path, stdout, &error) == BASE_OK
                   ? BASE_EXIT_DONE
                   : launch_report_error(&error);
    }
    if (options->hosts.node_rank > 0) {
        return launch_agent_run(options, path);
    }
    launch_cli_run whole = {.options = options, .rank_path = path};
    return launch_run_job(&whole);
}

static int take_lease(launch_cli_run *run)
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
        (void)launch_report_error(&error);
        return exit_code;
    }
    return BASE_EXIT_DONE;
}

/* --dry-run. A given token is verified, and what it may cost is printed, but it is not redeemed. */
static int print_dry_run(launch_cli_run *run)
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
    return launch_dry_run_print(run->options, run->rank_path, stdout, &error) == BASE_OK
               ? BASE_EXIT_DONE
               : launch_report_error(&error);
}

/* A file that the command line names is at fault, not this host. */
static bool is_refusal(base_status status)
{
    return status != BASE_ERR_MEMORY && status != BASE_ERR_IO;
}

/* Whether there is room for the job's processes, threads and open files. */
static base_status ensure_room(const launch_options *options, base_error *reterr)
{
    int64_t ranks = options->job.job.world_size;
    for (int i = 0; i < options->scaling_count; i++) {
        ranks = options->scaling_ranks[i] > ranks ? options->scaling_ranks[i] : ranks;
    }
    const base_status status = launch_descriptors_ensure(ranks, options->hosts.nodes, reterr);
    return status != BASE_OK || options->dry_run || options->hosts.node_rank > 0
               ? status /* an agent does not know yet how many ranks it gets */
               : launch_processes_check(ranks / options->hosts.nodes, options->program != NULL,
                                        reterr);
}

static int run(launch_options *options, int argc, char **argv, const char *rank_path)
{
    base_error error;
    char beside[BASE_PATH_BYTES];
    if (ensure_room(options, &error) != BASE_OK) {
        return launch_report_error(&error);
    }
    if (launch_engine_has_store(options->hosts.place.engine)) {
        launch_parent_watch(); /* mpirun's process on this host */
    }
    if (options->program != NULL) {
        return run_program(options);
    }
    if (rank_path == NULL) {
        if (launch_path_rank(beside, &error) != BASE_OK) {
            return launch_report_error(&error);
        }
        rank_path = beside;
    }
    if (options->hosts.node_rank > 0) {
        return launch_agent_run(options, rank_path);
    }
    const base_status completed = launch_options_complete(options, &error);
    if (completed != BASE_OK) {
        (void)launch_report_error(&error);
        return is_refusal(completed) ? BASE_EXIT_USAGE : BASE_EXIT_ERROR;
    }
    if (launch_options_check(options, &error) != BASE_OK) {
        (void)launch_report_error(&error);
        return BASE_EXIT_USAGE;
    }
    const int refused = launch_preflight(options, rank_path);
    if (refused != BASE_EXIT_DONE) {
        return refused;
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
        (void)launch_report_error(&error);
        return BASE_EXIT_REFUSED;
    }
    launch_cli_run whole = {.options = options, .rank_path = rank_path, .argc = argc, .argv = argv};
    if (options->dry_run) {
        return print_dry_run(&whole);
    }
    if (cloud) {
        const int exit_status = take_lease(&whole);
        if (exit_status != BASE_EXIT_DONE) {
            return exit_status;
        }
    }
    return launch_run_job(&whole);
}

/* Whether nobody reads standard output any more. */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

/* Lost output is an error. A reader that has gone (launcher --help | head -1) has what it wants. */
static int finish(int exit_status)
{
    const bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (lost && exit_status == BASE_EXIT_DONE && !reader_is_gone()) {
        base_log(BASE_LOG_ERROR, "cannot write to standard output");
        return BASE_EXIT_ERROR;
    }
    return exit_status;
}

int launch_cli(int argc, char **argv, const char *rank_path)
{
    /* a closed pipe, and a file larger than ulimit -f allows, are errors of write() */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "plan") == 0) { /* it has options of its own */
        return finish(launch_plan_command(argc - 1, argv + 1, rank_path));
    }
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
        base_version_print("launcher");
        (void)puts("GPU modes: run on one GPU, not on several yet");
        break;
    case LAUNCH_ACTION_COMPARE:
        exit_status = compare(options);
        break;
    case LAUNCH_ACTION_GPUS:
        exit_status = print_gpus(options->json);
        break;
    case LAUNCH_ACTION_JOB_KEY:
        exit_status = make_job_key(options->new_job_key);
        break;
    case LAUNCH_ACTION_RUN:
        exit_status = run(options, argc, argv, rank_path);
        break;
    }
    free(options);
    return finish(exit_status);
}
