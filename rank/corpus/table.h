/* A table of text: one row a line, cells separated by one tab. # comments and empty lines are
 * skipped.
 *
 * Cells are lower-case words: letters, digits, spaces and the few marks in TABLE_MARKS. They are
 * never empty, and have no space at either end. So they need no escaping anywhere. Anything else in
 * a file is refused with file and line. */
#ifndef CORPUS_TABLE_H
#define CORPUS_TABLE_H

#include "base/limits.h"
#include "base/status.h"

enum {
    CORPUS_TABLE_COLUMNS_MAX = 11,
    CORPUS_TABLE_ROWS_MAX = 4096,
    CORPUS_TABLE_BYTES_MAX = 1 << 20,
};

typedef struct corpus_row {
    int line;
    char *cells[CORPUS_TABLE_COLUMNS_MAX]; /* point into the table's text; its owner may cut them */
} corpus_row;

typedef struct corpus_table {
    char path[BASE_PATH_BYTES];
    char *text;
    corpus_row *rows;
    int row_count;
} corpus_table;

/* Reads directory/name. Each row must have this many columns. The caller frees with fini. */
BASE_MUST_CHECK base_status corpus_table_read(corpus_table *table, const char *directory,
                                              const char *name, int columns, base_error *reterr);
void corpus_table_fini(corpus_table *table);

/* "FILE:LINE: reason" as BASE_ERR_INVALID. */
base_status corpus_table_refuse(const corpus_table *table, const corpus_row *row,
                                const char *reason, const char *what, base_error *reterr);

/* Cuts a cell at each separator into at most capacity parts, in place. Returns their number, or -1
 * if there are more or one is empty. */
int corpus_cell_split(char *cell, char separator, char **parts, int capacity);

#endif
