/* What the audit's files share. Private to audit/.
 *
 * An audit has a scratch ledger of its own, in a private temporary database. Each row of the
 * journal is made there again, by the operation that made it the first time; the row must come out
 * with the same hash. Then every table of the real ledger must hold what the scratch's holds. */
#ifndef BUDGET_AUDIT_CORE_H
#define BUDGET_AUDIT_CORE_H

#include <sodium.h>

#include "budget/audit.h"
#include "ledger/ledger_core.h"

typedef struct audit_tables audit_tables;

struct budget_audit {
    budget_ledger *ledger;
    budget_ledger *scratch;
    budget_audit_report report;
    crypto_generichash_state digest; /* of all findings */
    uint64_t position;               /* the last row made again */
    uint8_t head[BUDGET_DIGEST_BYTES];
    int64_t at_ms;
    audit_tables *tables; /* NULL until the newest row has been reached */
    bool cut;             /* rows at the journal's end are missing, and that was noted */
    bool done;
};

/* Notes a finding; sequence 0: none. The caller puts what identifies it into the digest. */
void audit_found(budget_audit *audit, uint64_t sequence, const char *format, ...) BASE_PRINTF(3, 4);

/* Puts into the digest: a text; the value of a column, with its type; a whole row. */
void audit_digest_text(budget_audit *audit, const char *text);
void audit_digest_value(budget_audit *audit, struct sqlite3_stmt *row, int column);
void audit_digest_row(budget_audit *audit, struct sqlite3_stmt *row);

/* An empty scratch ledger. BASE_ERR_MEMORY, BASE_ERR_IO. */
BASE_MUST_CHECK base_status audit_scratch_open(budget_ledger **scratch, base_error *reterr);
void audit_scratch_close(budget_ledger *scratch); /* NULL is fine */

/* Makes row again in the scratch. That it comes out otherwise is a finding; the scratch goes on
 * from the row as it stands. BASE_ERR_MEMORY, BASE_ERR_IO. */
BASE_MUST_CHECK base_status audit_replay(budget_audit *audit, const journal_row *row,
                                         base_error *reterr);

/* The tables that are compared: the schema first, then all but the journal. */
BASE_MUST_CHECK base_status audit_tables_open(budget_audit *audit, base_error *reterr);
void audit_tables_close(audit_tables *tables); /* NULL is fine */

/* Compares the next rows_max rows of the table that is due. *done: there is nothing left. */
BASE_MUST_CHECK base_status audit_tables_step(budget_audit *audit, int64_t rows_max, bool *done,
                                              base_error *reterr);

#endif
