/* Writes a row of the ledger as a line of JSON. Called by server/handle_export.c. */
#include "budget/export.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
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
static void append(char text[BUDGET_EXPORT_LINE_BYTES], const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        base_text_append(text, BUDGET_EXPORT_LINE_BYTES, ",\"%s\":\"%s\"", key, value);
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
    append(text, "label", row->label);
    append(text, "account", row->account);
    if (row->kind == BUDGET_KIND_AUTHORIZE || row->kind == BUDGET_KIND_ACTUAL) {
        base_text_append(text, BUDGET_EXPORT_LINE_BYTES, ",\"usd\":\"%s\",\"usd_micro\":%" PRId64,
                         usd, row->kind == BUDGET_KIND_ACTUAL ? row->posted_delta : row->usd_micro);
    }
    if (row->kind == BUDGET_KIND_ACTUAL) {
        if (row->usd_micro != row->posted_delta) { /* of a credit above what was posted */
            base_text_append(text, BUDGET_EXPORT_LINE_BYTES, ",\"uncounted_usd_micro\":%" PRId64,
                             row->usd_micro - row->posted_delta);
        }
        append(text, "line_id", row->text);
    }
    append(text, "state", budget_state_name(row->state));
    if (row->kind == BUDGET_KIND_TERMINATED) {
        append(text, "proof", row->attested ? "attested" : "checked");
    }
    append(text, "evidence_blake2b256", hex);
    base_text_append(text, BUDGET_EXPORT_LINE_BYTES, "}\n");
    return true;
}
