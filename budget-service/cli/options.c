/* The tables of all options and commands, and how a command line is read by them. Called by
 * main.c. */
#include <ctype.h>
#include <string.h>

#include "base/nearest.h"
#include "base/options.h"
#include "base/version.h"
#include "budget/codings.h"
#include "cli.h"

enum { TIMEOUT_MS_MAX = 3600 * 1000, NUMBER_MAX = 1 << 20, ATTEMPTS_MAX = 1000 };

#define OWN(kind, member) BASE_##kind(cli_values, member)
#define TEXT(member)      OWN(TEXT, member), .filled = true

/* By cli_option. */
static const base_field all_rows[CLI_OPTION_COUNT] = {
    [CLI_HELP] = {OWN(BOOL, flag), .option = "help", .letter = 'h', .help = "this text"},
    [CLI_JSON] = {OWN(BOOL, flag), .option = "json", .help = "print one JSON object"},
    [CLI_DIR] = {TEXT(dir), .option = "dir", .value = "DIR", .help = "the service's directory"},
    [CLI_KEY] = {TEXT(key), .option = "key", .value = "KEY",
                 .help = "a key file, or a name in DIR/clients"},
    [CLI_TIMEOUT] = {OWN(SECONDS, timeout_ms), .least = 1000, .most = TIMEOUT_MS_MAX,
                     .option = "timeout", .value = "SECONDS",
                     .help = "until an answer must have come (30)"},
    [CLI_REQUEST_ID] = {TEXT(request_id), .option = "request-id", .value = "ID",
                        .help = "ask again under the same id: the same answer"},
    [CLI_PASSPHRASE_FILE] = {TEXT(passphrase_file), .option = "passphrase-file", .value = "FILE",
                             .help = "the passphrase of the signing key"},
    [CLI_PASSPHRASE_FD] = {OWN(INT, passphrase_fd), .least = 0, .most = NUMBER_MAX,
                           .option = "passphrase-fd", .value = "N",
                           .help = "read it from this descriptor"},
    [CLI_LISTEN] = {TEXT(listen), .option = "listen", .value = "ENDPOINT",
                    .help = "ipc://PATH or tcp://ADDRESS:PORT (ipc in DIR/run)"},
    [CLI_LISTEN_REDEEM] = {TEXT(listen_redeem), .option = "listen-redeem", .value = "ENDPOINT",
                           .help = "where tokens are redeemed"},
    [CLI_CAP] = {OWN(CODED, cap_usd_micro), .coding = &budget_usd_coding, .option = "cap",
                 .value = "USD", .help = "what may be spent"},
    [CLI_ACCOUNT] = {TEXT(ask.account), .option = "account", .value = "ACCOUNT",
                     .help = "phase35, phase35/lab02"},
    [CLI_JOB] = {TEXT(job), .option = "job", .value = "JOB.json",
                 .help = "the job, as `launcher --write-job` writes it"},
    [CLI_OUT] = {TEXT(out), .option = "out", .value = "PATH", .help = "write it there"},
    [CLI_MODE] = {TEXT(ask.mode), .option = "mode", .value = "MODE",
                  .help = "the job's mode (JOB.json's)"},
    [CLI_WORLD_SIZE] = {OWN(INT, ask.world_size), .least = 1, .most = BASE_RANKS_MAX,
                        .option = "world-size", .value = "N", .help = "its ranks (JOB.json's)"},
    [CLI_VENDOR] = {TEXT(ask.vendor), .option = "vendor", .value = "NAME",
                    .help = "local, runpod, vast, ... (the policy's)"},
    [CLI_INSTANCE_TYPE] = {TEXT(ask.instance_type), .option = "instance-type", .value = "NAME",
                           .help = "the vendor's name for it (the policy's)"},
    [CLI_INSTANCES] = {OWN(INT, ask.instances), .least = 1, .most = NUMBER_MAX,
                       .option = "instances", .value = "N", .help = "(the policy's)"},
    [CLI_GPUS] = {OWN(INT, ask.gpus), .least = 1, .most = NUMBER_MAX, .option = "gpus",
                  .value = "N", .help = "in each instance (the policy's)"},
    [CLI_TIER] = {TEXT(ask.tier), .option = "tier", .value = "NAME",
                  .help = "community, secure, ... (the policy's)"},
    [CLI_MAX_PRICE] = {OWN(CODED, ask.max_price_usd_micro_per_hour), .coding = &budget_price_coding,
                       .option = "max-price", .value = "USD",
                       .help = "per hour and instance (the policy's)"},
    [CLI_MAX_HOURS] = {OWN(CODED, ask.max_seconds), .coding = &budget_hours_coding,
                       .option = "max-hours", .value = "HOURS",
                       .help = "of the job, from its first redemption (the policy's)"},
    [CLI_MAX_ATTEMPTS] = {OWN(INT, ask.max_attempts), .least = 1, .most = NUMBER_MAX,
                          .option = "max-attempts", .value = "N",
                          .help = "starts of the job (the policy's)"},
    [CLI_CHECK] = {OWN(BOOL, flag), .option = "check",
                   .help = "exit 8 when something waits for a person"},
    [CLI_RANKS] = {OWN(INT, ranks), .least = 1, .most = BASE_RANKS_MAX, .option = "ranks",
                   .value = "N", .help = "a receipt for each rank"},
    [CLI_ATTEMPT] = {OWN(INT, attempt), .least = 1, .most = ATTEMPTS_MAX, .option = "attempt",
                     .value = "K", .help = "which start of the job, from 1"},
    [CLI_CREATE] = {OWN(BOOL, flag), .option = "create",
                    .help = "the creation permit for its instances: once per token"},
    [CLI_INSTANCE_ID] = {TEXT(instance_id), .option = "instance-id", .value = "ID",
                         .help = "the vendor's id of the instance"},
    [CLI_REPLACES] = {TEXT(replaces), .option = "replaces", .value = "ID",
                      .help = "the id that was attached by mistake, and no bill has charged"},
    [CLI_VENDOR_ACCOUNT] = {TEXT(vendor_account), .option = "vendor-account", .value = "ID",
                            .help = "of the vendor, where it is, as its driver says it"},
    [CLI_LINE_ID] = {TEXT(line_id), .option = "line-id", .value = "ID",
                     .help = "the bill's line; recorded once"},
    [CLI_PARTIAL] = {OWN(BOOL, flag), .option = "partial",
                     .help = "more of its cost may come: nothing returns yet"},
    [CLI_EVIDENCE] = {TEXT(evidence), .option = "evidence", .value = "FILE",
                      .help = "kept, with its digest"},
    [CLI_ATTESTED] = {OWN(BOOL, flag), .option = "attested",
                      .help = "vouch for the end, though a driver's file does not prove it"},
    [CLI_BILL] = {TEXT(bill), .option = "bill", .value = "FILE", .help = "the vendor's bill"},
    [CLI_AS_OF] = {OWN(CODED, as_of_s), .coding = &budget_time_coding, .option = "as-of",
                   .value = "TIME", .help = "until when the bill goes, as 2026-01-02T03:04:05Z"},
    [CLI_FORMAT] = {TEXT(format), .option = "format", .value = "NAME", .help = "of the file"},
    [CLI_KEYRING] = {TEXT(keyring), .option = "keyring", .value = "FILE",
                     .help = "public keys (DIR/keyring.json)"},
    [CLI_CHECKPOINT] = {TEXT(checkpoint), .option = "checkpoint", .value = "FILE",
                        .help = "a copy of DIR/checkpoints, kept elsewhere"},
    [CLI_ACCEPT_CHECKPOINT] =
        {TEXT(accept_checkpoint), .option = "accept-checkpoint", .value = "DIGEST",
         .help = "an admin has looked: go on though this checkpoint does not fit"},
    [CLI_ACCEPT_AUDIT] = {TEXT(accept_audit), .option = "accept-audit", .value = "DIGEST",
                          .help =
                              "an admin has looked: go on with what the audit found, and no more"},
    [CLI_DRIVER] = {TEXT(driver), .option = "driver", .value = "FILE",
                    .help = "the program that knows the vendor (the one of its name)"},
    [CLI_IMAGE] = {TEXT(image), .option = "image", .value = "NAME",
                   .help = "what the instances run (the driver's)"},
    [CLI_SSH_KEY] = {TEXT(ssh_key), .option = "ssh-key", .value = "FILE.pub",
                     .help = "the public key that they let in"},
    [CLI_DISK] = {OWN(INT, disk_gb), .least = 1, .most = NUMBER_MAX, .option = "disk",
                  .value = "GB", .help = "of each instance (the driver's)"},
    [CLI_ROLE] = {TEXT(role), .option = "role", .value = "ROLE",
                  .help = "request, reconcile or admin"},
};
_Static_assert((int)CLI_OPTION_COUNT <= 64, "options fit a mask");

/* The rows that one command takes, and the option of each. */
typedef struct option_rows {
    base_field rows[CLI_OPTION_COUNT];
    cli_option options[CLI_OPTION_COUNT];
    base_fields fields;
} option_rows;

static const cli_group *const groups[] = {
    &cli_service_group, &cli_account_group, &cli_authorize_group, &cli_read_group,
    &cli_running_group, &cli_token_group,   &cli_rent_group,      &cli_fact_group,
    &cli_report_group,  &cli_key_group,     &cli_client_group,
};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0], FLAG_BYTES = 40, HIDDEN_SIGN = '\x01' };

static uint64_t taken(const cli_command *command)
{
    return command->required | command->optional | CLI_BIT(CLI_JSON) | CLI_BIT(CLI_HELP);
}

static void take_rows(const cli_command *command, option_rows *taken_rows)
{
    int count = 0;
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((taken(command) & CLI_BIT(i)) != 0) {
            taken_rows->options[count] = (cli_option)i;
            taken_rows->rows[count++] = all_rows[i];
        }
    }
    taken_rows->rows[0].group = "Options";
    taken_rows->fields = (base_fields){.rows = taken_rows->rows, .count = count};
}

static void print_help(const cli_command *command, FILE *stream)
{
    option_rows taken_rows;
    (void)fprintf(stream, "Usage: budget-service %s%s%s", command->name,
                  command->operands[0] != '\0' ? " " : "", command->operands);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((command->required & CLI_BIT(i)) != 0) {
            const base_field *row = &all_rows[i];
            (void)fprintf(stream, " --%s%s%s", row->option, row->value != NULL ? " " : "",
                          row->value != NULL ? row->value : "");
        }
    }
    (void)fprintf(stream, " [OPTIONS]%s\n\n%c%s.\n",
                  command->program ? " -- COMMAND [ARGUMENTS]" : "",
                  toupper((unsigned char)command->summary[0]), command->summary + 1);
    if (command->details != NULL) {
        (void)fprintf(stream, "%s\n", command->details);
    }
    take_rows(command, &taken_rows);
    const base_option_set set = {.fields = &taken_rows.fields};
    base_options_help(&set, 1, stream);
}

static void print_help_all(FILE *stream)
{
    (void)fputs("Usage: budget-service COMMAND [ARGUMENTS]\n"
                "       budget-service COMMAND --help\n"
                "       budget-service --version\n\n"
                "Guards the money: no token, no cloud.\n",
                stream);
    for (int g = 0; g < GROUP_COUNT; g++) {
        (void)fprintf(stream, "\n%s:\n", groups[g]->title);
        for (int i = 0; i < groups[g]->count; i++) {
            const cli_command *command = &groups[g]->commands[i];
            char left[2 * FLAG_BYTES];
            (void)snprintf(left, sizeof left, "%s %s", command->name, command->operands);
            (void)fprintf(stream, "  %-28s %s\n", left, command->summary);
        }
    }
    (void)fputs(
        "\nCommands that ask the service find it and their key by --dir DIR and --key KEY, or\n"
        "$BUDGET_SERVICE_DIR, or $XDG_STATE_HOME/ringfence/budget "
        "(~/.local/state/ringfence/budget).\n"
        "\nExit status: 0 done; 1 an error; 2 wrong usage; 3 over the cap; 4 refused for another\n"
        "reason; 5 outcome unknown: ask again with the printed --request-id; 6 a bad token;\n"
        "7 not reconciled; 8 something waits for a person.\n",
        stream);
}

/* The command whose words begin the arguments; *used: how many they are. The longest one wins. */
static const cli_command *find_command(int count, char **arguments, int *used)
{
    for (int length = count < 2 ? count : 2; length > 0; length--) {
        char name[2 * FLAG_BYTES];
        (void)snprintf(name, sizeof name, "%s%s%s", arguments[0], length == 2 ? " " : "",
                       length == 2 ? arguments[1] : "");
        for (int g = 0; g < GROUP_COUNT; g++) {
            for (int i = 0; i < groups[g]->count; i++) {
                if (strcmp(groups[g]->commands[i].name, name) == 0) {
                    *used = length;
                    return &groups[g]->commands[i];
                }
            }
        }
    }
    return NULL;
}

/* Says which command may have been meant: of two words, or of one. */
static int wrong_command(const cli_args *args, int count, char **words)
{
    char two[2 * FLAG_BYTES];
    char question[BASE_NEAREST_BYTES];
    base_nearest nearest = {.name = NULL};
    (void)snprintf(two, sizeof two, "%s %s", words[0], count > 1 ? words[1] : "");
    for (int words_taken = count > 1 ? 2 : 1; words_taken > 0 && nearest.name == NULL;
         words_taken--) {
        nearest = base_nearest_begin(two, words_taken == 2 ? strlen(two) : strcspn(two, " "));
        for (int g = 0; g < GROUP_COUNT; g++) {
            for (int i = 0; i < groups[g]->count; i++) {
                base_nearest_offer(&nearest, groups[g]->commands[i].name);
            }
        }
    }
    return cli_error(args, BASE_EXIT_USAGE, "no command '%.60s'%s; try: budget-service --help",
                     words[0], base_nearest_ask(&nearest, "", question));
}

/* Do commands begin with this word: "account"? */
static bool is_family(const char *word)
{
    const size_t length = strlen(word);
    for (int g = 0; g < GROUP_COUNT; g++) {
        for (int i = 0; i < groups[g]->count; i++) {
            const char *name = groups[g]->commands[i].name;
            if (strncmp(name, word, length) == 0 && name[length] == ' ') {
                return true;
            }
        }
    }
    return false;
}

static int check_args(const cli_args *args)
{
    const cli_command *command = args->command;
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((command->required & CLI_BIT(i)) != 0 && args->options[i] == NULL) {
            return cli_error(args, BASE_EXIT_USAGE,
                             "--%s%s%s is missing; try: budget-service %s --help",
                             all_rows[i].option, all_rows[i].value != NULL ? " " : "",
                             all_rows[i].value != NULL ? all_rows[i].value : "", command->name);
        }
    }
    if (command->program && args->program == NULL) {
        return cli_error(args, BASE_EXIT_USAGE,
                         "a command is missing behind --; try: budget-service %s --help",
                         command->name);
    }
    if (args->operand_count != command->operand_count) {
        return cli_error(args, BASE_EXIT_USAGE,
                         "usage: budget-service %s%s%s; try: budget-service %s --help",
                         command->name, command->operands[0] != '\0' ? " " : "", command->operands,
                         command->name);
    }
    return BASE_EXIT_DONE;
}

/* What is read: the options so far, and the first that stands there twice. */
typedef struct option_reading {
    cli_args *args;
    option_rows rows;
    const char *twice;
} option_reading;

static void note_option(void *user, const base_field *row)
{
    option_reading *reading = user;
    const cli_option option = reading->rows.options[row - reading->rows.rows];
    const char **given = &reading->args->options[option];
    if (*given != NULL) {
        reading->twice = row->option;
    }
    *given = row->kind == BASE_FIELD_TEXT ? (char *)&reading->args->values + row->offset : "";
}

/* "-0.50" is an amount, where getopt sees an option: its sign is put away meanwhile. */
static void hide_signs(const base_fields *fields, int count, char **words)
{
    for (int i = 1; i < count && strcmp(words[i], "--") != 0; i++) {
        const char *before = words[i - 1];
        const base_field *row =
            strncmp(before, "--", 2) == 0 ? base_fields_find_option(fields, before + 2) : NULL;
        const bool is_value = i > 1 && row != NULL && row->value != NULL;
        const bool is_number = words[i][0] == '-' && isdigit((unsigned char)words[i][1]) != 0;
        if (is_number && !is_value) {
            words[i][0] = HIDDEN_SIGN;
        }
    }
}

/* Cuts the words at "--", behind which a program stands. Returns how many are left. */
static int cut_program(cli_args *args, int count, char **words)
{
    for (int i = 1; args->command->program && i < count; i++) {
        if (strcmp(words[i], "--") == 0) {
            args->program = words[i + 1] != NULL ? words + i + 1 : NULL;
            return i;
        }
    }
    return count;
}

/* words[0] is the command's last word. */
static int read_args(cli_args *args, int count, char **words)
{
    option_reading reading = {.args = args};
    base_error error = {0};
    int first = 0;
    (void)unsetenv("POSIXLY_CORRECT"); /* options may follow operands */
    take_rows(args->command, &reading.rows);
    hide_signs(&reading.rows.fields, count, words);
    const base_option_set set = {.fields = &reading.rows.fields, .record = &args->values};
    const base_command_line line = {.argc = count,
                                    .argv = words,
                                    .sets = &set,
                                    .set_count = 1,
                                    .seen = note_option,
                                    .user = &reading};
    if (base_options_parse(&line, &first, &error) != BASE_OK) {
        return cli_error(args, BASE_EXIT_USAGE, "%s; try: budget-service %s --help", error.message,
                         args->command->name);
    }
    args->json = args->json || args->options[CLI_JSON] != NULL; /* abbreviated */
    if (reading.twice != NULL) {
        return cli_error(args, BASE_EXIT_USAGE, "--%s stands there twice", reading.twice);
    }
    for (int i = first; i < count; i++) {
        if (args->operand_count == CLI_OPERANDS_MAX) {
            return cli_error(args, BASE_EXIT_USAGE, "too many arguments");
        }
        words[i][0] = words[i][0] == HIDDEN_SIGN ? '-' : words[i][0];
        args->operands[args->operand_count++] = words[i];
    }
    return BASE_EXIT_DONE;
}

static int run_command(const cli_args *args)
{
    const cli_command *command = args->command;
    int exit_code = BASE_EXIT_USAGE;
    if (command->run != NULL) {
        return command->run(args);
    }
    if (command->check != NULL && !command->check(args)) {
        return BASE_EXIT_USAGE;
    }
    budget_client *client = cli_client(args, command->key, &exit_code);
    if (client != NULL) {
        exit_code = command->ask(args, client);
        budget_client_close(client);
    }
    return exit_code;
}

/* --json counts from the first word on, so that a wrong option is reported as JSON as well. */
static bool wants_json(int count, char **arguments)
{
    for (int i = 0; i < count && strcmp(arguments[i], "--") != 0; i++) {
        if (strcmp(arguments[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}

/* What was printed must have arrived: else the command has not done what it says. */
static int finish_output(int exit_code)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return exit_code;
    }
    (void)fputs("budget-service: the answer could not be printed; what was asked may be done: look "
                "(budget-service list) before you ask again\n",
                stderr);
    return exit_code == BASE_EXIT_DONE ? BASE_EXIT_ERROR : exit_code;
}

int cli_main(int argument_count, char **arguments)
{
    int used = 0;
    static cli_args args; /* large */
    args = (cli_args){.json = wants_json(argument_count - 1, arguments + 1)};
    if (argument_count < 2 || strcmp(arguments[1], "--help") == 0 ||
        strcmp(arguments[1], "help") == 0 || strcmp(arguments[1], "-h") == 0) {
        print_help_all(argument_count < 2 ? stderr : stdout);
        return finish_output(argument_count < 2 ? BASE_EXIT_USAGE : BASE_EXIT_DONE);
    }
    if (base_version_asked(argument_count, arguments, "budget-service")) {
        return finish_output(BASE_EXIT_DONE);
    }
    args.command = find_command(argument_count - 1, arguments + 1, &used);
    if (args.command == NULL && argument_count > 2 && strcmp(arguments[2], "--help") == 0 &&
        is_family(arguments[1])) {
        print_help_all(stdout);
        return finish_output(BASE_EXIT_DONE);
    }
    if (args.command == NULL) {
        return wrong_command(&args, argument_count - 1, arguments + 1);
    }
    const int word_count = cut_program(&args, argument_count - used, arguments + used);
    const int exit_code = read_args(&args, word_count, arguments + used);
    if (args.options[CLI_HELP] != NULL) {
        print_help(args.command, stdout);
        return finish_output(BASE_EXIT_DONE);
    }
    if (exit_code != BASE_EXIT_DONE) {
        return exit_code;
    }
    const int checked = check_args(&args);
    return checked != BASE_EXIT_DONE ? checked : finish_output(run_command(&args));
}
