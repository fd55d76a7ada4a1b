/* Writes rows of the ledger as JSON lines, as an hledger journal and as a Markdown page. The
 * service calls it to append to spend.jsonl (server/spend.c). */
#include "budget/export.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/money.h"
#include "budget/time.h"

enum { PAGE = 64 };

static const char *event_name(budget_kind kind)
{
    switch (kind) {
    case BUDGET_KIND_AUTHORIZE:
        return "authorized";
    case BUDGET_KIND_ACTUAL:
        return "actual";
    case BUDGET_KIND_TERMINATED:
        return "terminated";
    case BUDGET_KIND_VOID:
        return "voided";
    case BUDGET_KIND_EXPIRE:
        return "deadline-passed";
    case BUDGET_KIND_FINAL:
        return "final";
    default:
        return NULL;
    }
}

static void hex_of(const uint8_t *digest, char hex[2 * BUDGET_DIGEST_BYTES + 1])
{
    hex[0] = '\0';
    if (digest != NULL) {
        (void)sodium_bin2hex(hex, 2 * BUDGET_DIGEST_BYTES + 1, digest, BUDGET_DIGEST_BYTES);
    }
}

/* Texts of the ledger hold no quotes, backslashes or control characters (text_check), so they stand
 * in JSON as they are. */
static void append(char *text, size_t text_bytes, const char *key, const char *value)
{
    const size_t used = strlen(text);
    if (value != NULL && value[0] != '\0') {
        (void)snprintf(text + used, text_bytes - used, ",\"%s\":\"%s\"", key, value);
    }
}

bool budget_export_jsonl(const budget_row *row, char text[BUDGET_EXPORT_LINE_BYTES])
{
    char at[BUDGET_TIME_BYTES];
    char usd[BUDGET_MONEY_BYTES];
    char hex[2 * BUDGET_DIGEST_BYTES + 1];
    const char *event = event_name(row->kind);
    if (event == NULL) {
        return false;
    }
    budget_time_format(row->at_ms / 1000, at);
    budget_money_format(row->kind == BUDGET_KIND_ACTUAL ? row->posted_delta : row->usd_micro, usd);
    hex_of(row->evidence_blake2b256, hex);
    (void)snprintf(text, BUDGET_EXPORT_LINE_BYTES,
                   "{\"seq\":%" PRIu64 ",\"at\":\"%s\",\"event\":\"%s\"", row->sequence, at, event);
    append(text, BUDGET_EXPORT_LINE_BYTES, "label", row->label);
    append(text, BUDGET_EXPORT_LINE_BYTES, "account", row->account);
    if (row->kind == BUDGET_KIND_AUTHORIZE || row->kind == BUDGET_KIND_ACTUAL) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, BUDGET_EXPORT_LINE_BYTES - used,
                       ",\"usd\":\"%s\",\"usd_micro\":%" PRId64, usd,
                       row->kind == BUDGET_KIND_ACTUAL ? row->posted_delta : row->usd_micro);
    }
    if (row->kind == BUDGET_KIND_ACTUAL) {
        const size_t used = strlen(text);
        if (row->usd_micro != row->posted_delta) { /* of a credit above what was posted */
            (void)snprintf(text + used, BUDGET_EXPORT_LINE_BYTES - used,
                           ",\"uncounted_usd_micro\":%" PRId64, row->usd_micro - row->posted_delta);
        }
        append(text, BUDGET_EXPORT_LINE_BYTES, "line_id", row->text);
    }
    append(text, BUDGET_EXPORT_LINE_BYTES, "state", budget_state_name(row->state));
    if (row->kind == BUDGET_KIND_TERMINATED) {
        append(text, BUDGET_EXPORT_LINE_BYTES, "proof", row->attested ? "attested" : "checked");
    }
    append(text, BUDGET_EXPORT_LINE_BYTES, "evidence_blake2b256", hex);
    const size_t used = strlen(text);
    (void)snprintf(text + used, BUDGET_EXPORT_LINE_BYTES - used, "}\n");
    return true;
}

/* hledger splits accounts at colons. */
static void account_path(const char *account, char *path, size_t path_bytes)
{
    (void)snprintf(path, path_bytes, "%s", account != NULL ? account : "unknown");
    for (char *at = path; *at != '\0'; at++) {
        if (*at == '/') {
            *at = ':';
        } else if (*at == ':') {
            *at = '_';
        }
    }
}

bool budget_export_hledger(const budget_row *row, char text[BUDGET_EXPORT_LINE_BYTES])
{
    char at[BUDGET_TIME_BYTES];
    char usd[BUDGET_MONEY_BYTES];
    char path[BUDGET_ACCOUNT_BYTES];
    if (row->kind != BUDGET_KIND_ACTUAL) {
        return false;
    }
    budget_time_format(row->at_ms / 1000, at);
    budget_money_format(row->posted_delta, usd);
    account_path(row->account, path, sizeof path);
    (void)snprintf(text, BUDGET_EXPORT_LINE_BYTES,
                   "%.10s %s%s%s  ; seq: %" PRIu64 "\n"
                   "    expenses:cloud:%s  %s USD\n"
                   "    liabilities:cloud\n\n",
                   at, row->label != NULL ? row->label : "", row->text != NULL ? " | " : "",
                   row->text != NULL ? row->text : "", row->sequence, path, usd);
    return true;
}

/* ---- the page ---- */

typedef struct budget_page {
    budget_ledger *ledger;
    base_status (*put)(void *context, const char *text, base_error *reterr);
    void *context;
    base_error *reterr;
    base_status status;
} budget_page;

static void put_line(budget_page *page, const char *text)
{
    if (page->status == BASE_OK) {
        page->status = page->put(page->context, text, page->reterr);
    }
}

static bool put_account(void *context, const budget_account *account)
{
    char line[512];
    char cap[BUDGET_MONEY_BYTES];
    char posted[BUDGET_MONEY_BYTES];
    char reserved[BUDGET_MONEY_BYTES];
    char left[BUDGET_MONEY_BYTES];
    budget_page *page = context;
    budget_money_format(account->cap_usd_micro, cap);
    budget_money_format(account->posted_usd_micro, posted);
    budget_money_format(account->reserved_usd_micro, reserved);
    budget_money_format(
        account->cap_usd_micro - account->posted_usd_micro - account->reserved_usd_micro, left);
    (void)snprintf(line, sizeof line, "| %s | %s | %s | %s | %s%s |\n", account->name, cap, posted,
                   reserved, left, account->frozen ? " (frozen)" : "");
    put_line(page, line);
    return page->status == BASE_OK;
}

static void put_run(budget_page *page, const budget_reservation *run)
{
    char line[1024];
    char at[BUDGET_TIME_BYTES];
    char estimated[BUDGET_MONEY_BYTES];
    char actual[BUDGET_MONEY_BYTES] = "unknown";
    char evidence[2 * BUDGET_DIGEST_BYTES + 1];
    budget_time_format(run->authorized_ms / 1000, at);
    budget_money_format(run->amount_usd_micro, estimated);
    if (run->actual_known || run->posted_usd_micro != 0) {
        budget_money_format(run->posted_usd_micro, actual);
    } else if (run->state == BUDGET_STATE_VOIDED) {
        (void)snprintf(actual, sizeof actual, "none");
    }
    hex_of(run->evidence ? run->evidence_blake2b256 : NULL, evidence);
    (void)snprintf(line, sizeof line, "| %s | %.10s | %s | %s | %s | %s | %s | %s%s%s%s |\n",
                   run->label, at, run->account, run->vendor, estimated, actual,
                   budget_state_name(run->state), run->evidence ? "`" : "none", evidence,
                   run->evidence ? "`" : "", run->attested ? " (attested)" : "");
    put_line(page, line);
}

static base_status put_runs(budget_page *page)
{
    int64_t after_id = 0;
    size_t count = PAGE;
    budget_reservation *runs = malloc(PAGE * sizeof *runs);
    if (runs == NULL) {
        return base_fail(page->reterr, BASE_ERR_MEMORY, "no memory for the page");
    }
    while (page->status == BASE_OK && count == PAGE) {
        page->status = budget_ledger_list(page->ledger, after_id, PAGE, runs, &count, page->reterr);
        for (size_t i = 0; page->status == BASE_OK && i < count; i++) {
            put_run(page, &runs[i]);
            after_id = runs[i].id;
        }
    }
    free(runs);
    return page->status;
}

base_status budget_export_markdown(budget_ledger *ledger,
                                   base_status (*put)(void *context, const char *text,
                                                      base_error *reterr),
                                   void *context, base_error *reterr)
{
    char line[256];
    char spent[BUDGET_MONEY_BYTES];
    int64_t total = 0;
    budget_page page = {.ledger = ledger, .put = put, .context = context, .reterr = reterr};
    base_status status = budget_ledger_total_spent(ledger, NULL, &total, reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_money_format(total, spent);
    (void)snprintf(line, sizeof line, "# Cloud budget\n\nSpent in all: %s USD.\n\n", spent);
    put_line(&page, line);
    put_line(&page, "| account | cap | posted | reserved | remaining |\n"
                    "|---|---:|---:|---:|---:|\n");
    if (page.status == BASE_OK) {
        status = budget_ledger_accounts(ledger, put_account, &page, reterr);
        page.status = page.status == BASE_OK ? status : page.status;
    }
    put_line(&page, "\n| run | day | account | vendor | estimated | actual | state | evidence |\n"
                    "|---|---|---|---|---:|---:|---|---|\n");
    return page.status == BASE_OK ? put_runs(&page) : page.status;
}
