/* The command authorize: makes a request from options and JOB.json, and stores the token. Run by
 * the table of commands in options.c. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "budget/machine.h"
#include "budget/secret_file.h"
#include "cli.h"
#include "job_file.h"

static bool read_label(const cli_args *args, char label[BUDGET_LABEL_BYTES])
{
    if (!budget_name_ok(args->operands[0], BUDGET_LABEL_BYTES, true)) {
        (void)cli_error(args, BASE_EXIT_USAGE,
                        "'%s' is no label: letters, digits, . _ - + @ : and / between parts",
                        args->operands[0]);
        return false;
    }
    (void)snprintf(label, BUDGET_LABEL_BYTES, "%s", args->operands[0]);
    return true;
}

/* The job's own mode and world size; a flag that says another thing is refused. */
static bool read_job(const cli_args *args, budget_claims *ask)
{
    job_file job;
    base_error error = {0};
    if (job_file_read(args->options[CLI_JOB], &job, &error) != BASE_OK) {
        (void)cli_error(args, BASE_EXIT_USAGE,
                        "%s; launcher --write-job FILE writes a job, with its flags",
                        error.message);
        return false;
    }
    memcpy(ask->job_blake2b256, job.blake2b256, sizeof ask->job_blake2b256);
    if (ask->mode[0] != '\0' && strcmp(ask->mode, job.mode) != 0) {
        (void)cli_error(args, BASE_EXIT_USAGE, "--mode %s, but %s says %s", ask->mode,
                        args->options[CLI_JOB], job.mode);
    } else if (ask->world_size != 0 && ask->world_size != job.world_size) {
        (void)cli_error(args, BASE_EXIT_USAGE, "--world-size %lld, but %s says %lld",
                        (long long)ask->world_size, args->options[CLI_JOB],
                        (long long)job.world_size);
    } else {
        memcpy(ask->mode, job.mode, sizeof ask->mode);
        ask->world_size = job.world_size;
        return true;
    }
    return false;
}

/* Before money is reserved: can the token be put there? */
static bool out_is_free(const cli_args *args)
{
    const char *path = args->options[CLI_OUT];
    if (path != NULL && args->options[CLI_REQUEST_ID] == NULL && access(path, F_OK) == 0) {
        (void)cli_error(
            args, BASE_EXIT_USAGE,
            "%s is there already, and nothing was asked: take another --out, or remove it", path);
        return false;
    }
    return true;
}

/* A token permits to spend: its file is ours alone. The same token once more is fine. */
static int put_token(const cli_args *args, const budget_client *client, const char *token)
{
    char there[BUDGET_TOKEN_BYTES + 1];
    char line[BUDGET_TOKEN_BYTES + 1];
    size_t there_bytes = 0;
    base_error error = {0};
    const char *path = args->options[CLI_OUT];
    if (path == NULL) {
        return BASE_EXIT_DONE;
    }
    const int length = snprintf(line, sizeof line, "%s\n", token);
    if (budget_secret_file_read(path, there, sizeof there, &there_bytes, NULL) == BASE_OK &&
        there_bytes == (size_t)length && memcmp(there, line, there_bytes) == 0) {
        return BASE_EXIT_DONE;
    }
    return budget_secret_file_create(path, line, (size_t)length, &error) == BASE_OK
               ? BASE_EXIT_DONE
               : cli_error(args, BASE_EXIT_ERROR,
                           "granted, but %s; for the token ask again with another --out and "
                           "--request-id %s",
                           error.message, budget_client_request_id(client));
}

/* What the token allows, and where its price comes from. */
static void show_terms(const budget_claims *claims)
{
    if (strcmp(claims->vendor, "local") == 0) {
        return;
    }
    (void)fprintf(stderr,
                  "for %" PRId64 " instance%s of %s at %s/h each, %.4g h (%" PRId64 " s)%s\n",
                  claims->instances, claims->instances == 1 ? "" : "s", claims->vendor,
                  cli_usd(claims->max_price_usd_micro_per_hour), (double)claims->max_seconds / 3600,
                  claims->max_seconds,
                  claims->price_derived
                      ? ": nobody named the price. It is what the amount pays for, and no quote: a "
                        "vendor that asks more costs more. Name it with --max-price"
                      : "");
}

/* Standard output has the token, or where it is. If that is lost, the same answer can be had again. */
static int check_output(const cli_args *args, const budget_client *client)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return BASE_EXIT_DONE;
    }
    (void)fprintf(
        stderr,
        "budget-service: %s is granted, and the answer could not be printed; for the same "
        "answer ask again with --request-id %s\n",
        args->operands[0], budget_client_request_id(client));
    return BASE_EXIT_ERROR;
}

static int show_grant(const cli_args *args, budget_client *client, const budget_grant *grant)
{
    budget_claims claims = {0};
    const int exit_code = put_token(args, client, grant->token);
    const budget_account binding = {.cap_usd_micro = grant->cap_usd_micro,
                                    .reserved_usd_micro =
                                        grant->cap_usd_micro - grant->remaining_after_usd_micro,
                                    .remaining_usd_micro = grant->remaining_after_usd_micro};
    if (exit_code != BASE_EXIT_DONE) {
        return exit_code;
    }
    if (!cli_token_claims(grant->token, &claims)) {
        return cli_error(args, BASE_EXIT_ERROR, "granted, but what came is no token");
    }
    if (args->json) {
        (void)cli_object(json_pack(
            "{s:b, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:I, s:b, s:s, s:I, s:I, s:I, s:b}",
            "granted", 1, "label", grant->label, "jti", grant->jti, "token", grant->token, "kid",
            grant->kid, "remaining_before_usd_micro", (json_int_t)grant->remaining_before_usd_micro,
            "remaining_after_usd_micro", (json_int_t)grant->remaining_after_usd_micro,
            "reserved_usd_micro", (json_int_t)grant->max_usd_micro, "account", grant->account,
            "cap_usd_micro", (json_int_t)grant->cap_usd_micro, "warning",
            cli_percent(&binding) >= CLI_HINT_PERCENT, "request_id",
            budget_client_request_id(client), "instances", (json_int_t)claims.instances,
            "max_price_usd_micro_per_hour", (json_int_t)claims.max_price_usd_micro_per_hour,
            "max_seconds", (json_int_t)claims.max_seconds, "price_derived", claims.price_derived));
        return check_output(args, client);
    }
    (void)fprintf(stderr, "granted %s: %s reserved\nremaining of %s: %s before, %s after\n",
                  grant->label, cli_usd(grant->max_usd_micro), grant->account,
                  cli_usd(grant->remaining_before_usd_micro),
                  cli_usd(grant->remaining_after_usd_micro));
    show_terms(&claims);
    if (cli_percent(&binding) >= CLI_HINT_PERCENT) {
        (void)fprintf(stderr, "budget-service: warning: %s has used %" PRId64 " %% of its %s\n",
                      grant->account, cli_percent(&binding), cli_usd(grant->cap_usd_micro));
    }
    if (args->options[CLI_OUT] != NULL) {
        (void)printf("%s\n", args->options[CLI_OUT]);
    } else {
        (void)printf("%s\n", grant->token);
    }
    return check_output(args, client);
}

static int ask_for(const cli_args *args, const budget_claims *ask)
{
    static budget_grant grant;
    int exit_code = BASE_EXIT_ERROR;
    base_error why = {0};
    budget_client *client = cli_client(args, "request", &exit_code);
    if (client == NULL) {
        return exit_code;
    }
    const budget_verdict verdict = budget_authorize(client, ask, &grant, &why);
    if (verdict == BUDGET_GRANTED) {
        exit_code = show_grant(args, client, &grant);
    } else {
        json_t *object = args->json ? json_pack("{s:s, s:I}", "label", ask->label,
                                                "asked_usd_micro", (json_int_t)ask->max_usd_micro)
                                    : NULL;
        if (object != NULL && ask->account[0] != '\0') {
            (void)json_object_set_new(object, "account", json_string(ask->account));
        }
        exit_code = cli_refused(args, client, verdict, &why, object);
    }
    budget_client_close(client);
    return exit_code;
}

static int run_authorize(const cli_args *args)
{
    budget_claims ask = args->values.ask;
    if (!read_label(args, ask.label) || !cli_money(args, args->operands[1], &ask.max_usd_micro) ||
        !out_is_free(args) || !read_job(args, &ask)) {
        return BASE_EXIT_USAGE;
    }
    (void)!budget_machine_id(ask.machine_id, NULL); /* needed for vendor local only */
    return ask_for(args, &ask);
}

static const cli_command commands[] = {
    {.name = "authorize",
     .operands = "LABEL USD",
     .operand_count = 2,
     .required = CLI_BIT(CLI_JOB),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID) | CLI_BIT(CLI_ACCOUNT) |
                 CLI_BIT(CLI_OUT) | CLI_BIT(CLI_MODE) | CLI_BIT(CLI_WORLD_SIZE) |
                 CLI_BIT(CLI_VENDOR) | CLI_BIT(CLI_INSTANCE_TYPE) | CLI_BIT(CLI_INSTANCES) |
                 CLI_BIT(CLI_GPUS) | CLI_BIT(CLI_TIER) | CLI_BIT(CLI_MAX_PRICE) |
                 CLI_BIT(CLI_MAX_HOURS) | CLI_BIT(CLI_MAX_ATTEMPTS),
     .summary = "reserve money for one job and get its token",
     .details = "LABEL names the job for ever. Defaults come from the account's policy and from "
                "JOB.json. Prints the token, or where\nit was put, and what remains before and "
                "after.",
     .run = run_authorize},
};
const cli_group cli_authorize_group = {"Money", commands, sizeof commands / sizeof commands[0]};
