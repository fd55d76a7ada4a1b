#include "launch/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "option_table.h"

/* path as it stands, or behind the working directory. */
static base_status absolute_path(const char *path, char *absolute, size_t size_bytes,
                                 base_error *reterr)
{
    char folder[BASE_PATH_BYTES] = "";
    if (path[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "is empty");
    }
    if (path[0] != '/' && getcwd(folder, sizeof folder) == NULL) {
        return base_fail_errno(reterr, errno, "cannot tell the working directory");
    }
    const int length = snprintf(absolute, size_bytes, "%s%s%s", folder,
                                path[0] == '/' || strcmp(folder, "/") == 0 ? "" : "/", path);
    if (length < 0 || (size_t)length >= size_bytes) {
        return base_fail(reterr, BASE_ERR_LIMIT, "longer than %zu bytes", size_bytes - 1);
    }
    while (absolute[0] != '\0' && absolute[1] != '\0' && absolute[strlen(absolute) - 1] == '/') {
        absolute[strlen(absolute) - 1] = '\0'; /* OUT/ and OUT are one folder */
    }
    return BASE_OK;
}

static base_status set_path(launch_options *options, const launch_flag *flag, const char *value,
                            base_error *reterr)
{
    char absolute[BASE_PATH_BYTES];
    const base_status status = absolute_path(value, absolute, sizeof absolute, reterr);
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
        return absolute_path(value, options->log_dir, sizeof options->log_dir, reterr);
    case LAUNCH_KIND_WRITE_JOB:
        return absolute_path(value, options->write_job, sizeof options->write_job, reterr);
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
    if (strcmp(options->job.mode, "generate") == 0) {
        if (!options->ranks_given) {
            options->job.world_size = 1;
        }
        if (options->job.prompt[0] == '\0' && !options->job.eval) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "--mode generate needs a --prompt (or --eval)");
        }
    } else if (options->job.prompt[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "--prompt goes with --mode generate");
    }
    return BASE_OK;
}
