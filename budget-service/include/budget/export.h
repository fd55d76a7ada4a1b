/* The ledger's rows as `export --format jsonl` has them. Pure. */
#ifndef BUDGET_EXPORT_H
#define BUDGET_EXPORT_H

#include <stdbool.h>

#include "budget/ledger.h"

enum { BUDGET_EXPORT_LINE_BYTES = 2048 }; /* the longest of one row, with newline and NUL */

/* One line, with its newline: {"at", "event", "seq", "label", "account", …}. False: the row is none
 * that an export has (those are authorizations, actuals, terminations, voids, and deadlines that
 * passed). */
bool budget_export_jsonl(const budget_row *row, char text[BUDGET_EXPORT_LINE_BYTES]);

#endif
