/* SQLite, as the ledger uses it: one connection, exclusively locked, WAL, synchronous=FULL, every
 * statement prepared once. Statements are named by an enum; their texts stand in store.c alone.
 *
 * A failure is either transient (no space, say: roll back and go on) or leaves the store broken: a
 * failed sync, a corrupt file, a rollback that failed. One thread. */
#ifndef BUDGET_STORE_H
#define BUDGET_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

typedef enum store_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_JOURNAL_INSERT,
    SQL_JOURNAL_GET,
    SQL_JOURNAL_LAST,
    SQL_JOURNAL_BOOT,
    SQL_JOURNAL_WALK,
    SQL_JOURNAL_HASH,
    SQL_REQUEST_GET,
    SQL_REQUEST_INSERT,
    SQL_ACCOUNT_BY_NAME,
    SQL_ACCOUNT_BY_ID,
    SQL_ACCOUNT_INSERT,
    SQL_ACCOUNT_COUNT,
    SQL_ACCOUNT_RESERVE,
    SQL_ACCOUNT_UPDATE,
    SQL_ACCOUNT_SET,
    SQL_ACCOUNT_WALK,
    SQL_ACCOUNT_FROZEN_COUNT,
    SQL_TOTAL_SPENT,
    SQL_RESERVATION_INSERT,
    SQL_RESERVATION_UPDATE,
    SQL_RESERVATION_LAST,
    SQL_RESERVATION_BY_LABEL,
    SQL_RESERVATION_BY_JTI,
    SQL_RESERVATION_BY_ID,
    SQL_RESERVATION_WALK,
    SQL_RESERVATION_DUE,
    SQL_RESERVATION_OVERDUE,
    SQL_RESERVATION_OVERDUE_COUNT,
    SQL_RESERVATION_ENDING,
    SQL_RESERVATION_RUNNING,
    SQL_RESERVATION_NEXT_DEADLINE,
    SQL_REDEMPTION_GET,
    SQL_REDEMPTION_INSERT,
    SQL_LINE_GET,
    SQL_LINE_OF_RUN,
    SQL_LINE_OF_INSTANCE,
    SQL_LINE_INSERT,
    SQL_LINE_UPDATE,
    SQL_INSTANCE_GET,
    SQL_INSTANCE_ANY,
    SQL_VENDOR_OTHER,
    SQL_INSTANCE_INSERT,
    SQL_INSTANCE_REPLACE,
    SQL_INSTANCE_COUNT,
    SQL_INSTANCE_FIRST,
    SQL_INSTANCE_OF_RUN,
    SQL_INSTANCE_WALK,
    SQL_EVIDENCE_INSERT,
    SQL_EVIDENCE_GET,
    SQL_CLIENT_INSERT,
    SQL_CLIENT_BY_KEY,
    SQL_CLIENT_BY_NAME,
    SQL_CLIENT_REVOKED,
    SQL_CLIENT_REVOKE,
    SQL_CLIENT_WALK,
    SQL_CLIENT_COUNT,
    SQL_CLIENT_COUNT_ROLE,
    SQL_COUNT_,
} store_sql;

enum { STORE_PARAMETERS_MAX = 20 }; /* of a statement */

/* Where the values of a format go. */
typedef struct store_binding {
    const char *format; /* NULL: not looked up yet */
    int count;
    uint8_t places[STORE_PARAMETERS_MAX];
    char types[STORE_PARAMETERS_MAX];
} store_binding;

typedef struct store_db {
    struct sqlite3 *db;
    struct sqlite3_stmt *statements[SQL_COUNT_];
    store_binding bindings[SQL_COUNT_];
    bool broken;
    bool watched; /* the files' identity is checked after each commit */
    uint64_t database_device;
    uint64_t database_inode;
    char path[BASE_PATH_BYTES];
} store_db;

/* Opens path; create: it must not be there yet, and gets the schema. Statuses of
 * budget_ledger_open. */
BASE_MUST_CHECK base_status store_open(store_db *store, const char *path, const char *vfs,
                                       bool create, base_error *reterr);

/* An empty ledger in a temporary database of its own, in memory until it outgrows the cache, inside
 * a transaction that is never committed. */
BASE_MUST_CHECK base_status store_open_scratch(store_db *store, base_error *reterr);
void store_close(store_db *store);

/* Runs a statement that gives no rows. format names each parameter and its type, "id:i label:t", in
 * the order of the arguments: i int64_t, t const char * (NULL: null), b const void *, size_t (NULL:
 * null). A parameter that is left out, or that the statement does not have, is a broken assertion.
 * Texts and blobs stay the caller's. */
BASE_MUST_CHECK base_status store_run(store_db *store, base_error *reterr, store_sql sql,
                                      const char *format, ...);

/* Runs it and demands that exactly one row was changed: BASE_ERR_STATE else. */
BASE_MUST_CHECK base_status store_run_one(store_db *store, base_error *reterr, store_sql sql,
                                          const char *format, ...);

/* The number in a query's first row and column; 0: there is no row. */
BASE_MUST_CHECK base_status store_number(store_db *store, base_error *reterr, store_sql sql,
                                         int64_t *number, const char *format, ...);

/* Binds, for store_next; a statement gives one walk at a time. */
BASE_MUST_CHECK base_status store_query(store_db *store, base_error *reterr, store_sql sql,
                                        const char *format, ...);

/* Whether there is a next row. False also where *status is a failure, before the call (the
 * statement is only reset then) or by it. After the last row, or store_done, its columns are gone. */
bool store_next(store_db *store, store_sql sql, base_status *status, base_error *reterr);
void store_done(store_db *store, store_sql sql);

int64_t store_int(const store_db *store, store_sql sql, int column);
const char *store_text(const store_db *store, store_sql sql, int column); /* NULL: null */
const void *store_blob(const store_db *store, store_sql sql, int column, size_t *size_bytes);

/* Copies a text column; cut to fit (columns were bounded when they were written). */
void store_copy_text(const store_db *store, store_sql sql, int column, char *text,
                     size_t text_bytes);

/* Copies a blob of exactly size_bytes; zeros when it has another size. */
void store_copy_blob(const store_db *store, store_sql sql, int column, void *data,
                     size_t size_bytes);

/* Commits, checks that the file in the directory is still ours, and moves the log into the database
 * now and then. */
BASE_MUST_CHECK base_status store_commit(store_db *store, base_error *reterr);
void store_rollback(store_db *store);

#endif
