/* Pairwise combinations: rows of levels, one for each factor, such that every two levels of
 * different factors that may stand together do so in a row. */
#ifndef TEST_COLL_GRID_PAIRS_H
#define TEST_COLL_GRID_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

enum { PAIR_FACTORS_MAX = 10, PAIR_LEVELS_MAX = 16 };

typedef struct pair_row {
    int levels[PAIR_FACTORS_MAX];
} pair_row;

/* Whether a row may be; levels of -1 are not chosen yet. */
typedef bool (*pair_allowed)(const pair_row *row, int factors);

/* Writes at most rows_max rows; returns how many there are, or rows_max + 1 if they do not fit. The
 * same for the same arguments. */
size_t grid_pairs(const int *level_counts, int factors, pair_allowed allowed, pair_row *rows,
                  size_t rows_max);

#endif
