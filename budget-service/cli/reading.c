/* The commands remaining, total-spent, status and list. Run by the table of commands in
 * options.c. */
#include <inttypes.h>

#include "cli.h"
#include "entry.h"

enum { BAR_CELLS = 24 };

static int remaining(const cli_args *args, budget_client *client)
{
    static budget_chain chain;
    base_error why = {0};
    const budget_verdict verdict = budget_remaining(client, args->operands[0], &chain, &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, client, verdict, &why, NULL);
    }
    const budget_account *binding = &chain.accounts[chain.binding];
    if (args->json) {
        json_t *object = cli_account_json(binding); /* the numbers of the one that binds */
        json_t *accounts = json_array();
        for (int i = 0; i < chain.count; i++) {
            (void)json_array_append_new(accounts, cli_account_json(&chain.accounts[i]));
        }
        (void)json_object_set_new(object, "account", json_string(args->operands[0]));
        (void)json_object_set_new(object, "binding", json_string(binding->name));
        (void)json_object_set_new(object, "accounts", accounts);
        return cli_object(object);
    }
    (void)printf("%s\n", cli_usd(binding->remaining_usd_micro));
    (void)fprintf(stderr, "%s binds: cap %s, posted %s, reserved %s\n", binding->name,
                  cli_usd(binding->cap_usd_micro), cli_usd(binding->posted_usd_micro),
                  cli_usd(binding->reserved_usd_micro));
    for (int i = 0; i < chain.count; i++) {
        cli_warn(&chain.accounts[i]);
    }
    return BASE_EXIT_DONE;
}

static int total_spent(const cli_args *args, budget_client *client)
{
    int64_t spent = 0;
    base_error why = {0};
    const budget_verdict verdict = budget_total_spent(client, args->operands[0], &spent, &why);
    if (verdict != BUDGET_GRANTED) {
        return cli_refused(args, client, verdict, &why, NULL);
    }
    if (args->json) {
        return cli_object(json_pack("{s:s, s:I}", "account", args->operands[0],
                                    "total_spent_usd_micro", (json_int_t)spent));
    }
    (void)printf("%s\n", cli_usd(spent));
    return BASE_EXIT_DONE;
}

/* "#####++++......": posted, reserved, left. */
static void make_bar(const budget_account *account, char bar[BAR_CELLS + 1])
{
    const double cap = account->cap_usd_micro > 0 ? (double)account->cap_usd_micro : 1.0;
    const double posted = (double)account->posted_usd_micro * BAR_CELLS / cap;
    const double used =
        ((double)account->posted_usd_micro + (double)account->reserved_usd_micro) * BAR_CELLS / cap;
    for (int i = 0; i < BAR_CELLS; i++) {
        bar[i] = i + 0.5 < posted ? '#' : (i + 0.5 < used ? '+' : '.');
    }
    bar[BAR_CELLS] = '\0';
}

typedef struct report_sink {
    bool json;
    json_t *accounts;
    json_t *alarms;
    uint64_t above_cap; /* accounts that have used more than their own cap */
} report_sink;

static void report_account(void *user, const budget_account *account)
{
    report_sink *sink = user;
    char bar[BAR_CELLS + 1];
    sink->above_cap +=
        account->posted_usd_micro + account->reserved_usd_micro > account->cap_usd_micro;
    if (sink->json) {
        (void)json_array_append_new(sink->accounts, cli_account_json(account));
        return;
    }
    make_bar(account, bar);
    (void)printf("%-24s [%s] %3" PRId64 " %%  %s left of %s: %s posted, %s reserved%s\n",
                 account->name, bar, cli_percent(account), cli_usd(account->remaining_usd_micro),
                 cli_usd(account->cap_usd_micro), cli_usd(account->posted_usd_micro),
                 cli_usd(account->reserved_usd_micro), account->frozen ? "  FROZEN" : "");
    (void)fflush(stdout);
    cli_warn(account);
}

static void report_alarm(void *user, const budget_entry *entry)
{
    const report_sink *sink = user;
    if (sink->json) {
        (void)json_array_append_new(sink->alarms, entry_json(entry));
        return;
    }
    (void)printf("ALARM %s: past its deadline (%s) without proof of termination; %s stays "
                 "reserved; %s: ",
                 entry->label, cli_time(entry->deadline), cli_usd(entry->reserved_usd_micro),
                 entry->vendor);
    entry_put_instances(entry, stdout);
    (void)printf("\n");
}

static int show_report(const cli_args *args, report_sink *sink, const budget_report *report)
{
    const bool attention = report->alarms_total > 0 || report->frozen_total > 0 ||
                           sink->above_cap > 0 || report->clock_alarm[0] != '\0' ||
                           report->audit_finding[0] != '\0' || report->hook_failure[0] != '\0';
    const int exit_code =
        attention && args->options[CLI_CHECK] != NULL ? BASE_EXIT_NEEDS_ATTENTION : BASE_EXIT_DONE;
    if (args->json) {
        (void)cli_object(json_pack(
            "{s:O, s:O, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:b}", "accounts", sink->accounts,
            "alarms", sink->alarms, "accounts_total", (json_int_t)report->accounts_total,
            "frozen_total", (json_int_t)report->frozen_total, "above_cap_total",
            (json_int_t)sink->above_cap, "alarms_total", (json_int_t)report->alarms_total,
            "clock_alarm", report->clock_alarm, "audit_finding", report->audit_finding,
            "hook_failure", report->hook_failure, "needs_attention", attention));
        return exit_code;
    }
    if (report->audit_finding[0] != '\0') {
        (void)printf("ALARM the ledger does not audit: %s\n", report->audit_finding);
    }
    if (report->clock_alarm[0] != '\0') {
        (void)printf("ALARM %s\n", report->clock_alarm);
    }
    if (report->hook_failure[0] != '\0') {
        (void)printf("ALARM nobody may have heard the last alarm: %s\n", report->hook_failure);
    }
    (void)printf("%" PRIu64 " account%s, %" PRIu64 " frozen, %" PRIu64 " past the deadline",
                 report->accounts_total, report->accounts_total == 1 ? "" : "s",
                 report->frozen_total, report->alarms_total);
    if (sink->above_cap > 0) {
        (void)printf(", %" PRIu64 " above the cap", sink->above_cap);
    }
    (void)printf("\n");
    return exit_code;
}

static int ask_status(const cli_args *args, budget_client *client)
{
    static budget_report report;
    base_error why = {0};
    report_sink sink = {.json = args->json, .accounts = json_array(), .alarms = json_array()};
    const budget_status_sinks sinks = {
        .account = report_account, .alarm = report_alarm, .user = &sink};
    const budget_verdict verdict = budget_status(client, &sinks, &report, &why);
    const int exit_code = verdict == BUDGET_GRANTED
                              ? show_report(args, &sink, &report)
                              : cli_refused(args, client, verdict, &why, NULL);
    json_decref(sink.accounts);
    json_decref(sink.alarms);
    return exit_code;
}

static const char list_row[] = "%-28s %-20s %-20s %10s %10s %10s  %-20s  %-20s  ";

typedef struct list_sink {
    json_t *entries; /* NULL: text */
    bool any;        /* the head of the table has been printed */
} list_sink;

static void list_entry(void *user, const budget_entry *entry)
{
    list_sink *sink = user;
    if (sink->entries != NULL) {
        (void)json_array_append_new(sink->entries, entry_json(entry));
        return;
    }
    if (!sink->any) {
        (void)printf(list_row, "label", "account", "state", "authorized", "reserved", "actual",
                     "granted", "deadline");
        (void)printf("instances\n");
        sink->any = true;
    }
    (void)printf(list_row, entry->label, entry->account, entry->state,
                 cli_usd(entry->authorized_usd_micro), cli_usd(entry->reserved_usd_micro),
                 entry->actual_known ? cli_usd(entry->actual_usd_micro) : "unknown",
                 cli_time(entry->authorized_at), cli_time(entry->deadline));
    entry_put_instances(entry, stdout);
    if (entry->credit_usd_micro != 0) {
        (void)printf("  credited %s more than it cost", cli_usd(entry->credit_usd_micro));
    }
    (void)printf("\n");
}

static int list(const cli_args *args, budget_client *client)
{
    base_error why = {0};
    list_sink sink = {.entries = args->json ? json_array() : NULL};
    const budget_selection selection = {.account = args->options[CLI_ACCOUNT]};
    const budget_verdict verdict = budget_list(client, &selection, list_entry, &sink, &why);
    const int exit_code = cli_list(args, client, verdict, &why, "entries", sink.entries);
    if (exit_code == BASE_EXIT_DONE && !args->json && !sink.any) {
        (void)printf("nothing was authorized\n");
    }
    return exit_code;
}

static const cli_command commands[] = {
    {.name = "remaining",
     .operands = "ACCOUNT",
     .operand_count = 1,
     .optional = CLI_CLIENT_OPTIONS,
     .summary = "what is left: the least along the account's chain",
     .key = "request",
     .ask = remaining},
    {.name = "total-spent",
     .operands = "ACCOUNT",
     .operand_count = 1,
     .optional = CLI_CLIENT_OPTIONS,
     .summary = "what has been posted there and below",
     .key = "request",
     .ask = total_spent},
    {.name = "status",
     .operands = "",
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_CHECK),
     .summary = "accounts, alarms, warnings",
     .details = "A bar shows what is posted (#), reserved (+) and left (.).",
     .key = "request",
     .ask = ask_status},
    {.name = "list",
     .operands = "",
     .optional = CLI_CLIENT_OPTIONS | CLI_BIT(CLI_ACCOUNT),
     .summary = "every authorization",
     .key = "request",
     .ask = list},
};
const cli_group cli_read_group = {"Looking", commands, sizeof commands / sizeof commands[0]};
