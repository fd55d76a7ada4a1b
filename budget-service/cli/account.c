/* The commands account create, list, set-cap and acknowledge. Run by the table of commands in
 * options.c. */
#include "cli.h"

static bool account_operand(const cli_args *args)
{
    if (!budget_name_ok(args->operands[0], BUDGET_ACCOUNT_BYTES, true)) {
        (void)cli_error(
            args, BASE_EXIT_USAGE,
            "'%s' is no account: letters, digits, . _ - + @ : and up to %d parts with / "
            "between them",
            args->operands[0], BUDGET_ACCOUNT_DEPTH_MAX);
        return false;
    }
    return true;
}

typedef budget_verdict (*cap_call)(budget_client *client, const char *name, int64_t cap_usd_micro,
                                   base_error *why);

static int with_cap(const cli_args *args, budget_client *client, cap_call call, const char *done)
{
    const int64_t cap = args->values.cap_usd_micro;
    base_error why = {0};
    const budget_verdict verdict = call(client, args->operands[0], cap, &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, client, verdict, &why, NULL);
    }
    if (args->json) {
        return cli_object(json_pack("{s:s, s:I}", "account", args->operands[0], "cap_usd_micro",
                                    (json_int_t)cap));
    }
    (void)printf("%s %s: cap %s\n", done, args->operands[0], cli_usd(cap));
    return BASE_EXIT_DONE;
}

static int create(const cli_args *args, budget_client *client)
{
    return with_cap(args, client, budget_account_create, "made");
}

static int set_cap(const cli_args *args, budget_client *client)
{
    return with_cap(args, client, budget_account_set_cap, "set");
}

static int acknowledge(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    const budget_verdict verdict = budget_account_acknowledge(client, args->operands[0], &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, client, verdict, &why, NULL);
    }
    if (args->json) {
        return cli_object(json_pack("{s:s, s:b}", "account", args->operands[0], "frozen", 0));
    }
    (void)printf("%s is open again\n", args->operands[0]);
    return BASE_EXIT_DONE;
}

static void list_account(void *user, const budget_account *account)
{
    json_t *accounts = user;
    if (accounts != NULL) {
        (void)json_array_append_new(accounts, cli_account_json(account));
        return;
    }
    (void)printf("%-28s %12s %12s %12s %12s%s\n", account->name, cli_usd(account->cap_usd_micro),
                 cli_usd(account->posted_usd_micro), cli_usd(account->reserved_usd_micro),
                 cli_usd(account->remaining_usd_micro), account->frozen ? "  frozen" : "");
    (void)fflush(stdout);
    cli_warn(account);
}

static int list(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    json_t *accounts = args->json ? json_array() : NULL;
    if (!args->json) {
        (void)printf("%-28s %12s %12s %12s %12s\n", "account", "cap", "posted", "reserved",
                     "remaining");
    }
    const budget_verdict verdict = budget_account_list(client, list_account, accounts, &why);
    return cli_list(args, client, verdict, &why, "accounts", accounts);
}

static const cli_command commands[] = {
    {.name = "account create",
     .operands = "ACCOUNT",
     .operand_count = 1,
     .required = CLI_BIT(CLI_CAP),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID),
     .summary = "make an account; A/B is a part of A, and bound by both caps",
     .key = "admin",
     .check = account_operand,
     .ask = create},
    {.name = "account list",
     .operands = "",
     .optional = CLI_CLIENT_OPTIONS,
     .summary = "caps, posted, reserved, remaining",
     .key = "request",
     .ask = list},
    {.name = "account set-cap",
     .operands = "ACCOUNT",
     .operand_count = 1,
     .required = CLI_BIT(CLI_CAP),
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID),
     .summary = "change what may be spent",
     .key = "admin",
     .check = account_operand,
     .ask = set_cap},
    {.name = "account acknowledge",
     .operands = "ACCOUNT",
     .operand_count = 1,
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_REQUEST_ID),
     .summary = "open an account that an actual above its reservation has frozen",
     .key = "admin",
     .check = account_operand,
     .ask = acknowledge},
};
const cli_group cli_account_group = {"Accounts", commands, sizeof commands / sizeof commands[0]};
