/* The audit's course: the journal row by row, then the tables. Called by the service between two
 * batches, by its start, and by the command `audit` on a copy. */
#include "budget/audit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_core.h"

base_status audit_found(budget_audit *audit, uint64_t sequence, const char *format, ...)
{
    budget_audit_report *report = &audit->report;
    if (report->good) {
        va_list args;
        va_start(args, format);
        const int prefix = sequence != 0 ? snprintf(report->finding, sizeof report->finding,
                                                    "row %" PRIu64 ": ", sequence)
                                         : 0;
        (void)vsnprintf(report->finding + prefix, sizeof report->finding - (size_t)prefix, format,
                        args);
        va_end(args);
        for (char *at = report->finding; *at != '\0'; at++) {
            *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at; /* an edited text's */
        }
        report->good = false;
        report->bad_sequence = sequence;
    }
    return BASE_OK;
}

base_status budget_audit_begin(budget_ledger *ledger, budget_audit **audit, base_error *reterr)
{
    budget_audit *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the audit");
    }
    made->ledger = ledger;
    made->report.good = true;
    const base_status status = audit_scratch_open(&made->scratch, reterr);
    if (status != BASE_OK) {
        budget_audit_end(made);
        return base_error_prepend(reterr, status, "audit");
    }
    *audit = made;
    return BASE_OK;
}

void budget_audit_end(budget_audit *audit)
{
    if (audit == NULL) {
        return;
    }
    audit_tables_close(audit->tables);
    audit_scratch_close(audit->scratch);
    free(audit);
}

const budget_audit_report *budget_audit_get(const budget_audit *audit)
{
    return &audit->report;
}

static base_status walk_row(budget_audit *audit, const journal_row *row, bool readable,
                            base_error *reterr)
{
    uint8_t hash[BUDGET_DIGEST_BYTES];
    if (row->sequence != audit->position + 1) {
        return audit_found(audit, audit->position + 1,
                           "it is missing (the next is row %" PRIu64 ")", row->sequence);
    }
    if (!readable) {
        return audit_found(audit, row->sequence, "it is malformed");
    }
    if (journal_hash(row, audit->head, hash, NULL) != BASE_OK ||
        memcmp(hash, row->hash, sizeof hash) != 0) {
        return audit_found(audit, row->sequence,
                           "its hash does not fit: it, or its place, was changed");
    }
    if (row->at_ms < audit->at_ms || (row->kind == BUDGET_KIND_GENESIS) != (row->sequence == 1)) {
        return audit_found(audit, row->sequence, "its time or kind does not follow the row before");
    }
    const base_status status = audit_replay(audit, row, reterr);
    audit->position = row->sequence;
    audit->at_ms = row->at_ms;
    memcpy(audit->head, row->hash, sizeof audit->head);
    audit->report.rows++;
    return status;
}

/* Up to max rows; *walked tells how many there were. */
static base_status walk_journal(budget_audit *audit, int64_t max, int64_t *walked,
                                base_error *reterr)
{
    bool more = true;
    store_db *store = &audit->ledger->store;
    base_status status =
        store_query(store, reterr, SQL_AUDIT_WALK, "ii", (int64_t)audit->position, max);
    *walked = 0;
    while (status == BASE_OK && more && audit->report.good) {
        status = store_next(store, SQL_AUDIT_WALK, &more, reterr);
        if (status == BASE_OK && more) {
            journal_row row;
            const bool readable = journal_read(store, SQL_AUDIT_WALK, &row);
            status = walk_row(audit, &row, readable, reterr);
            *walked += 1;
        }
    }
    store_done(store, SQL_AUDIT_WALK);
    return status;
}

/* The head that the ledger goes on from must be the newest row's. */
static base_status check_end(budget_audit *audit)
{
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    budget_ledger_head(audit->ledger, &sequence, head);
    return sequence == audit->position && memcmp(head, audit->head, sizeof head) == 0
               ? BASE_OK
               : audit_found(audit, audit->position + 1, "it is missing: the journal has been cut");
}

static base_status compare(budget_audit *audit, int64_t rows_max, base_error *reterr)
{
    base_status status = check_end(audit);
    if (audit->report.good && audit->tables == NULL) {
        status = audit_tables_open(audit, reterr);
    }
    return status == BASE_OK && audit->report.good
               ? audit_tables_step(audit, rows_max, &audit->done, reterr)
               : status;
}

base_status budget_audit_step(budget_audit *audit, int64_t rows_max, bool *done, base_error *reterr)
{
    int64_t walked = 0;
    base_status status = BASE_OK;
    if (!audit->done && audit->report.good) {
        status = walk_journal(audit, rows_max, &walked, reterr);
        if (status == BASE_OK && audit->report.good && walked < rows_max) {
            status = compare(audit, rows_max, reterr); /* at the newest row */
        }
    }
    *done = audit->done || !audit->report.good;
    return status;
}
