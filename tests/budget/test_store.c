/* The plans of all statements: none walks a table that grows, unless it is listed here. What is listed
 * goes on where a page ended, stops at the first row, or walks an index that has few rows. And a store without a
 * write-ahead log. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "store.h"
#include "store_sql.h"
#include "support.h"

enum { QUERY_BYTES = 8192 };

/* Part of a line of a plan that may stand there although it looks for no single key. */
typedef struct allowed_walk {
    store_sql sql;
    const char *part;
} allowed_walk;

static const allowed_walk allowed[] = {
    /* the first row in the order of an index, or of the table's key */
    {SQL_JOURNAL_LAST, "SCAN journal"},
    {SQL_JOURNAL_BOOT, "INDEX journal_boot"},
    {SQL_RESERVATION_LAST, "SEARCH reservation"},
    {SQL_RESERVATION_DUE, "INDEX reservation_due (deadline_ms>? AND deadline_ms<?)"},
    {SQL_RESERVATION_NEXT_DEADLINE, "INDEX reservation_due (deadline_ms>?)"},
    {SQL_VENDOR_OTHER, "INDEX reservation_vendor (vendor<?)"},
    {SQL_VENDOR_OTHER, "INDEX reservation_vendor (vendor>?)"},
    {SQL_CLIENT_COUNT, "SEARCH client"},
    /* a page, from where the last one ended: everything in it is selected */
    {SQL_JOURNAL_WALK, "PRIMARY KEY (rowid>?)"},
    {SQL_RESERVATION_WALK, "PRIMARY KEY (rowid>?)"},
    {SQL_RESERVATION_RUNNING, "INDEX reservation_running (id>?)"},
    {SQL_RESERVATION_OVERDUE, "INDEX reservation_overdue (deadline_ms>?)"},
    {SQL_RESERVATION_OVERDUE, "INDEX reservation_due (deadline_ms>? AND deadline_ms<?)"},
    {SQL_RESERVATION_OVERDUE, "INDEX reservation_refuted (deadline_ms>? AND deadline_ms<?)"},
    /* those that are overdue, or soon will be */
    {SQL_RESERVATION_OVERDUE_COUNT, "SCAN CONSTANT ROW"},
    {SQL_RESERVATION_OVERDUE_COUNT, "INDEX reservation_overdue"},
    {SQL_RESERVATION_OVERDUE_COUNT, "INDEX reservation_due (deadline_ms>? AND deadline_ms<?)"},
    {SQL_RESERVATION_OVERDUE_COUNT, "INDEX reservation_refuted (deadline_ms>? AND deadline_ms<?)"},
    {SQL_RESERVATION_ENDING, "INDEX reservation_due (deadline_ms>? AND deadline_ms<?)"},
    /* tables that a limit bounds: BUDGET_ACCOUNTS_MAX, BUDGET_CLIENTS_MAX */
    {SQL_ACCOUNT_COUNT, "SCAN account"},
    {SQL_ACCOUNT_WALK, "SCAN account"},
    {SQL_ACCOUNT_FROZEN_COUNT, "SCAN account"},
    {SQL_TOTAL_SPENT, "SCAN account"},
    {SQL_CLIENT_WALK, "SCAN client"},
    {SQL_CLIENT_COUNT_ROLE, "SCAN client"},
};

/* A line of a plan names a key that is looked for ("label=?"), sorts what was found, or is allowed. */
static void check_line(store_sql sql, const char *line)
{
    const bool scans = strstr(line, "SCAN ") != NULL;
    const bool searches = strstr(line, "SEARCH ") != NULL;
    bool good = !scans && (!searches || strstr(line, "=?") != NULL);
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        good = good || (allowed[i].sql == sql && strstr(line, allowed[i].part) != NULL);
    }
    if (!good) {
        fail_msg("%s: %.200s", line, statement_sql[sql]);
    }
}

static void no_statement_walks_a_table_that_grows(void **state)
{
    (void)state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, schema_sql, NULL, NULL, NULL), SQLITE_OK);
    for (int sql = 0; sql < SQL_COUNT_; sql++) {
        char query[QUERY_BYTES];
        sqlite3_stmt *plan = NULL;
        (void)snprintf(query, sizeof query, "EXPLAIN QUERY PLAN %s", statement_sql[sql]);
        if (sqlite3_prepare_v2(db, query, -1, &plan, NULL) != SQLITE_OK) {
            fail_msg("%s: %s", statement_sql[sql], sqlite3_errmsg(db));
        }
        while (sqlite3_step(plan) == SQLITE_ROW) {
            check_line((store_sql)sql, (const char *)sqlite3_column_text(plan, 3));
        }
        (void)sqlite3_finalize(plan);
    }
    (void)sqlite3_close(db);
}

/* As SQLite's temporary database does, which has no file. */
static void what_keeps_no_log_is_refused(void **state)
{
    store_db store;
    base_error error = {0};
    (void)state;
    assert_status(store_open(&store, "", "unix", true, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "write-ahead log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_statement_walks_a_table_that_grows),
        cmocka_unit_test(what_keeps_no_log_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
