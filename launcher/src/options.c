#include "launch/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "option_table.h"
#include "options_budget.h"
#include "paths.h"

static base_status set_path(launch_options *options, const launch_flag *flag, const char *value,
                            base_error *reterr)
{
    char absolute[BASE_PATH_BYTES];
    const base_status status = launch_path_absolute(value, absolute, sizeof absolute, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return proto_job_set(&options->job, flag->key, absolute, reterr);
}

static base_status set_seconds(launch_options *options, const launch_flag *flag, const char *value,
                               base_error *reterr)
{
    char *end = NULL;
    char milliseconds[32];
    const double seconds = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(seconds) || seconds < 0.001 ||
        seconds > 7 * 24 * 3600) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "'%s': must be a number of seconds from 0.001 to a week", value);
    }
    (void)snprintf(milliseconds, sizeof milliseconds, "%.0f", ceil(seconds * 1000));
    return proto_job_set(&options->job, flag->key, milliseconds, reterr);
}

static base_status add_prompt(launch_options *options, const char *value, base_error *reterr)
{
    char *prompts = options->job.prompt;
    const size_t length = strlen(prompts);
    if (value[0] == '\0' || strchr(value, '\n') != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "a prompt is one line, not empty");
    }
    if (length + strlen(value) + 2 > sizeof options->job.prompt) {
        return base_fail(reterr, BASE_ERR_LIMIT, "all prompts together have more than %zu bytes",
                         sizeof options->job.prompt - 1);
    }
    (void)snprintf(prompts + length, sizeof options->job.prompt - length, "%s%s",
                   length > 0 ? "\n" : "", value);
    return BASE_OK;
}

/* "1,2,4": numbers of ranks. */
static base_status set_scaling(launch_options *options, const char *value, base_error *reterr)
{
    const char *at = value;
    options->scaling_count = 0;
    for (;;) {
        char *end = NULL;
        errno = 0;
        const long ranks = strtol(at, &end, 10);
        if (end == at || errno != 0 || ranks < 1 || ranks > BASE_RANKS_MAX ||
            (*end != ',' && *end != '\0')) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "'%s': must be numbers of ranks from 1 to %d, as in 1,2,4", value,
                             BASE_RANKS_MAX);
        }
        if (options->scaling_count == LAUNCH_SCALING_POINTS_MAX) {
            return base_fail(reterr, BASE_ERR_LIMIT, "more than %d numbers",
                             LAUNCH_SCALING_POINTS_MAX);
        }
        options->scaling_ranks[options->scaling_count++] = (int)ranks;
        if (*end == '\0') {
            return BASE_OK;
        }
        at = end + 1;
    }
}

static void set_switch(launch_options *options, int what)
{
    switch (what) {
    case LAUNCH_FLAG_DRY_RUN:
        options->dry_run = true;
        break;
    case LAUNCH_FLAG_QUIET:
        options->quiet = true;
        break;
    case LAUNCH_FLAG_NO_BIND:
        options->bind = false;
        break;
    case LAUNCH_FLAG_OVERWRITE:
        options->overwrite = true;
        break;
    case LAUNCH_FLAG_NO_PLOTS:
        options->plots = false;
        break;
    case LAUNCH_FLAG_NO_SCALING:
        options->scaling = false;
        break;
    case LAUNCH_FLAG_EVAL:
        options->job.eval = true;
        break;
    case LAUNCH_FLAG_HELP:
        options->action = LAUNCH_ACTION_HELP;
        break;
    case LAUNCH_FLAG_VERSION:
        options->action = LAUNCH_ACTION_VERSION;
        break;
    default:
        break;
    }
}

static base_status set_restarts(launch_options *options, const char *value, base_error *reterr)
{
    char *end = NULL;
    errno = 0;
    const long count = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || count < 0 || count > LAUNCH_RESTARTS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s': must be a number from 0 to %d", value,
                         LAUNCH_RESTARTS_MAX);
    }
    options->max_restarts = (int)count;
    return BASE_OK;
}

static bool sets_field(const launch_flag *flag)
{
    return flag->key != NULL || flag->kind == LAUNCH_KIND_PROMPT || flag->what == LAUNCH_FLAG_EVAL;
}

static base_status apply_flag(launch_options *options, const launch_flag *flag, const char *value,
                              base_error *reterr)
{
    switch (flag->kind) {
    case LAUNCH_KIND_SWITCH:
        set_switch(options, flag->what);
        return BASE_OK;
    case LAUNCH_KIND_FIELD:
        options->ranks_given = options->ranks_given || strcmp(flag->key, "world_size") == 0;
        options->mode_given = options->mode_given || strcmp(flag->key, "mode") == 0;
        options->shape_given = options->shape_given || flag->what == LAUNCH_FLAG_SHAPE;
        return proto_job_set(&options->job, flag->key, value, reterr);
    case LAUNCH_KIND_PATH:
        return set_path(options, flag, value, reterr);
    case LAUNCH_KIND_SECONDS:
        return set_seconds(options, flag, value, reterr);
    case LAUNCH_KIND_PROMPT:
        return add_prompt(options, value, reterr);
    case LAUNCH_KIND_SCALING:
        return set_scaling(options, value, reterr);
    case LAUNCH_KIND_LOG_DIR:
        return launch_path_absolute(value, options->log_dir, sizeof options->log_dir, reterr);
    case LAUNCH_KIND_JOB:
        return launch_path_absolute(value, options->job_file, sizeof options->job_file, reterr);
    case LAUNCH_KIND_RESTARTS:
        return set_restarts(options, value, reterr);
    case LAUNCH_KIND_BUDGET_PATH:
    case LAUNCH_KIND_BUDGET_TEXT:
    case LAUNCH_KIND_BUDGET_COUNT:
    case LAUNCH_KIND_BUDGET_PRICE:
    case LAUNCH_KIND_BUDGET_HOURS:
    case LAUNCH_KIND_BUDGET_REDEEM:
        options->budget_flag = options->budget_flag != NULL ? options->budget_flag : flag->name;
        return launch_options_set_budget(&options->budget, flag, value, reterr);
    case LAUNCH_KIND_WRITE_JOB:
        return launch_path_absolute(value, options->write_job, sizeof options->write_job, reterr);
    }
    return base_fail(reterr, BASE_ERR_INVALID, "is not understood");
}

/* What getopt_long did not like about argv. */
static base_status wrong_flag(int answer, char **argv, base_error *reterr)
{
    const char *word = argv[optind - 1];
    if (optopt != 0 && answer == '?' && strncmp(word, "--", 2) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "unknown flag -%c", optopt);
    }
    if (answer == ':') {
        return base_fail(reterr, BASE_ERR_INVALID, "%s needs a value", word);
    }
    if (optopt != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s takes no value", word);
    }
    return base_fail(reterr, BASE_ERR_INVALID, "unknown or ambiguous flag %s", word);
}

static base_status parse_flags(int argc, char **argv, launch_options *options, base_error *reterr)
{
    struct option long_options[LAUNCH_FLAGS_MAX + 1] = {{0}};
    int flag_count = 0;
    const launch_flag *flags = launch_flags(&flag_count);
    for (int i = 0; i < flag_count; i++) {
        long_options[i].name = flags[i].name;
        long_options[i].has_arg =
            flags[i].kind == LAUNCH_KIND_SWITCH ? no_argument : required_argument;
    }
    optind = 0; /* also forgets an earlier command line */
    opterr = 0;
    for (;;) {
        int index = -1;
        optopt = 0;
        const int answer = getopt_long(argc, argv, ":h", long_options, &index);
        if (answer == -1) {
            return BASE_OK;
        }
        if (answer == 'h') {
            options->action = LAUNCH_ACTION_HELP;
            continue;
        }
        if (answer != 0) {
            return wrong_flag(answer, argv, reterr);
        }
        if (sets_field(&flags[index]) && options->field_flag == NULL) {
            options->field_flag = flags[index].name;
        }
        if (!flags[index].for_programs && options->not_for_programs == NULL) {
            options->not_for_programs = flags[index].name;
        }
        const base_status status = apply_flag(options, &flags[index], optarg, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "--%s", flags[index].name);
        }
    }
}

/* Where "--" stands in argv; argc if it does not. */
static int find_separator(int argc, char **argv)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0) {
        at++;
    }
    return at < argc ? at : argc;
}

static base_status take_program(char **program, launch_options *options, base_error *reterr)
{
    if (program[0] == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "-- must be followed by a program to run");
    }
    if (options->mode_given) {
        return base_fail(reterr, BASE_ERR_INVALID, "--mode does not go with -- %s", program[0]);
    }
    if (options->not_for_programs != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--%s is for our own modes: it does not go with -- %s",
                         options->not_for_programs, program[0]);
    }
    options->program = program;
    return proto_job_set(&options->job, "mode", "program", reterr);
}

/* --job FILE: that, and nothing else. */
static base_status read_job(launch_options *options, base_error *reterr)
{
    void *file = NULL;
    char *again = NULL;
    size_t file_bytes = 0;
    size_t again_bytes = 0;
    if (options->field_flag != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--job has the whole configuration: --%s does "
                         "not go with it",
                         options->field_flag);
    }
    base_status status =
        base_file_read(options->job_file, PROTO_JOB_BYTES_MAX, &file, &file_bytes, reterr);
    if (status == BASE_OK) {
        status = proto_job_parse(file, file_bytes, &options->job, reterr);
    }
    if (status == BASE_OK) {
        status = proto_job_write(&options->job, &again, &again_bytes, reterr);
    }
    if (status == BASE_OK && (again_bytes != file_bytes || memcmp(again, file, file_bytes) != 0)) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "not in its canonical form (--write-job writes "
                           "that)");
    }
    free(file);
    free(again);
    return status == BASE_OK ? status
                             : base_error_prepend(reterr, status, "--job %s", options->job_file);
}

/* What single flags cannot see. */
static base_status check_together(launch_options *options, base_error *reterr)
{
    proto_job *job = &options->job;
    const bool generate = strcmp(job->mode, "generate") == 0;
    const bool cloud = proto_mode_is_cloud(job->mode);
    if (generate && !options->ranks_given && options->job_file[0] == '\0') {
        job->world_size = 1;
    }
    if (generate && job->prompt[0] == '\0' && !job->eval) {
        return base_fail(reterr, BASE_ERR_INVALID, "--mode generate needs a --prompt (or --eval)");
    }
    if (!generate && job->prompt[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "--prompt goes with --mode generate");
    }
    if (!cloud && options->budget_flag != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--%s goes with a mode that may cost money; %s does not",
                         options->budget_flag, job->mode);
    }
    if (!cloud && options->max_restarts > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--max-restarts: --mode %s cannot start anew by itself", job->mode);
    }
    return cloud ? launch_options_check_budget(options, reterr) : BASE_OK;
}

base_status launch_options_parse(int argc, char **argv, launch_options *options, base_error *reterr)
{
    *options = (launch_options){.bind = true, .plots = true, .scaling = true};
    proto_job_defaults(&options->job);
    const int separator = find_separator(argc, argv);
    const bool has_program = separator < argc;
    argc = separator;
    base_status status = parse_flags(argc, argv, options, reterr);
    if (status != BASE_OK || options->action != LAUNCH_ACTION_RUN) {
        return status;
    }
    if (has_program && optind < argc) {
        return base_fail(reterr, BASE_ERR_INVALID, "unexpected argument '%s'", argv[optind]);
    }
    if (has_program) {
        return take_program(&argv[separator + 1], options, reterr);
    }
    if (strcmp(options->job.mode, "program") == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--mode program is: launcher --ranks N -- PROGRAM ARGUMENTS");
    }
    if (optind < argc && strcmp(argv[optind], "compare") == 0) {
        if (argc - optind != 3) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "compare takes two files or folders: launcher compare A B");
        }
        options->action = LAUNCH_ACTION_COMPARE;
        options->compare[0] = argv[optind + 1];
        options->compare[1] = argv[optind + 2];
        return BASE_OK;
    }
    if (optind < argc) {
        return base_fail(reterr, BASE_ERR_INVALID, "unexpected argument '%s'", argv[optind]);
    }
    if (options->job_file[0] != '\0') {
        status = read_job(options, reterr);
    }
    return status == BASE_OK ? check_together(options, reterr) : status;
}
