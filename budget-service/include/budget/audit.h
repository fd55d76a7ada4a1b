/* The audit: makes the whole journal again and compares everything that follows from it.
 *
 * Every row's number is the next one, and its hash goes over the row before. Then the operation
 * that the row records is done again, in a temporary ledger that begins empty: the same code must
 * decide the same and come to the same row. At the newest row every column of every table, and the
 * schema, is compared with that temporary ledger's. It goes in slices, between batches, on the
 * ledger's own connection: rows that come meanwhile are walked too.
 *
 * The audit goes on after a finding, to the end. The first findings are kept as text. All are
 * counted, and all go into one digest: an admin accepts that digest, so an edit that comes later is
 * not accepted with the earlier ones. A number that is wrong goes into it as the difference to what
 * the journal makes, which honest operations do not change. */
#ifndef BUDGET_AUDIT_H
#define BUDGET_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/audit_report.h"
#include "budget/ledger.h"

typedef struct budget_audit budget_audit;

/* Begins at the first row. The ledger must outlive it. BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status budget_audit_begin(budget_ledger *ledger, budget_audit **audit,
                                               base_error *reterr);

/* About rows_max rows (of the journal, or of a table), outside a batch; 1000 take a few
 * milliseconds. *done: the report is final. A finding is no error; BASE_ERR_MEMORY, BASE_ERR_IO. */
BASE_MUST_CHECK base_status budget_audit_step(budget_audit *audit, int64_t rows_max, bool *done,
                                              base_error *reterr);
const budget_audit_report *budget_audit_get(const budget_audit *audit);

/* NULL is fine; may be called before it is done. */
void budget_audit_end(budget_audit *audit);

#endif
