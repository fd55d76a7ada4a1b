/* Every table of the ledger beside the same table of the audit's scratch, row by row in the order
 * of their keys and column by column; and the schema, as a table like the others. Both databases
 * are asked what their tables are, so nothing here knows what a column means. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_core.h"

enum {
    TABLES_MAX = 16,
    KEY_COLUMNS_MAX = 4,
    NAME_BYTES = 32,
    SQL_BYTES = 512,
    VALUE_BYTES = 80,
};

typedef struct audit_table {
    char name[NAME_BYTES];
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

/* The same statement on both sides. */
typedef struct side_by_side {
    sqlite3_stmt *have; /* the ledger */
    sqlite3_stmt *want; /* the scratch */
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
        const size_t used = strlen(text);
        describe_value(row, table->columns[i], value);
        (void)snprintf(text + used, text_bytes - used, ", %s %s", table->keys[i], value);
    }
}

/* ---- one row beside another ---- */

static uint64_t row_sequence(const audit_table *table, sqlite3_stmt *row)
{
    return table->sequence_column >= 0 ? (uint64_t)sqlite3_column_int64(row, table->sequence_column)
                                       : 0;
}

static base_status lone_row(budget_audit *audit, const audit_table *table, sqlite3_stmt *row,
                            bool extra)
{
    char text[SQL_BYTES];
    describe_row(table, row, text, sizeof text);
    return audit_found(audit, row_sequence(table, row), "%s: %s", text,
                       extra ? "no row of the journal makes it" : "it is missing");
}

static base_status compare_rows(budget_audit *audit, const audit_table *table,
                                const side_by_side *rows)
{
    char text[SQL_BYTES];
    char have[VALUE_BYTES];
    char want[VALUE_BYTES];
    for (int i = 0; i < table->key_count; i++) {
        const int order = compare_values(rows->have, rows->want, table->columns[i]);
        if (order != 0) {
            return lone_row(audit, table, order < 0 ? rows->have : rows->want, order < 0);
        }
    }
    for (int i = 0; i < sqlite3_column_count(rows->want); i++) {
        if (compare_values(rows->have, rows->want, i) != 0) {
            describe_row(table, rows->want, text, sizeof text);
            describe_value(rows->have, i, have);
            describe_value(rows->want, i, want);
            return audit_found(audit, row_sequence(table, rows->want),
                               "%s: %s is %s, and the journal makes it %s", text,
                               sqlite3_column_name(rows->want, i), have, want);
        }
    }
    return BASE_OK;
}

/* ---- a page of one table ---- */

static void page_sql(const audit_tables *tables, const audit_table *table, int64_t rows_max,
                     char sql[SQL_BYTES])
{
    char keys[SQL_BYTES / 4] = "";
    char places[KEY_COLUMNS_MAX * 4] = "";
    const bool schema = strcmp(table->name, "sqlite_schema") == 0;
    for (int i = 0; i < table->key_count; i++) {
        const size_t used = strlen(keys);
        (void)snprintf(keys + used, sizeof keys - used, "%s%s", i > 0 ? ", " : "", table->keys[i]);
        (void)snprintf(places + strlen(places), 4, "%s?%d", i > 0 ? "," : "", i + 1);
    }
    char after[SQL_BYTES / 2] = "";
    if (tables->after[0] != NULL) {
        (void)snprintf(after, sizeof after, " WHERE (%s) > (%s)", keys, places);
    }
    (void)snprintf(sql, SQL_BYTES, "SELECT %s FROM %s%s ORDER BY %s LIMIT %" PRId64,
                   schema ? "type, name, tbl_name, sql" : "*", table->name, after, keys, rows_max);
}

static base_status prepare(const audit_tables *tables, sqlite3 *db, const char *sql,
                           sqlite3_stmt **statement, base_error *reterr)
{
    int code = sqlite3_prepare_v2(db, sql, -1, statement, NULL);
    for (int i = 0; i < KEY_COLUMNS_MAX && tables->after[i] != NULL && code == SQLITE_OK; i++) {
        code = sqlite3_bind_value(*statement, i + 1, tables->after[i]);
    }
    return code == SQLITE_OK ? BASE_OK : failed(db, reterr);
}

static base_status next_row(sqlite3_stmt *statement, bool *there, base_error *reterr)
{
    const int code = sqlite3_step(statement);
    *there = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? BASE_OK
                                                     : failed(sqlite3_db_handle(statement), reterr);
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

/* Row beside row until one side ends. *left: there may be more than this page. */
static base_status compare_page(budget_audit *audit, const audit_table *table,
                                const side_by_side *rows, int64_t rows_max, bool *left,
                                base_error *reterr)
{
    bool have = true;
    bool want = true;
    int64_t count = 0;
    base_status status = BASE_OK;
    while (status == BASE_OK && have && want && count < rows_max && audit->report.good) {
        status = next_row(rows->have, &have, reterr);
        status = status == BASE_OK ? next_row(rows->want, &want, reterr) : status;
        if (status == BASE_OK && have && want) {
            status = compare_rows(audit, table, rows);
            count++;
        } else if (status == BASE_OK && (have || want)) {
            status = lone_row(audit, table, have ? rows->have : rows->want, have);
        }
    }
    *left = have && want;
    return status == BASE_OK && *left ? keep_key(audit->tables, table, rows->want, reterr) : status;
}

base_status audit_tables_step(budget_audit *audit, int64_t rows_max, bool *done, base_error *reterr)
{
    char sql[SQL_BYTES];
    bool left = true;
    side_by_side rows = {NULL, NULL};
    audit_tables *tables = audit->tables;
    const audit_table *table = &tables->tables[tables->next];
    page_sql(tables, table, rows_max, sql);
    base_status status = prepare(tables, audit->ledger->store.db, sql, &rows.have, reterr);
    if (status == BASE_OK) {
        status = prepare(tables, audit->scratch->store.db, sql, &rows.want, reterr);
    }
    if (status == BASE_OK) {
        status = compare_page(audit, table, &rows, rows_max, &left, reterr);
    }
    (void)sqlite3_finalize(rows.have);
    (void)sqlite3_finalize(rows.want);
    if (status == BASE_OK && !left) {
        forget_key(tables);
        tables->next++;
    }
    *done = tables->next == tables->count;
    return status;
}
