/* The audit's course: the journal row by row, then the tables. Called by the service between two
 * batches, by its start, and by the command `audit` on a copy. */
#include "budget/audit.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_core.h"
#include "base/assert.h"

void audit_found(budget_audit *audit, uint64_t sequence, const char *format, ...)
{
    budget_audit_report *report = &audit->report;
    if (report->finding_count == 0) {
        report->good = false;
        report->bad_sequence = sequence;
    }
    if (report->finding_count < BUDGET_AUDIT_FINDINGS_KEPT) {
        char *text = report->findings[report->finding_count];
        va_list args;
        va_start(args, format);
        const int prefix = sequence != 0 ? snprintf(text, BUDGET_AUDIT_FINDING_BYTES,
                                                    "row %" PRIu64 ": ", sequence)
                                         : 0;
        (void)vsnprintf(text + prefix, BUDGET_AUDIT_FINDING_BYTES - (size_t)prefix, format, args);
        va_end(args);
        for (char *at = text; *at != '\0'; at++) {
            *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at; /* an edited text's */
        }
    }
    report->finding_count++;
}

void audit_digest_text(budget_audit *audit, const char *text)
{
    (void)crypto_generichash_update(&audit->digest, (const uint8_t *)text, strlen(text) + 1);
}

void audit_digest_value(budget_audit *audit, sqlite3_stmt *row, int column)
{
    char head[64];
    const int type = sqlite3_column_type(row, column);
    if (type == SQLITE_INTEGER) {
        (void)snprintf(head, sizeof head, "%d %" PRId64, type,
                       (int64_t)sqlite3_column_int64(row, column));
        audit_digest_text(audit, head);
        return;
    }
    const void *bytes = sqlite3_column_blob(row, column);
    const int count = sqlite3_column_bytes(row, column);
    (void)snprintf(head, sizeof head, "%d, %d bytes", type, count);
    audit_digest_text(audit, head);
    (void)crypto_generichash_update(&audit->digest, bytes, (size_t)count);
}

void audit_digest_row(budget_audit *audit, sqlite3_stmt *row)
{
    for (int i = 0; i < sqlite3_column_count(row); i++) {
        audit_digest_value(audit, row, i);
    }
}

base_status budget_audit_begin(budget_ledger *ledger, budget_audit **audit, base_error *reterr)
{
    budget_audit *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the audit");
    }
    made->ledger = ledger;
    made->report.good = true;
    (void)crypto_generichash_init(&made->digest, NULL, 0, (BUDGET_AUDIT_DIGEST_BYTES - 1) / 2);
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

/* What is wrong with the row itself. */
static void check_row(budget_audit *audit, const journal_row *row, bool readable)
{
    uint8_t hash[BUDGET_DIGEST_BYTES];
    if (row->sequence != audit->position + 1) {
        audit_found(audit, audit->position + 1, "it is missing (the next is row %" PRIu64 ")",
                    row->sequence);
    }
    if (!readable) {
        audit_found(audit, row->sequence, "it is malformed");
        return;
    }
    if (journal_hash(row, audit->head, hash, NULL) != BASE_OK ||
        memcmp(hash, row->hash, sizeof hash) != 0) {
        audit_found(audit, row->sequence, "its hash does not fit: it, or its place, was changed");
    }
    if (row->at_ms < audit->at_ms || (row->kind == BUDGET_KIND_GENESIS) != (row->sequence == 1)) {
        audit_found(audit, row->sequence, "its time or kind does not follow the row before");
    }
}

static base_status walk_row(budget_audit *audit, const journal_row *row, bool readable,
                            base_error *reterr)
{
    const uint64_t found_before = audit->report.finding_count;
    check_row(audit, row, readable);
    const base_status status = readable ? audit_replay(audit, row, reterr) : BASE_OK;
    if (audit->report.finding_count != found_before) {
        audit_digest_row(audit, audit->ledger->store.statements[SQL_JOURNAL_WALK]);
    }
    audit->position = row->sequence;
    audit->at_ms = row->at_ms > audit->at_ms ? row->at_ms : audit->at_ms;
    memcpy(audit->head, row->hash, sizeof audit->head);
    audit->report.rows++;
    return status;
}

/* Up to max rows; *walked says how many there were. */
static base_status walk_journal(budget_audit *audit, int64_t max, int64_t *walked,
                                base_error *reterr)
{
    store_db *store = &audit->ledger->store;
    const int64_t after = audit->report.rows == 0 ? INT64_MIN : (int64_t)audit->position;
    base_status status = store_query(store, reterr, SQL_JOURNAL_WALK, "after:i max:i", after, max);
    *walked = 0;
    while (store_next(store, SQL_JOURNAL_WALK, &status, reterr)) {
        journal_row row;
        const bool readable = journal_read(store, SQL_JOURNAL_WALK, &row);
        status = walk_row(audit, &row, readable, reterr);
        *walked += 1;
    }
    store_done(store, SQL_JOURNAL_WALK);
    return status;
}

/* The head that the ledger goes on from must be the newest row's. */
static void check_end(budget_audit *audit)
{
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    budget_ledger_head(audit->ledger, &sequence, head);
    if (!audit->cut &&
        (sequence != audit->position || memcmp(head, audit->head, sizeof head) != 0)) {
        audit->cut = true;
        audit_found(audit, audit->position + 1, "it is missing: the journal has been cut");
        audit_digest_text(audit, "cut");
    }
}

static void finish(budget_audit *audit)
{
    uint8_t digest[(BUDGET_AUDIT_DIGEST_BYTES - 1) / 2];
    budget_audit_report *report = &audit->report;
    BASE_ASSERT(report->good == (report->finding_count == 0));
    (void)crypto_generichash_final(&audit->digest, digest, sizeof digest);
    if (!report->good) {
        (void)sodium_bin2hex(report->digest, sizeof report->digest, digest, sizeof digest);
    }
}

static base_status compare(budget_audit *audit, int64_t rows_max, base_error *reterr)
{
    check_end(audit);
    base_status status = BASE_OK;
    if (audit->tables == NULL) {
        status = audit_tables_open(audit, reterr);
    }
    if (status == BASE_OK) {
        status = audit_tables_step(audit, rows_max, &audit->done, reterr);
    }
    if (status == BASE_OK && audit->done) {
        finish(audit);
    }
    return status;
}

base_status budget_audit_step(budget_audit *audit, int64_t rows_max, bool *done, base_error *reterr)
{
    int64_t walked = 0;
    base_status status = BASE_OK;
    if (!audit->done) {
        status = walk_journal(audit, rows_max, &walked, reterr);
        if (status == BASE_OK && walked < rows_max) {
            status = compare(audit, rows_max, reterr); /* at the newest row */
        }
    }
    *done = audit->done;
    return status;
}
