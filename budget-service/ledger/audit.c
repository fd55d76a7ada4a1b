#include "budget/audit.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_core.h"
#include "base/bytes.h"

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
        report->good = false;
        report->bad_sequence = sequence;
    }
    return BASE_OK;
}

base_status budget_audit_begin(budget_ledger *ledger, budget_audit **audit, base_error *reterr)
{
    budget_audit *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->ledger = ledger;
        made->report.good = true;
        made->accounts = calloc(BUDGET_ACCOUNTS_MAX, sizeof *made->accounts);
        made->clients = calloc(BUDGET_CLIENTS_MAX, sizeof *made->clients);
    }
    if (made == NULL || made->accounts == NULL || made->clients == NULL) {
        budget_audit_end(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the audit");
    }
    *audit = made;
    return BASE_OK;
}

void budget_audit_end(budget_audit *audit)
{
    if (audit == NULL) {
        return;
    }
    for (int i = 0; i < AUDIT_TABLES_; i++) {
        free(audit->bits[i]);
    }
    free(audit->reservations);
    free(audit->clients);
    free(audit->accounts);
    free(audit);
}

const budget_audit_report *budget_audit_get(const budget_audit *audit)
{
    return &audit->report;
}

/* ---- bits: which rows of the journal must have a row in a table ---- */

static base_status set_bit(budget_audit *audit, audit_table table, uint64_t sequence,
                           base_error *reterr)
{
    const size_t byte = (size_t)(sequence / 8);
    if (byte >= audit->bits_bytes) {
        const size_t larger_bytes = 2 * byte + 4096;
        for (int i = 0; i < AUDIT_TABLES_; i++) {
            uint8_t *larger = realloc(audit->bits[i], larger_bytes);
            if (larger == NULL) {
                return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the audit");
            }
            memset(larger + audit->bits_bytes, 0, larger_bytes - audit->bits_bytes);
            audit->bits[i] = larger;
        }
        audit->bits_bytes = larger_bytes;
    }
    audit->bits[table][byte] |= (uint8_t)(1U << (sequence % 8));
    return BASE_OK;
}

/* ---- what the tables must hold for one row ---- */

/* The columns beside the key and the row's number. */
static bool holds(const store_db *store, audit_table table, const journal_row *row)
{
    uint8_t body[BUDGET_DIGEST_BYTES];
    base_reader reader = base_reader_make(row->data, row->data_bytes);
    switch (table) {
    case AUDIT_REQUESTS:
        store_copy_blob(store, SQL_REQUEST_GET, 0, body, sizeof body);
        return row->body != NULL && memcmp(body, row->body, sizeof body) == 0;
    case AUDIT_LINES:
        return store_int(store, SQL_LINE_GET, 0) == row->reservation &&
               store_int(store, SQL_LINE_GET, 1) == (int64_t)base_read_u64(&reader);
    case AUDIT_INSTANCES:
        return store_int(store, SQL_INSTANCE_GET, 0) == row->reservation;
    case AUDIT_REDEMPTIONS: /* all of it is the key */
    case AUDIT_TABLES_:
        break;
    }
    return true;
}

static base_status expect(budget_audit *audit, store_sql sql, int column, const journal_row *row,
                          audit_table table, base_error *reterr)
{
    bool there = false;
    store_db *store = &audit->ledger->store;
    static const char *const names[] = {"request", "redemption", "line", "instance"};
    const base_status status = store_next(store, sql, &there, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const bool good = there && store_int(store, sql, column) == (int64_t)row->sequence &&
                      holds(store, table, row);
    store_done(store, sql);
    if (!good) {
        return audit_found(audit, row->sequence, "the table \"%s\" does not hold what it says",
                           names[table]);
    }
    return set_bit(audit, table, row->sequence, reterr);
}

static base_status expect_evidence(budget_audit *audit, const journal_row *row,
                                   const uint8_t *digest, base_error *reterr)
{
    bool there = false;
    uint8_t found[BUDGET_DIGEST_BYTES] = {0};
    size_t size_bytes = 0;
    store_db *store = &audit->ledger->store;
    base_status status =
        store_query(store, reterr, SQL_EVIDENCE_GET, "b", digest, (size_t)BUDGET_DIGEST_BYTES);
    status = status == BASE_OK ? store_next(store, SQL_EVIDENCE_GET, &there, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    if (there) {
        const void *bytes = store_blob(store, SQL_EVIDENCE_GET, 0, &size_bytes);
        (void)crypto_generichash(found, sizeof found, bytes, size_bytes, NULL, 0);
        store_done(store, SQL_EVIDENCE_GET);
    }
    return memcmp(found, digest, sizeof found) == 0
               ? BASE_OK
               : audit_found(audit, row->sequence, "its evidence is missing or changed");
}

static base_status expect_by_kind(budget_audit *audit, const journal_row *row, base_error *reterr)
{
    store_db *store = &audit->ledger->store;
    base_status status = BASE_OK;
    const uint8_t *data = row->data;
    if (row->kind == BUDGET_KIND_REDEEM && row->data_bytes >= 24) {
        base_reader reader = base_reader_make(data + 8, 16);
        const int64_t rank = (int64_t)base_read_u64(&reader);
        const int64_t attempt = (int64_t)base_read_u64(&reader);
        status =
            store_query(store, reterr, SQL_REDEMPTION_GET, "iii", row->reservation, attempt, rank);
        status = status == BASE_OK
                     ? expect(audit, SQL_REDEMPTION_GET, 0, row, AUDIT_REDEMPTIONS, reterr)
                     : status;
    } else if (row->kind == BUDGET_KIND_ATTACH) {
        status = store_query(store, reterr, SQL_INSTANCE_GET, "t", row->text);
        status = status == BASE_OK
                     ? expect(audit, SQL_INSTANCE_GET, 1, row, AUDIT_INSTANCES, reterr)
                     : status;
    } else if (row->kind == BUDGET_KIND_ACTUAL && row->text != NULL) {
        status = store_query(store, reterr, SQL_LINE_GET, "t", row->text);
        status =
            status == BASE_OK ? expect(audit, SQL_LINE_GET, 2, row, AUDIT_LINES, reterr) : status;
    }
    if (status == BASE_OK && row->kind == BUDGET_KIND_ACTUAL && row->data_bytes == 40) {
        status = expect_evidence(audit, row, data + 8, reterr);
    }
    if (status == BASE_OK && row->kind == BUDGET_KIND_TERMINATED && row->data_bytes == 33) {
        status = expect_evidence(audit, row, data + 1, reterr);
    }
    return status;
}

static base_status expect_tables(budget_audit *audit, const journal_row *row, base_error *reterr)
{
    store_db *store = &audit->ledger->store;
    base_status status = expect_by_kind(audit, row, reterr);
    if (status == BASE_OK && row->request != NULL) {
        status = store_query(store, reterr, SQL_REQUEST_GET, "it", row->client, row->request);
        status = status == BASE_OK ? expect(audit, SQL_REQUEST_GET, 1, row, AUDIT_REQUESTS, reterr)
                                   : status;
    }
    return status;
}

/* ---- the journal ---- */

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
    base_status status = audit_apply(audit, row, reterr);
    if (status == BASE_OK && audit->report.good) {
        status = expect_tables(audit, row, reterr);
    }
    audit->position = row->sequence;
    audit->at_ms = row->at_ms;
    audit->offset_ms = row->offset_ms;
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

base_status budget_audit_step(budget_audit *audit, int64_t rows_max, bool *done, base_error *reterr)
{
    int64_t walked = 0;
    base_status status = BASE_OK;
    if (audit->phase != AUDIT_PHASE_END) {
        status = walk_journal(audit, rows_max, &walked, reterr);
    }
    if (status == BASE_OK && audit->report.good && walked < rows_max) {
        /* At the newest row: the tables can be compared. */
        switch (audit->phase) {
        case AUDIT_PHASE_JOURNAL:
            audit->phase = AUDIT_PHASE_RESERVATIONS;
            break;
        case AUDIT_PHASE_RESERVATIONS:
            status = audit_compare_reservations(audit, rows_max, reterr);
            break;
        case AUDIT_PHASE_TABLES:
            status = audit->table < AUDIT_TABLES_ ? audit_compare_table(audit, rows_max, reterr)
                                                  : audit_compare_rest(audit, reterr);
            break;
        case AUDIT_PHASE_END:
            break;
        }
    }
    *done = audit->phase == AUDIT_PHASE_END || !audit->report.good;
    return status;
}
