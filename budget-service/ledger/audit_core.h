/* The audit's own picture of the ledger, recomputed from the journal alone. Private to ledger/. */
#ifndef BUDGET_AUDIT_CORE_H
#define BUDGET_AUDIT_CORE_H

#include "budget/audit.h"
#include "ledger_core.h"

typedef struct audit_account {
    char name[BUDGET_ACCOUNT_BYTES];
    int64_t parent;
    budget_rule_account rule;
} audit_account;

/* Small, since there may be a million of them. */
typedef struct audit_reservation {
    int64_t amount;
    int64_t posted;
    int64_t billed;
    int64_t deadline_ms;
    uint8_t key[8];      /* the job key's first bytes */
    uint8_t evidence[8]; /* and the evidence's digest's */
    uint32_t account;
    uint32_t started_s; /* wall time, these three */
    uint32_t terminated_s;
    uint32_t actual_s;
    uint16_t attempt;
    uint8_t state;
    uint8_t flags;
} audit_reservation;

typedef struct audit_client {
    char name[BUDGET_NAME_BYTES];
    uint8_t key[BUDGET_CLIENT_KEY_BYTES];
    uint8_t role;
    bool revoked;
} audit_client;

/* Tables whose rows each belong to one row of the journal. A bit stands for a row that has one. */
typedef enum audit_table {
    AUDIT_REQUESTS,
    AUDIT_REDEMPTIONS,
    AUDIT_LINES,
    AUDIT_INSTANCES,
    AUDIT_TABLES_,
} audit_table;

typedef enum audit_phase {
    AUDIT_PHASE_JOURNAL,
    AUDIT_PHASE_RESERVATIONS,
    AUDIT_PHASE_TABLES,
    AUDIT_PHASE_END,
} audit_phase;

struct budget_audit {
    budget_ledger *ledger;
    budget_audit_report report;
    audit_phase phase;
    uint64_t position; /* the last row walked */
    uint8_t head[BUDGET_DIGEST_BYTES];
    int64_t at_ms;
    int64_t offset_ms;
    int64_t account_count;
    audit_account *accounts; /* (BUDGET_ACCOUNTS_MAX), by id - 1 */
    int64_t client_count;
    audit_client *clients; /* (BUDGET_CLIENTS_MAX), by id - 1 */
    int64_t reservation_count;
    int64_t reservation_capacity;
    audit_reservation *reservations; /* by id - 1 */
    size_t bits_bytes;               /* of each of the following */
    uint8_t *bits[AUDIT_TABLES_];
    int64_t compared; /* reservations */
    int table;
    int64_t cursor[3];
    char cursor_text[BUDGET_LINE_BYTES];
    bool begun; /* the table's walk */
};

/* Notes the first finding; sequence 0: none. Returns BASE_OK, so that a check reads
 * `return audit_found(...)`. */
base_status audit_found(budget_audit *audit, uint64_t sequence, const char *format, ...)
    BASE_PRINTF(3, 4);

/* What the row does to the picture, and whether it may. */
BASE_MUST_CHECK base_status audit_apply(budget_audit *audit, const journal_row *row,
                                        base_error *reterr);

/* Does a row of the table "reservation" say what the claims of its authorization do? */
BASE_MUST_CHECK base_status audit_compare_claims(budget_audit *audit,
                                                 const ledger_reservation *found,
                                                 base_error *reterr);

/* The next rows of the reservations, and of the table that is due, beside the picture; rows_max at
 * most. */
BASE_MUST_CHECK base_status audit_compare_reservations(budget_audit *audit, int64_t rows_max,
                                                       base_error *reterr);
BASE_MUST_CHECK base_status audit_compare_table(budget_audit *audit, int64_t rows_max,
                                                base_error *reterr);

/* Accounts and clients, few enough for one slice, and the journal's end. */
BASE_MUST_CHECK base_status audit_compare_rest(budget_audit *audit, base_error *reterr);

/* The picture of a reservation as the rules have it. */
void audit_expand(const audit_reservation *from, budget_rule_reservation *rule);

#endif
