/* Reads a file of tab-separated cells and refuses everything else with file and line. Called by
 * grammar.c for each table. */
#include "table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"

#define TABLE_MARKS " '-|{}!~?=,.:;()"

base_status corpus_table_refuse(const corpus_table *table, const corpus_row *row,
                                const char *reason, const char *what, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID, "%s:%d: %s: %s", table->path, row->line, reason,
                     what);
}

static bool cell_is_clean(const char *cell)
{
    const size_t bytes = strlen(cell);
    if (bytes == 0 || cell[0] == ' ' || cell[bytes - 1] == ' ' || strstr(cell, "  ") != NULL) {
        return false;
    }
    for (const char *c = cell; *c != '\0'; c++) {
        const bool word = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9');
        if (!word && strchr(TABLE_MARKS, *c) == NULL) {
            return false;
        }
    }
    return true;
}

static base_status read_row(corpus_table *table, char *line, int number, int columns,
                            base_error *reterr)
{
    if (table->row_count == CORPUS_TABLE_ROWS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s has more than %d rows", table->path,
                         (int)CORPUS_TABLE_ROWS_MAX);
    }
    corpus_row *row = &table->rows[table->row_count];
    row->line = number;
    int count = 0;
    for (char *cell = line; cell != NULL;) {
        char *tab = strchr(cell, '\t');
        if (tab != NULL) {
            *tab = '\0';
        }
        if (count == columns) {
            return corpus_table_refuse(table, row, "too many columns", cell, reterr);
        }
        if (!cell_is_clean(cell)) {
            return corpus_table_refuse(table, row, "not lower-case words parted by single spaces",
                                       cell, reterr);
        }
        row->cells[count++] = cell;
        cell = tab == NULL ? NULL : tab + 1;
    }
    if (count != columns) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s:%d: %d columns, there must be %d",
                         table->path, number, count, columns);
    }
    table->row_count++;
    return BASE_OK;
}

static base_status read_rows(corpus_table *table, int columns, base_error *reterr)
{
    int number = 0;
    base_status status = BASE_OK;
    for (char *line = table->text; line != NULL && *line != '\0' && status == BASE_OK;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        number++;
        if (line[0] != '#' && line[0] != '\0') {
            status = read_row(table, line, number, columns, reterr);
        }
        line = end == NULL ? NULL : end + 1;
    }
    if (status == BASE_OK && table->row_count == 0) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s has no rows", table->path);
    }
    return status;
}

base_status corpus_table_read(corpus_table *table, const char *directory, const char *name,
                              int columns, base_error *reterr)
{
    void *data = NULL;
    size_t size_bytes = 0;
    memset(table, 0, sizeof *table);
    base_status status = base_path_join(directory, name, table->path, reterr);
    if (status == BASE_OK) {
        status = base_file_read(table->path, CORPUS_TABLE_BYTES_MAX, &data, &size_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    table->text = data;
    table->rows = calloc(CORPUS_TABLE_ROWS_MAX, sizeof *table->rows);
    if (table->rows == NULL) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for %s", table->path);
    } else if (strlen(table->text) != size_bytes) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s: has a NUL byte", table->path);
    } else {
        status = read_rows(table, columns, reterr);
    }
    if (status != BASE_OK) {
        corpus_table_fini(table);
    }
    return status;
}

void corpus_table_fini(corpus_table *table)
{
    free(table->text);
    free(table->rows);
    memset(table, 0, sizeof *table);
}

int corpus_cell_split(char *cell, char separator, char **parts, int capacity)
{
    int count = 0;
    while (cell != NULL) {
        char *end = strchr(cell, separator);
        if (end != NULL) {
            *end = '\0';
        }
        if (count == capacity || *cell == '\0') {
            return -1;
        }
        parts[count++] = cell;
        cell = end == NULL ? NULL : end + 1;
    }
    return count;
}
