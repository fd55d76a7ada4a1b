/* The tables: every option with its name and help, and how a command line is read by them. */
#include <ctype.h>
#include <string.h>

#include "cli.h"

typedef struct option_info {
    const char *name;
    const char *value; /* NULL: a switch */
    const char *help;
} option_info;

static const option_info infos[CLI_OPTION_COUNT] = {
    [CLI_HELP] = {"help", NULL, "this text"},
    [CLI_JSON] = {"json", NULL, "print one JSON object"},
    [CLI_DIR] = {"dir", "DIR", "the service's directory"},
    [CLI_KEY] = {"key", "KEY", "a key file, or a name in DIR/clients"},
    [CLI_TIMEOUT] = {"timeout", "SECONDS", "until an answer must have come (30)"},
    [CLI_REQUEST_ID] = {"request-id", "ID", "ask again under the same id: the same answer"},
    [CLI_PASSPHRASE_FILE] = {"passphrase-file", "FILE", "the passphrase of the signing key"},
    [CLI_PASSPHRASE_FD] = {"passphrase-fd", "N", "read it from this descriptor"},
    [CLI_LISTEN] = {"listen", "ENDPOINT", "ipc://PATH or tcp://ADDRESS:PORT (ipc in DIR/run)"},
    [CLI_LISTEN_REDEEM] = {"listen-redeem", "ENDPOINT", "where tokens are redeemed"},
    [CLI_CAP] = {"cap", "USD", "what may be spent"},
    [CLI_ACCOUNT] = {"account", "ACCOUNT", "phase35, phase35/lab02"},
    [CLI_JOB] = {"job", "JOB.json", "the job, as `launcher --write-job` writes it"},
    [CLI_OUT] = {"out", "PATH", "write it there"},
    [CLI_MODE] = {"mode", "MODE", "the job's mode (JOB.json's)"},
    [CLI_WORLD_SIZE] = {"world-size", "N", "its ranks (JOB.json's)"},
    [CLI_VENDOR] = {"vendor", "NAME", "local, runpod, vast, ... (the policy's)"},
    [CLI_INSTANCE_TYPE] = {"instance-type", "NAME", "the vendor's name for it (the policy's)"},
    [CLI_INSTANCES] = {"instances", "N", "(the policy's)"},
    [CLI_GPUS] = {"gpus", "N", "in each instance (the policy's)"},
    [CLI_TIER] = {"tier", "NAME", "community, secure, ... (the policy's)"},
    [CLI_MAX_PRICE] = {"max-price", "USD", "per hour and instance (the policy's)"},
    [CLI_MAX_HOURS] = {"max-hours", "HOURS",
                       "of the job, from its first redemption (the policy's)"},
    [CLI_MAX_ATTEMPTS] = {"max-attempts", "N", "starts of the job (the policy's)"},
    [CLI_CHECK] = {"check", NULL, "exit 8 when something waits for a person"},
    [CLI_RANKS] = {"ranks", "N", "a receipt for each rank"},
    [CLI_ATTEMPT] = {"attempt", "K", "which start of the job, from 1"},
    [CLI_CREATE] = {"create", NULL, "the creation permit for one instance: once per token"},
    [CLI_INSTANCE_ID] = {"instance-id", "ID", "the vendor's id of the instance"},
    [CLI_LINE_ID] = {"line-id", "ID", "the bill's line; recorded once"},
    [CLI_PARTIAL] = {"partial", NULL, "more of its cost may come: nothing returns yet"},
    [CLI_EVIDENCE] = {"evidence", "FILE", "kept, with its digest"},
    [CLI_BILL] = {"bill", "FILE", "the vendor's bill"},
    [CLI_AS_OF] = {"as-of", "TIME", "until when the bill goes, as 2026-01-02T03:04:05Z"},
    [CLI_FORMAT] = {"format", "NAME", "of the file"},
    [CLI_KEYRING] = {"keyring", "FILE", "public keys (DIR/keyring.json)"},
    [CLI_CHECKPOINT] = {"checkpoint", "FILE", "a copy of DIR/checkpoints, kept elsewhere"},
    [CLI_ACCEPT_CHECKPOINT] = {"accept-checkpoint", "DIGEST",
                               "an admin has looked: go on though this checkpoint does not fit"},
    [CLI_ACCEPT_AUDIT] = {"accept-audit", "DIGEST",
                          "an admin has looked: go on with what the audit found, and no more"},
    [CLI_ROLE] = {"role", "ROLE", "request, reconcile or admin"},
};
_Static_assert((int)CLI_OPTION_COUNT <= 64, "options fit a mask");

typedef struct command_group {
    const char *title;
    const cli_command *commands;
    const int *count;
} command_group;

static const command_group groups[] = {
    {"The service", cli_service_commands, &cli_service_command_count},
    {"Accounts", cli_account_commands, &cli_account_command_count},
    {"Money", cli_authorize_commands, &cli_authorize_command_count},
    {"Looking", cli_read_commands, &cli_read_command_count},
    {"Tokens", cli_token_commands, &cli_token_command_count},
    {"Facts", cli_fact_commands, &cli_fact_command_count},
    {"Reports", cli_report_commands, &cli_report_command_count},
    {"Keys", cli_key_commands, &cli_key_command_count},
    {"Clients", cli_client_commands, &cli_client_command_count},
};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0], FLAG_BYTES = 40 };

static uint64_t taken(const cli_command *command)
{
    return command->required | command->optional | CLI_BIT(CLI_JSON) | CLI_BIT(CLI_HELP);
}

const char *cli_option_flag(cli_option option)
{
    static char flag[FLAG_BYTES];
    (void)snprintf(flag, sizeof flag, "--%s", infos[option].name);
    return flag;
}

static void option_left(cli_option option, char left[FLAG_BYTES])
{
    (void)snprintf(left, FLAG_BYTES, "--%s%s%s", infos[option].name,
                   infos[option].value != NULL ? " " : "",
                   infos[option].value != NULL ? infos[option].value : "");
}

void cli_help(const cli_command *command, FILE *stream)
{
    char left[FLAG_BYTES];
    (void)fprintf(stream, "Usage: budget-service %s%s%s", command->name,
                  command->operands[0] != '\0' ? " " : "", command->operands);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((command->required & CLI_BIT(i)) != 0) {
            option_left((cli_option)i, left);
            (void)fprintf(stream, " %s", left);
        }
    }
    (void)fprintf(stream, " [OPTIONS]\n\n%c%s.\n", toupper((unsigned char)command->summary[0]),
                  command->summary + 1);
    if (command->details != NULL) {
        (void)fprintf(stream, "%s\n", command->details);
    }
    (void)fputs("\n", stream);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((taken(command) & CLI_BIT(i)) != 0) {
            option_left((cli_option)i, left);
            (void)fprintf(stream, "  %-24s %s\n", left, infos[i].help);
        }
    }
}

void cli_help_all(FILE *stream)
{
    (void)fputs("Usage: budget-service COMMAND [ARGUMENTS]\n"
                "       budget-service COMMAND --help\n\n"
                "Guards the money: no token, no cloud.\n",
                stream);
    for (int g = 0; g < GROUP_COUNT; g++) {
        (void)fprintf(stream, "\n%s:\n", groups[g].title);
        for (int i = 0; i < *groups[g].count; i++) {
            const cli_command *command = &groups[g].commands[i];
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
            for (int i = 0; i < *groups[g].count; i++) {
                if (strcmp(groups[g].commands[i].name, name) == 0) {
                    *used = length;
                    return &groups[g].commands[i];
                }
            }
        }
    }
    return NULL;
}

/* Do commands begin with this word: "account"? */
static bool is_family(const char *word)
{
    const size_t length = strlen(word);
    for (int g = 0; g < GROUP_COUNT; g++) {
        for (int i = 0; i < *groups[g].count; i++) {
            const char *name = groups[g].commands[i].name;
            if (strncmp(name, word, length) == 0 && name[length] == ' ') {
                return true;
            }
        }
    }
    return false;
}

/* "--name" or "--name=value"; CLI_OPTION_COUNT when the command has no such option. */
static int find_option(const cli_command *command, const char *text, const char **value)
{
    const size_t length = strcspn(text, "=");
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((taken(command) & CLI_BIT(i)) != 0 && strlen(infos[i].name) == length &&
            memcmp(infos[i].name, text, length) == 0) {
            *value = text[length] == '=' ? text + length + 1 : NULL;
            return i;
        }
    }
    return CLI_OPTION_COUNT;
}

/* Reads the option at arguments[*at] and moves on over its value. */
static int read_option(cli_args *args, int count, char **arguments, int *at)
{
    const char *value = NULL;
    const char *text = arguments[*at] + 2;
    const int option = find_option(args->command, text, &value);
    if (option == CLI_OPTION_COUNT) {
        return cli_error(args, BASE_EXIT_USAGE, "no option --%.60s; try: budget-service %s --help",
                         text, args->command->name);
    }
    if (args->options[option] != NULL) {
        return cli_error(args, BASE_EXIT_USAGE, "--%s stands there twice", infos[option].name);
    }
    if (infos[option].value == NULL) {
        if (value != NULL) {
            return cli_error(args, BASE_EXIT_USAGE, "--%s takes no value", infos[option].name);
        }
        value = "";
    } else if (value == NULL) {
        if (*at + 1 >= count) {
            return cli_error(args, BASE_EXIT_USAGE, "--%s needs a value (%s)", infos[option].name,
                             infos[option].value);
        }
        value = arguments[++*at];
    }
    args->options[option] = value;
    return BASE_EXIT_DONE;
}

static int check_args(const cli_args *args)
{
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((args->command->required & CLI_BIT(i)) != 0 && args->options[i] == NULL) {
            return cli_error(args, BASE_EXIT_USAGE,
                             "--%s%s%s is missing; try: budget-service %s --help", infos[i].name,
                             infos[i].value != NULL ? " " : "",
                             infos[i].value != NULL ? infos[i].value : "", args->command->name);
        }
    }
    if (args->operand_count != args->command->operand_count) {
        return cli_error(args, BASE_EXIT_USAGE,
                         "usage: budget-service %s%s%s; try: budget-service %s --help",
                         args->command->name, args->command->operands[0] != '\0' ? " " : "",
                         args->command->operands, args->command->name);
    }
    return BASE_EXIT_DONE;
}

static int read_args(cli_args *args, int count, char **arguments)
{
    bool only_operands = false;
    for (int i = 0; i < count; i++) {
        const char *text = arguments[i];
        if (!only_operands && strcmp(text, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && strncmp(text, "--", 2) == 0) {
            const int exit_code = read_option(args, count, arguments, &i);
            if (exit_code != BASE_EXIT_DONE) {
                return exit_code;
            }
        } else if (args->operand_count == CLI_OPERANDS_MAX) {
            return cli_error(args, BASE_EXIT_USAGE, "too many arguments");
        } else {
            args->operands[args->operand_count++] = text;
        }
    }
    return BASE_EXIT_DONE;
}

/* --json counts from the first word on, so that a wrong option is reported as JSON as well. */
static bool wants_json(int count, char **arguments)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(arguments[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}

int cli_main(int argument_count, char **arguments)
{
    int used = 0;
    cli_args args = {.json = wants_json(argument_count - 1, arguments + 1)};
    if (argument_count < 2 || strcmp(arguments[1], "--help") == 0 ||
        strcmp(arguments[1], "help") == 0 || strcmp(arguments[1], "-h") == 0) {
        cli_help_all(argument_count < 2 ? stderr : stdout);
        return argument_count < 2 ? BASE_EXIT_USAGE : BASE_EXIT_DONE;
    }
    args.command = find_command(argument_count - 1, arguments + 1, &used);
    if (args.command == NULL && argument_count > 2 && strcmp(arguments[2], "--help") == 0 &&
        is_family(arguments[1])) {
        cli_help_all(stdout);
        return BASE_EXIT_DONE;
    }
    if (args.command == NULL) {
        return cli_error(&args, BASE_EXIT_USAGE, "no command '%.60s'; try: budget-service --help",
                         arguments[1]);
    }
    const int exit_code = read_args(&args, argument_count - 1 - used, arguments + 1 + used);
    if (args.options[CLI_HELP] != NULL) {
        cli_help(args.command, stdout);
        return BASE_EXIT_DONE;
    }
    if (exit_code != BASE_EXIT_DONE) {
        return exit_code;
    }
    const int checked = check_args(&args);
    return checked != BASE_EXIT_DONE ? checked : args.command->run(&args);
}
