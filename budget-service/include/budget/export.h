/* What others read of the ledger: spend.jsonl, an hledger journal, and the phase's budget page.
 *
 * All of them can be made again from the ledger at any time.
 * Pure but for budget_export_markdown. */
#ifndef BUDGET_EXPORT_H
#define BUDGET_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "budget/ledger.h"

enum { BUDGET_EXPORT_LINE_BYTES = 2048 }; /* the longest of one row, with newlines and the NUL */

/* One line of spend.jsonl, with its newline: {"at", "event", "seq", "label", "account", …}. False:
 * the row is none that spend.jsonl has (those are authorizations, actuals, terminations, voids, and
 * deadlines that passed). */
bool budget_export_jsonl(const budget_row *row, char text[BUDGET_EXPORT_LINE_BYTES]);

/* One transaction of an hledger journal (hledger.org): actuals as expenses, and nothing else.
 * False: the row is none. */
bool budget_export_hledger(const budget_row *row, char text[BUDGET_EXPORT_LINE_BYTES]);

/* The budget page: every account, then every run with estimate, actual, state and evidence. put
 * gets the page in pieces; what it returns other than BASE_OK ends it. */
BASE_MUST_CHECK base_status budget_export_markdown(
    budget_ledger *ledger, base_status (*put)(void *context, const char *text, base_error *reterr),
    void *context, base_error *reterr);

#endif
