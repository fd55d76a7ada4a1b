/* Compares every table of the ledger with the same table of the audit's scratch: row by row in the
 * order of their keys, and column by column. The schema is compared as a table too. Both databases
 * are asked what their tables are, so nothing here knows what a column means. Called by audit.c. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_core.h"
#include "base/text.h"

enum {
    TABLES_MAX = 16,
    KEY_COLUMNS_MAX = 4,
    NAME_BYTES = 32,
    COLUMNS_BYTES = 512, /* of a table's columns' names */
    SQL_BYTES = 1024,
    TEXT_BYTES = 256,
    VALUE_BYTES = 80,
};

typedef struct audit_table {
    char name[NAME_BYTES];
    char columns_sql[COLUMNS_BYTES]; /* "id, name, …" */
    int key_count;
    char keys[KEY_COLUMNS_MAX][NAME_BYTES];
    int columns[KEY_COLUMNS_MAX]; /* of the keys, in a row */
    int sequence_column;          /* of the journal's row that made it; -1: it has none */
} audit_table;

struct audit_tables {
    int count;
    int next; /* the one that is compared */
    audit_table tables[TABLES_MAX];
    sqlite3_value *after[KEY_COLUMNS_MAX]; /* the key that was compared last; NULL: none */
};

/* One side of a page: the rows of one table that a statement selects, in the order of their keys. */
typedef struct page_side {
    sqlite3_stmt *rows;
    bool there;    /* a row that has not been compared yet */
    int64_t taken; /* rows that have been read */
} page_side;

/* The same statement on both sides. */
typedef struct side_by_side {
    page_side have; /* the ledger */
    page_side want; /* the scratch */
} side_by_side;

static base_status failed(sqlite3 *db, base_error *reterr)
{
    const int code = sqlite3_errcode(db) & 0xff;
    return base_fail(reterr, code == SQLITE_NOMEM ? BASE_ERR_MEMORY : BASE_ERR_IO, "audit: %s",
                     sqlite3_errmsg(db));
}

/* ---- which tables there are, as the scratch has them ---- */

static void add_column(audit_table *table, const char *name, int column, int key)
{
    base_text_append(table->columns_sql, sizeof table->columns_sql, "%s%s",
                     table->columns_sql[0] != '\0' ? ", " : "", name);
    if (key > 0 && key <= KEY_COLUMNS_MAX) {
        (void)snprintf(table->keys[key - 1], NAME_BYTES, "%s", name);
        table->columns[key - 1] = column;
        table->key_count = key > table->key_count ? key : table->key_count;
    }
    if (strcmp(name, "seq") == 0) {
        table->sequence_column = column;
    }
}

static void add_schema(audit_tables *tables)
{
    audit_table *table = &tables->tables[tables->count++];
    (void)snprintf(table->name, sizeof table->name, "sqlite_schema");
    table->sequence_column = -1;
    add_column(table, "type", 0, 1);
    add_column(table, "name", 1, 2);
    add_column(table, "tbl_name", 2, 0);
    add_column(table, "sql", 3, 0);
}

static base_status list_tables(audit_tables *tables, sqlite3 *db, base_error *reterr)
{
    static const char sql[] =
        "SELECT t.name, c.name, c.cid, c.pk FROM sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND t.name <> 'journal' ORDER BY t.name, c.cid";
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        audit_table *table = &tables->tables[tables->count - 1];
        if (strcmp(table->name, name) != 0 && tables->count < TABLES_MAX) {
            table = &tables->tables[tables->count++];
            (void)snprintf(table->name, sizeof table->name, "%s", name);
            table->sequence_column = -1;
        }
        add_column(table, (const char *)sqlite3_column_text(statement, 1),
                   sqlite3_column_int(statement, 2), sqlite3_column_int(statement, 3));
        code = SQLITE_OK;
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_DONE ? BASE_OK : failed(db, reterr);
}

base_status audit_tables_open(budget_audit *audit, base_error *reterr)
{
    audit->tables = calloc(1, sizeof *audit->tables);
    if (audit->tables == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the audit");
    }
    add_schema(audit->tables);
    return list_tables(audit->tables, audit->scratch->store.db, reterr);
}

static void forget_key(audit_tables *tables)
{
    for (int i = 0; i < KEY_COLUMNS_MAX; i++) {
        sqlite3_value_free(tables->after[i]);
        tables->after[i] = NULL;
    }
}

void audit_tables_close(audit_tables *tables)
{
    if (tables != NULL) {
        forget_key(tables);
        free(tables);
    }
}

/* ---- one value beside another ---- */

/* Below 0, 0, above 0, in SQLite's order of values. */
static int compare_values(sqlite3_stmt *a, sqlite3_stmt *b, int column)
{
    const int type = sqlite3_column_type(a, column);
    const int other = sqlite3_column_type(b, column);
    if (type != other) {
        return type == SQLITE_NULL ? -1 : (other == SQLITE_NULL ? 1 : type - other);
    }
    if (type == SQLITE_INTEGER) {
        const int64_t left = sqlite3_column_int64(a, column);
        const int64_t right = sqlite3_column_int64(b, column);
        return (left > right) - (left < right);
    }
    const void *left = sqlite3_column_blob(a, column);
    const void *right = sqlite3_column_blob(b, column);
    const int left_bytes = sqlite3_column_bytes(a, column);
    const int right_bytes = sqlite3_column_bytes(b, column);
    const int shorter = left_bytes < right_bytes ? left_bytes : right_bytes;
    const int order = shorter > 0 ? memcmp(left, right, (size_t)shorter) : 0;
    return order != 0 ? order : left_bytes - right_bytes;
}

static void describe_value(sqlite3_stmt *row, int column, char text[VALUE_BYTES])
{
    const unsigned char *bytes = sqlite3_column_blob(row, column);
    const int length = sqlite3_column_bytes(row, column);
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL:
        (void)snprintf(text, VALUE_BYTES, "nothing");
        break;
    case SQLITE_BLOB:
        (void)snprintf(text, VALUE_BYTES, "%d bytes, %02x%02x…", length, length > 0 ? bytes[0] : 0,
                       length > 1 ? bytes[1] : 0);
        break;
    default:
        (void)snprintf(text, VALUE_BYTES, "%.40s", (const char *)sqlite3_column_text(row, column));
    }
}

/* "reservation, id 3" */
static void describe_row(const audit_table *table, sqlite3_stmt *row, char *text, size_t text_bytes)
{
    char value[VALUE_BYTES];
    (void)snprintf(text, text_bytes, "%s", table->name);
    for (int i = 0; i < table->key_count; i++) {
        describe_value(row, table->columns[i], value);
        base_text_append(text, text_bytes, ", %s %s", table->keys[i], value);
    }
}

/* ---- one row beside another ---- */

static uint64_t row_sequence(const audit_table *table, sqlite3_stmt *row)
{
    return table->sequence_column >= 0 ? (uint64_t)sqlite3_column_int64(row, table->sequence_column)
                                       : 0;
}

static void lone_row(budget_audit *audit, const audit_table *table, sqlite3_stmt *row, bool extra)
{
    char text[TEXT_BYTES];
    describe_row(table, row, text, sizeof text);
    audit_found(audit, row_sequence(table, row), "%s: %s", text,
                extra ? "no row of the journal makes it" : "it is missing");
    audit_digest_text(audit, table->name);
    audit_digest_text(audit, extra ? "extra" : "missing");
    audit_digest_row(audit, row);
}

/* Where a number is wrong by as much as before, the finding is the same one: what came honestly
 * since has changed both sides alike. */
static void digest_difference(budget_audit *audit, sqlite3_stmt *have, sqlite3_stmt *want,
                              int column)
{
    if (sqlite3_column_type(have, column) == SQLITE_INTEGER &&
        sqlite3_column_type(want, column) == SQLITE_INTEGER) {
        char text[32];
        (void)snprintf(text, sizeof text, "by %" PRIu64,
                       (uint64_t)sqlite3_column_int64(have, column) -
                           (uint64_t)sqlite3_column_int64(want, column));
        audit_digest_text(audit, text);
    } else {
        audit_digest_value(audit, have, column);
        audit_digest_value(audit, want, column);
    }
}

static void compare_rows(budget_audit *audit, const audit_table *table, sqlite3_stmt *have,
                         sqlite3_stmt *want)
{
    char text[TEXT_BYTES];
    char have_text[VALUE_BYTES];
    char want_text[VALUE_BYTES];
    for (int i = 0; i < sqlite3_column_count(want); i++) {
        if (compare_values(have, want, i) == 0) {
            continue;
        }
        describe_row(table, want, text, sizeof text);
        describe_value(have, i, have_text);
        describe_value(want, i, want_text);
        audit_found(audit, row_sequence(table, want), "%s: %s is %s, and the journal makes it %s",
                    text, sqlite3_column_name(want, i), have_text, want_text);
        audit_digest_text(audit, table->name);
        for (int key = 0; key < table->key_count; key++) {
            audit_digest_value(audit, want, table->columns[key]);
        }
        audit_digest_text(audit, sqlite3_column_name(want, i));
        digest_difference(audit, have, want, i);
    }
}

/* Which side's row comes first: below 0 have's, 0 both (one key), above 0 want's. */
static int compare_keys(const audit_table *table, const side_by_side *rows)
{
    int order = 0;
    if (!rows->have.there || !rows->want.there) {
        return rows->have.there ? -1 : 1;
    }
    for (int i = 0; i < table->key_count && order == 0; i++) {
        order = compare_values(rows->have.rows, rows->want.rows, table->columns[i]);
    }
    return order;
}

/* ---- a page of one table ---- */

static void page_sql(const audit_tables *tables, const audit_table *table, int64_t rows_max,
                     char sql[SQL_BYTES])
{
    char keys[SQL_BYTES / 8] = "";
    char places[KEY_COLUMNS_MAX * 4] = "";
    for (int i = 0; i < table->key_count; i++) {
        base_text_append(keys, sizeof keys, "%s%s", i > 0 ? ", " : "", table->keys[i]);
        base_text_append(places, sizeof places, "%s?%d", i > 0 ? "," : "", i + 1);
    }
    char after[SQL_BYTES / 4] = "";
    if (tables->after[0] != NULL) {
        (void)snprintf(after, sizeof after, " WHERE (%s) > (%s)", keys, places);
    }
    (void)snprintf(sql, SQL_BYTES, "SELECT %s FROM %s%s ORDER BY %s LIMIT %" PRId64,
                   table->columns_sql, table->name, after, keys, rows_max);
}

static int prepare(const audit_tables *tables, sqlite3 *db, const char *sql,
                   sqlite3_stmt **statement)
{
    int code = sqlite3_prepare_v2(db, sql, -1, statement, NULL);
    for (int i = 0; i < KEY_COLUMNS_MAX && tables->after[i] != NULL && code == SQLITE_OK; i++) {
        code = sqlite3_bind_value(*statement, i + 1, tables->after[i]);
    }
    return code;
}

static base_status next_row(page_side *side, base_error *reterr)
{
    const int code = sqlite3_step(side->rows);
    side->there = code == SQLITE_ROW;
    side->taken += side->there;
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? BASE_OK
               : failed(sqlite3_db_handle(side->rows), reterr);
}

static base_status keep_key(audit_tables *tables, const audit_table *table, sqlite3_stmt *row,
                            base_error *reterr)
{
    forget_key(tables);
    for (int i = 0; i < table->key_count; i++) {
        tables->after[i] = sqlite3_value_dup(sqlite3_column_value(row, table->columns[i]));
        if (tables->after[i] == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the audit");
        }
    }
    return BASE_OK;
}

/* Merges both sides, until they end or one has used up its page. *left: there may be more, after
 * the key that is kept. */
static base_status compare_page(budget_audit *audit, const audit_table *table, side_by_side *rows,
                                int64_t rows_max, bool *left, base_error *reterr)
{
    base_status status = next_row(&rows->have, reterr);
    status = status == BASE_OK ? next_row(&rows->want, reterr) : status;
    *left = false;
    while (status == BASE_OK && !*left && (rows->have.there || rows->want.there)) {
        const int order = compare_keys(table, rows);
        if (order == 0) {
            compare_rows(audit, table, rows->have.rows, rows->want.rows);
        } else {
            lone_row(audit, table, order < 0 ? rows->have.rows : rows->want.rows, order < 0);
        }
        *left = (order <= 0 && rows->have.taken == rows_max) ||
                (order >= 0 && rows->want.taken == rows_max);
        if (*left) {
            return keep_key(audit->tables, table, order <= 0 ? rows->have.rows : rows->want.rows,
                            reterr);
        }
        status = order <= 0 ? next_row(&rows->have, reterr) : BASE_OK;
        status = order >= 0 && status == BASE_OK ? next_row(&rows->want, reterr) : status;
    }
    return status;
}

/* The ledger's own table may lack a column, or the table may be missing: the schema's finding. */
static base_status unreadable(budget_audit *audit, const audit_table *table, int code,
                              base_error *reterr)
{
    sqlite3 *db = audit->ledger->store.db;
    if ((code & 0xff) != SQLITE_ERROR) {
        return failed(db, reterr);
    }
    audit_found(audit, 0, "%s: it cannot be read: %.200s", table->name, sqlite3_errmsg(db));
    audit_digest_text(audit, table->name);
    audit_digest_text(audit, sqlite3_errmsg(db));
    return BASE_OK;
}

base_status audit_tables_step(budget_audit *audit, int64_t rows_max, bool *done, base_error *reterr)
{
    char sql[SQL_BYTES];
    bool left = false;
    side_by_side rows = {0};
    audit_tables *tables = audit->tables;
    const audit_table *table = &tables->tables[tables->next];
    base_status status = BASE_OK;
    page_sql(tables, table, rows_max, sql);
    const int code = prepare(tables, audit->ledger->store.db, sql, &rows.have.rows);
    if (code != SQLITE_OK) {
        status = unreadable(audit, table, code, reterr);
    } else if (prepare(tables, audit->scratch->store.db, sql, &rows.want.rows) != SQLITE_OK) {
        status = failed(audit->scratch->store.db, reterr);
    } else {
        status = compare_page(audit, table, &rows, rows_max, &left, reterr);
    }
    (void)sqlite3_finalize(rows.have.rows);
    (void)sqlite3_finalize(rows.want.rows);
    if (status == BASE_OK && !left) {
        forget_key(tables);
        tables->next++;
    }
    *done = tables->next == tables->count;
    return status;
}
