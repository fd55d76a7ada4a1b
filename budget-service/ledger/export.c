/* Writes a row of the ledger as a line of JSON. Called by server/handle_export.c. */
#include "budget/export.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "budget/money.h"
#include "budget/time.h"

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
    case BUDGET_KIND_REFUTED:
        return "refuted";
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
