/* Drawing tokens of rows of logits on a device: the argument of the backend's `draw`, and what it finds.
 * generate/sample.c draws on the host, with the same bits. */
#ifndef RANK_BACKEND_DRAW_H
#define RANK_BACKEND_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* How a token is drawn of one row of logits. */
typedef struct rank_draw_row {
    double inverse;  /* 1 / temperature; 0: the largest logit wins, without noise */
    uint64_t stream; /* of the noise (generate/noise.h) */
    int32_t kept;    /* 0: one token is drawn; else so many of the best are found, without noise */
    int32_t weighed; /* whether the leaves' masses are wanted: 0, 1 */
} rank_draw_row;

/* What was drawn. */
typedef struct rank_drawn {
    float logit;
    int32_t index;   /* -1: none, every logit is -infinity */
    int32_t refused; /* the lowest index of a logit that is no number or +infinity; -1: none */
} rank_drawn;

/* One of the best. */
typedef struct rank_kept {
    float logit;
    int32_t index; /* -1: there are no more */
} rank_kept;

/* Σ exp((logit − largest) / temperature) over a leaf. Lane i of RANK_MASS_LANES adds columns i,
 * i + RANK_MASS_LANES, …; lanes add up by halves. */
typedef struct rank_mass {
    double largest; /* -infinity where no logit is finite; then the sum is 0 */
    double sum;
} rank_mass;

enum {
    RANK_KEPT_MAX = 1024, /* of one row */
    RANK_MASS_LANES = 32,
};

/* Of each row of logits the one with the largest logit · inverse + noise, the lowest index of
 * equals. Or its `kept` best in falling order, the lowest index first of equals, and the masses of
 * its leaves. */
typedef struct rank_draw {
    size_t rows;
    size_t columns;    /* >= 1: of a row, without padding */
    size_t row_floats; /* floats from one row to the next */
    const float *values;
    int32_t first_token;     /* the id of column 0, for the noise */
    const rank_draw_row *of; /* (rows) */
    /* (rows), in RANK_MEMORY_HOST as the next two; of those that keep, `refused` alone. */
    rank_drawn *drawn;
    rank_kept *kept;   /* (rows, RANK_KEPT_MAX); NULL: no row keeps */
    rank_mass *masses; /* (rows, leaves); NULL: none is weighed */
    size_t leaves;
    size_t leaf_columns; /* the last leaves may have fewer, or none */
} rank_draw;

#endif
