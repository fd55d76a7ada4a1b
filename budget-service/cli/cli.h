/* The command line of budget-service: one table of options, one of commands, one way to answer.
 *
 * Every command takes --help and --json. With --json it prints exactly one object on standard
 * output, also when it fails; else text for people: results on standard output, the rest on
 * standard error. It returns an exit code of base/exitcode.h. */
#ifndef BUDGET_CLI_H
#define BUDGET_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/exitcode.h"
#include "base/status.h"
#include "budget/client.h"
#include "budget/money.h"
#include "budget/passphrase.h"

typedef enum cli_option {
    CLI_HELP,
    CLI_JSON,
    CLI_DIR,
    CLI_KEY,
    CLI_TIMEOUT,
    CLI_REQUEST_ID,
    CLI_PASSPHRASE_FILE,
    CLI_PASSPHRASE_FD,
    CLI_LISTEN,
    CLI_LISTEN_REDEEM,
    CLI_CAP,
    CLI_ACCOUNT,
    CLI_JOB,
    CLI_OUT,
    CLI_MODE,
    CLI_WORLD_SIZE,
    CLI_VENDOR,
    CLI_INSTANCE_TYPE,
    CLI_INSTANCES,
    CLI_GPUS,
    CLI_TIER,
    CLI_MAX_PRICE,
    CLI_MAX_HOURS,
    CLI_MAX_ATTEMPTS,
    CLI_CHECK,
    CLI_RANKS,
    CLI_ATTEMPT,
    CLI_CREATE,
    CLI_INSTANCE_ID,
    CLI_REPLACES,
    CLI_VENDOR_ACCOUNT,
    CLI_LINE_ID,
    CLI_PARTIAL,
    CLI_EVIDENCE,
    CLI_ATTESTED,
    CLI_BILL,
    CLI_AS_OF,
    CLI_FORMAT,
    CLI_KEYRING,
    CLI_ROLE,
    CLI_ACCEPT_CHECKPOINT,
    CLI_ACCEPT_AUDIT,
    CLI_CHECKPOINT,
    CLI_DRIVER,
    CLI_IMAGE,
    CLI_SSH_KEY,
    CLI_DISK,
    CLI_OPTION_COUNT,
} cli_option;

#define CLI_BIT(option) (UINT64_C(1) << (option))

enum { CLI_OPERANDS_MAX = 4, CLI_TEXT_BYTES = 512, CLI_HINT_PERCENT = 80 };

struct cli_command;

/* What the options say; zero where they were not given. */
typedef struct cli_values {
    budget_claims ask; /* what authorize asks for; account and vendor for other commands too */
    char dir[BASE_PATH_BYTES];
    char key[BASE_PATH_BYTES];
    char passphrase_file[BASE_PATH_BYTES];
    char job[BASE_PATH_BYTES];
    char out[BASE_PATH_BYTES];
    char evidence[BASE_PATH_BYTES];
    char bill[BASE_PATH_BYTES];
    char keyring[BASE_PATH_BYTES];
    char checkpoint[BASE_PATH_BYTES];
    char driver[BASE_PATH_BYTES];
    char ssh_key[BASE_PATH_BYTES];
    char image[CLI_TEXT_BYTES];
    char listen[CLI_TEXT_BYTES];
    char listen_redeem[CLI_TEXT_BYTES];
    char request_id[CLI_TEXT_BYTES];
    char instance_id[CLI_TEXT_BYTES];
    char replaces[CLI_TEXT_BYTES];
    char vendor_account[CLI_TEXT_BYTES];
    char line_id[CLI_TEXT_BYTES];
    char format[CLI_TEXT_BYTES];
    char role[CLI_TEXT_BYTES];
    char accept_checkpoint[CLI_TEXT_BYTES];
    char accept_audit[CLI_TEXT_BYTES];
    int64_t timeout_ms;
    int64_t passphrase_fd;
    int64_t cap_usd_micro;
    int64_t ranks;
    int64_t attempt;
    int64_t as_of_s;
    int64_t disk_gb;
    bool flag; /* of any switch: cli_args.options says which was given */
} cli_values;

typedef struct cli_args {
    const struct cli_command *command;
    bool json;
    int operand_count;
    const char *operands[CLI_OPERANDS_MAX];
    /* The text of an option that was given, "" where it is no text; NULL: not given. */
    const char *options[CLI_OPTION_COUNT];
    char *const *program; /* what follows "--", ends with NULL; NULL: nothing does */
    cli_values values;
} cli_args;

typedef struct cli_command {
    const char *name;     /* "account create" */
    const char *operands; /* "ACCOUNT"; "" for none */
    int operand_count;    /* exactly so many */
    bool program;         /* a program and its arguments follow "--" */
    uint64_t required;    /* CLI_BITs of options */
    uint64_t optional;
    const char *summary; /* one line */
    const char *details; /* more for --help; NULL: none */
    /* Gives the exit code. NULL: the command asks the service, and has the next three. */
    int (*run)(const cli_args *args);
    const char *key;                     /* the name of the key it asks with */
    bool (*check)(const cli_args *args); /* before; false: it has said what is wrong. NULL: none */
    int (*ask)(const cli_args *args, budget_client *client); /* gives the exit code */
} cli_command;

/* The commands of one file, under one title in the help. */
typedef struct cli_group {
    const char *title;
    const cli_command *commands;
    int count;
} cli_group;

extern const cli_group cli_service_group;
extern const cli_group cli_account_group;
extern const cli_group cli_authorize_group;
extern const cli_group cli_read_group;
extern const cli_group cli_running_group;
extern const cli_group cli_token_group;
extern const cli_group cli_rent_group;
extern const cli_group cli_fact_group;
extern const cli_group cli_report_group;
extern const cli_group cli_key_group;
extern const cli_group cli_client_group;

/* Options of every command that asks the service. */
#define CLI_CLIENT_OPTIONS (CLI_BIT(CLI_DIR) | CLI_BIT(CLI_KEY) | CLI_BIT(CLI_TIMEOUT))

/* Finds the command, reads its options, runs it, returns its exit code. */
int cli_main(int argument_count, char **arguments);

/* ------------------------------------------------------------------------------------------------
 * Reading values. On failure it has said so; the exit code is then USAGE. */

/* An operand's amount. */
bool cli_money(const cli_args *args, const char *text, int64_t *micro);

/* ------------------------------------------------------------------------------------------------
 * Answering */

/* Prints the object on one line and releases it. Returns DONE, or ERROR if it could not be printed. */
int cli_object(json_t *object);

/* An error that is not a verdict: says it, as text or as {"error":…,"exit":…};
 * returns exit_code. */
int cli_error(const cli_args *args, int exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a status and its error: USAGE for what the user wrote, ERROR else. */
int cli_status(const cli_args *args, const base_error *error);

/* A verdict that is not GRANTED. Takes `object` (may be NULL) and adds granted, reason, message and
 * what goes with them; returns the verdict's exit code. */
int cli_refused(const cli_args *args, budget_client *client, budget_verdict verdict,
                const base_error *why, json_t *object);

/* The end of a listing: the refusal if the verdict is one, or the exit code after {name: rows}, or
 * after what was printed where rows is NULL. Releases rows. */
int cli_list(const cli_args *args, budget_client *client, budget_verdict verdict,
             const base_error *why, const char *name, json_t *rows);

/* "$3.00" in a buffer of eight that take turns; "-$0.50". */
const char *cli_usd(int64_t micro);

/* TOKEN: a file, or the text itself. False: it has said what is wrong. */
bool cli_read_token(const cli_args *args, char token[BUDGET_TOKEN_BYTES], size_t *token_bytes,
                    int *exit_code);

/* The exit code where a file that the command line names cannot be read, and nothing was asked yet:
 * wrong usage, if it is not there or no such file can be read; else `bad`, for what is in it. */
int cli_unread(base_status status, int bad);

/* What a token says, without a check of its signature. False: it is no token. */
bool cli_token_claims(const char *token, budget_claims *claims);

/* "2026-01-02T03:04:05Z", or "-" for 0, likewise. */
const char *cli_time(int64_t time_s);

/* cap_usd_micro, posted_usd_micro, reserved_usd_micro, remaining_usd_micro, … of an account. */
json_t *cli_account_json(const budget_account *account);

/* Percent of the cap that is posted or reserved; 100 where the cap is 0. */
int64_t cli_percent(const budget_account *account);

/* One line on standard error: the account is frozen, why, and what an admin runs. */
void cli_frozen(const char *account, const char *why);

/* From CLI_HINT_PERCENT on, and for a frozen account: one line on standard error. */
void cli_warn(const budget_account *account);

/* ------------------------------------------------------------------------------------------------
 * The service */

/* Where the passphrase comes from; confirm: a terminal asks twice. */
budget_passphrase_source cli_passphrase(const cli_args *args, bool confirm);

/* DIR: --dir, else the default. */
bool cli_dir(const cli_args *args, char dir[BASE_PATH_BYTES], int *exit_code);

/* BUDGET_SERVICE_DIR for what this command starts: a hook, and the command of a rent, ask the same service. False:
 * it has said what is wrong. */
bool cli_export_dir(const cli_args *args, const char *dir);

/* Where the service is, and with which key; their texts live as long as args and dir. False: *exit_code says. */
bool cli_client_options(const cli_args *args, const char *key_name, char dir[BASE_PATH_BYTES],
                        budget_client_options *options, int *exit_code);

/* A client with the key of --key, a file or a name, or else of this name. NULL: *exit_code says. */
budget_client *cli_client(const cli_args *args, const char *key_name, int *exit_code);

#endif
