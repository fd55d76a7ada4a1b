/* Formats the ledger for `budget-service export`: JSON lines, hledger journal, Markdown page.
 * Called by report.c. */
#include "export_text.h"
#include <inttypes.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/money.h"
#include "cli.h"

bool export_format_parse(const char *name, export_format *format)
{
    static const char *const names[] = {
        [EXPORT_JSONL] = "jsonl", [EXPORT_HLEDGER] = "hledger", [EXPORT_MARKDOWN] = "markdown"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            *format = (export_format)i;
            return true;
        }
    }
    return false;
}

static void put_line(void *user, const char *line)
{
    (void)fprintf(user, "%s\n", line);
}

/* "phase35/lab02" as hledger has it, "phase35:lab02": it splits accounts at colons. */
static void with_colons(const char *account, char text[BUDGET_ACCOUNT_BYTES])
{
    (void)snprintf(text, BUDGET_ACCOUNT_BYTES, "%s", account);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '/' ? ':' : (*at == ':' ? '_' : *at);
    }
}

static void put_transaction(void *user, const budget_entry *entry)
{
    FILE *out = user;
    char account[BUDGET_ACCOUNT_BYTES];
    char amount[BUDGET_MONEY_BYTES];
    const int64_t at = entry->terminated_at != 0 ? entry->terminated_at : entry->authorized_at;
    if (!entry->actual_known) {
        return; /* unknown is no expense of zero */
    }
    with_colons(entry->account, account);
    budget_money_format(entry->actual_usd_micro, amount);
    (void)fprintf(out, "%.10s %s  ; jti:%s, state:%s", cli_time(at), entry->label, entry->jti,
                  entry->state);
    (void)fprintf(out, "%s%s\n    expenses:cloud:%s  %s USD\n    liabilities:%s\n\n",
                  entry->evidence[0] != '\0' ? ", evidence:" : "", entry->evidence, account, amount,
                  entry->vendor);
}

static void put_account_row(void *user, const budget_account *account)
{
    (void)fprintf(user, "| %s | %s | %s | %s | %s | %" PRId64 " %%%s |\n", account->name,
                  cli_usd(account->cap_usd_micro), cli_usd(account->posted_usd_micro),
                  cli_usd(account->reserved_usd_micro), cli_usd(account->remaining_usd_micro),
                  cli_percent(account), account->frozen ? ", frozen" : "");
}

typedef struct run_rows {
    FILE *out;
    int64_t authorized;
    int64_t actual;
    long runs;
} run_rows;

/* An instance type is any printable ASCII of whoever asked for the run. Names, labels and states have
 * no characters that mean something in Markdown. */
enum { ESCAPED_BYTES = sizeof "&#124;" - 1, CELL_BYTES = BUDGET_NAME_BYTES * ESCAPED_BYTES };

/* Whether Markdown and HTML take the character as it is. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(" ._-+", c) != NULL);
}

/* The text in a cell of a table: it makes no column, no link and no HTML. Returns `cell`. */
static const char *to_cell(const char *text, char cell[CELL_BYTES])
{
    size_t used = 0;
    for (; *text != '\0' && used + ESCAPED_BYTES < CELL_BYTES; text++) {
        used += (size_t)snprintf(cell + used, CELL_BYTES - used, is_plain(*text) ? "%c" : "&#%d;",
                                 (unsigned char)*text);
    }
    cell[used] = '\0';
    return cell;
}

static void put_run_row(void *user, const budget_entry *entry)
{
    run_rows *rows = user;
    char evidence[24] = "-";
    char type[CELL_BYTES];
    if (entry->evidence[0] != '\0') {
        (void)snprintf(evidence, sizeof evidence, "`%.12s`%s", entry->evidence,
                       entry->attested ? " attested" : "");
    }
    (void)fprintf(
        rows->out, "| %.10s | %s | %s | %s | %s | %s | %s | %s |\n", cli_time(entry->authorized_at),
        entry->label, entry->account,
        entry->instance_type[0] != '\0' ? to_cell(entry->instance_type, type) : entry->vendor,
        cli_usd(entry->authorized_usd_micro),
        entry->actual_known ? cli_usd(entry->actual_usd_micro) : "unknown", entry->state, evidence);
    rows->authorized += entry->authorized_usd_micro;
    rows->actual += entry->actual_known ? entry->actual_usd_micro : 0;
    rows->runs++;
}

static budget_verdict put_page(budget_client *client, FILE *out, base_error *why)
{
    run_rows rows = {.out = out};
    (void)fputs("# Cloud budget\n\n"
                "Made by `budget-service export --format markdown`; do not edit.\n\n"
                "| account | cap | posted | reserved | remaining | used |\n"
                "|---|---|---|---|---|---|\n",
                out);
    const budget_verdict verdict = budget_account_list(client, put_account_row, out, why);
    if (verdict != BUDGET_GRANTED) {
        return verdict;
    }
    (void)fputs("\n## Runs\n\n"
                "| date | label | account | on | estimated | actual | state | evidence |\n"
                "|---|---|---|---|---|---|---|---|\n",
                out);
    const budget_verdict listed = budget_list(client, NULL, put_run_row, &rows, why);
    (void)fprintf(out, "\n%ld run%s, %s estimated, %s known actuals.\n", rows.runs,
                  rows.runs == 1 ? "" : "s", cli_usd(rows.authorized), cli_usd(rows.actual));
    return listed;
}

budget_verdict export_text(budget_client *client, export_format format, char **text,
                           base_error *why)
{
    size_t text_bytes = 0;
    budget_verdict verdict = BUDGET_FAILED;
    *text = NULL;
    FILE *out = open_memstream(text, &text_bytes);
    if (out == NULL) {
        (void)base_fail(why, BASE_ERR_MEMORY, "no memory for an export");
        return BUDGET_FAILED;
    }
    switch (format) {
    case EXPORT_JSONL:
        verdict = budget_export(client, put_line, out, why);
        break;
    case EXPORT_HLEDGER:
        verdict = budget_list(client, NULL, put_transaction, out, why);
        break;
    case EXPORT_MARKDOWN:
        verdict = put_page(client, out, why);
        break;
    }
    if (fclose(out) != 0 && verdict == BUDGET_GRANTED) {
        (void)base_fail(why, BASE_ERR_MEMORY, "no memory for an export");
        verdict = BUDGET_FAILED;
    }
    if (verdict != BUDGET_GRANTED) {
        free(*text);
        *text = NULL;
    }
    return verdict;
}
