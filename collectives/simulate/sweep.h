/* The sweep: every algorithm of a collective, simulated for rising numbers of ranks, beside the
 * cost model's formula. */
#ifndef COLL_SIMULATE_SWEEP_H
#define COLL_SIMULATE_SWEEP_H

#include <stdio.h>

#include "base/limits.h"
#include "network.h"
#include "trace.h"

enum { SWEEP_ROWS_MAX = 32, SWEEP_ALGORITHMS = COLL_ALGORITHM_LAST + 1 };

/* With --trace: one operation, in place of the sweep. */
typedef struct trace_request {
    bool asked;
    coll_algorithm algorithm;
    int ranks;
} trace_request;

typedef struct sweep_options {
    coll_kind kind;
    coll_costs costs;
    size_t whole_bytes;
    int ranks_max;
    int ranks_per_host;              /* the last host may have fewer */
    char plot_path[BASE_PATH_BYTES]; /* empty: none */
    trace_request trace;
    bool help;
    bool version;
} sweep_options;

typedef struct sweep_row {
    int ranks;
    double simulated_us[SWEEP_ALGORITHMS]; /* by coll_algorithm */
    double formula_us[SWEEP_ALGORITHMS];
} sweep_row;

typedef struct sweep {
    int row_count;
    sweep_row rows[SWEEP_ROWS_MAX];
} sweep;

/* Fills the rows for 2, 3, 4, 6, 8, 12, … ranks, and prints each to `out` as it is done. The first
 * schedule that does not complete ends it with COLL_ERR_STATE. */
COLL_MUST_CHECK coll_status sweep_run(const sweep_options *options, FILE *out, sweep *result,
                                      coll_error *reterr);

/* Plays, prints and draws the one operation of options->trace. */
COLL_MUST_CHECK coll_status sweep_trace(const sweep_options *options, FILE *out,
                                        coll_error *reterr);

/* Draws the sweep as SVG: points are simulated, lines the formulas. */
COLL_MUST_CHECK coll_status sweep_plot(const sweep_options *options, const sweep *result,
                                       coll_error *reterr);

#endif
