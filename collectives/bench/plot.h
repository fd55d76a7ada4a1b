/* Latency and bandwidth against size, drawn by gnuplot. */
#ifndef COLL_BENCH_PLOT_H
#define COLL_BENCH_PLOT_H

#include <stdio.h>

#include "bench.h"

/* The gnuplot program, data included, that draws into `path` (.svg or .png). Pure. */
void bench_plot_script(FILE *out, const char *path, const bench_options *options,
                       const bench_shared *shared);

/* Draws. COLL_ERR_NOTFOUND: no gnuplot here; COLL_ERR_IO: it failed, with its own message. Blocks
 * until it has ended. */
COLL_MUST_CHECK coll_status bench_plot_draw(const char *path, const bench_options *options,
                                            const bench_shared *shared, coll_error *reterr);

#endif
