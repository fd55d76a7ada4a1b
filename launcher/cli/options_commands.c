/* Takes a command, or says what a word may have been meant as. Called by options.c. */
#include "cli/options_commands.h"

#include <string.h>

#include "base/nearest.h"
#include "cli/option_table.h"

static base_status take_compare(int argc, char **argv, launch_options *options, base_error *reterr)
{
    if (argc != 3) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "compare takes two files or directories: launcher compare A B");
    }
    options->action = LAUNCH_ACTION_COMPARE;
    options->compare[0] = argv[1];
    options->compare[1] = argv[2];
    return BASE_OK;
}

static base_status take_job_key(int argc, char **argv, launch_options *options, base_error *reterr)
{
    if (argc != 2) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "make-job-key takes the file to write: launcher make-job-key FILE");
    }
    options->action = LAUNCH_ACTION_JOB_KEY;
    options->new_job_key = argv[1];
    return BASE_OK;
}

static base_status take_gpus(int argc, char **argv, launch_options *options, base_error *reterr)
{
    (void)argv;
    if (argc != 1) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "gpus takes no arguments: launcher gpus [--json]");
    }
    options->action = LAUNCH_ACTION_GPUS;
    return BASE_OK;
}

static const struct {
    const char *name;
    const char *flag; /* the only flag that goes with it; NULL: none does */
    base_status (*take)(int argc, char **argv, launch_options *options, base_error *reterr);
} commands[] = {
    {"compare", NULL, take_compare},
    {"gpus", "json", take_gpus},
    {"make-job-key", NULL, take_job_key},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static base_status check_flags(const char *command, const char *flag, const launch_options *options,
                               base_error *reterr)
{
    for (int i = 0; i < options->given_count; i++) {
        const char *given = options->given[i]->option;
        if (flag == NULL || strcmp(given, flag) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "%s does not take --%s", command, given);
        }
    }
    return BASE_OK;
}

/* Our other programs, which somebody may take for commands of this one. */
static const char *const programs[] = {"budget-service", "coll-bench", "coll-simulate",
                                       "pipeline-simulate"};

static base_status wrong_operand(const char *word, base_error *reterr)
{
    base_nearest nearest = base_nearest_begin(word, strlen(word));
    char question[BASE_NEAREST_BYTES];
    if (strchr(word, '/') != NULL) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "unexpected argument '%s'; a program stands behind --: launcher -- PROGRAM", word);
    }
    if (base_fields_find_option(&launch_option_fields, word) != NULL ||
        base_fields_find_option(&proto_job_fields, word) != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "unexpected argument '%s'; did you mean --%s?",
                         word, word);
    }
    for (int mode = 0; mode < PROTO_MODE_COUNT; mode++) {
        const char *name = proto_mode_name(mode);
        if (strcmp(word, name) == 0 || (mode == PROTO_MODE_DDP_CPU && strcmp(word, "train") == 0)) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "unexpected argument '%s'; did you mean --mode %s?", word, name);
        }
    }
    if (strcmp(word, "plan") == 0) { /* read before all others: cli.c */
        return base_fail(reterr, BASE_ERR_INVALID, "plan comes first: launcher plan [FLAGS]");
    }
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        if (strcmp(word, programs[i]) == 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "unexpected argument '%s'; it is a program of its own: %s --help",
                             word, word);
        }
    }
    base_nearest_offer(&nearest, "plan");
    for (size_t i = 0; i < COMMANDS; i++) {
        base_nearest_offer(&nearest, commands[i].name);
    }
    return base_fail(reterr, BASE_ERR_INVALID, "unexpected argument '%s'%s", word,
                     base_nearest_ask(&nearest, "", question));
}

base_status launch_options_take_command(int argc, char **argv, launch_options *options,
                                        base_error *reterr)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[0], commands[i].name) == 0) {
            const base_status status = commands[i].take(argc, argv, options, reterr);
            return status == BASE_OK
                       ? check_flags(commands[i].name, commands[i].flag, options, reterr)
                       : status;
        }
    }
    return wrong_operand(argv[0], reterr);
}
