/* One row of the journal, and the chain: each row's hash covers the hash before it and every column
 * of the row, so that an edited, deleted, reordered or inserted row breaks the chain at its
 * place. */
#ifndef BUDGET_JOURNAL_H
#define BUDGET_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/claims.h"
#include "budget/ledger.h"
#include "budget/rules.h"
#include "store.h"

enum {
    JOURNAL_ANSWER_BYTES_MAX = 4 * 8 + BUDGET_ACCOUNT_BYTES + BUDGET_ANSWER_MESSAGE_BYTES + 16,
    JOURNAL_ROW_BYTES_MAX = 16 * 1024, /* encoded, for the hash */
};

/* Texts and blobs are borrowed: from the caller when it is written,
 * from the statement when read. */
typedef struct journal_row {
    uint64_t sequence;
    int64_t at_ms; /* ledger time */
    int64_t offset_ms;
    budget_kind kind;
    budget_reason reason;
    int64_t client;
    const char *request; /* NULL: none */
    const void *body;    /* BUDGET_DIGEST_BYTES, with a request */
    int64_t reservation; /* 0: none */
    int64_t account;     /* 0: none */
    const char *label;   /* NULL: none */
    const char *text;    /* NULL: none */
    int64_t amount;
    int64_t reserved_delta;
    int64_t posted_delta;
    int64_t state;      /* of the reservation, after it; 0: none */
    const void *answer; /* journal_answer_write */
    size_t answer_bytes;
    const void *data; /* by kind; NULL: none */
    size_t data_bytes;
    uint8_t hash[BUDGET_DIGEST_BYTES];
} journal_row;

/* hash = BLAKE2b-256(previous ‖ row). BASE_ERR_LIMIT: a column is longer than we ever write. */
BASE_MUST_CHECK base_status journal_hash(const journal_row *row,
                                         const uint8_t previous[BUDGET_DIGEST_BYTES],
                                         uint8_t hash[BUDGET_DIGEST_BYTES], base_error *reterr);

/* Inserts row; its sequence and hash are set. */
BASE_MUST_CHECK base_status journal_insert(store_db *store, const journal_row *row,
                                           base_error *reterr);

/* The current row of a statement that selects JOURNAL_COLUMNS. False: hash or body has a wrong
 * length (hash is zeros then). */
bool journal_read(const store_db *store, store_sql sql, journal_row *row);

/* What the data of a row of kind TERMINATED begins with; the evidence's digest follows. */
enum journal_end {
    JOURNAL_END_ATTESTED = 1, /* an admin vouches */
    JOURNAL_END_PROVEN = 2,   /* all instances that the token allows are gone */
};

/* What the data of a row of kind ACTUAL holds; the blobs and texts point into the row. */
typedef struct journal_actual {
    int64_t billed;          /* what the bill's line says; 0: no line */
    bool final;              /* a person says that no more will come */
    bool corrects;           /* the line was recorded before, as another amount */
    bool starts;             /* its deadline starts by it */
    bool passes_cap;         /* an account is above its cap by it, and is frozen */
    const uint8_t *evidence; /* BUDGET_DIGEST_BYTES; NULL: none */
    const char *instance;    /* of the line: instance_bytes without a NUL */
    size_t instance_bytes;
} journal_actual;

enum { JOURNAL_ACTUAL_BYTES_MAX = 8 + 1 + BUDGET_DIGEST_BYTES + BUDGET_INSTANCE_BYTES };

/* Returns the bytes written. */
size_t journal_actual_write(const journal_actual *actual, uint8_t data[JOURNAL_ACTUAL_BYTES_MAX]);

/* False: malformed. */
bool journal_actual_read(const journal_row *row, journal_actual *actual);

/* The part of an answer that its other columns do not hold. Returns the bytes written. */
size_t journal_answer_write(const budget_answer *answer, uint8_t data[JOURNAL_ANSWER_BYTES_MAX]);

/* The whole answer from a row; false when the row's answer is malformed. */
bool journal_answer_read(const journal_row *row, budget_answer *answer);

#endif
