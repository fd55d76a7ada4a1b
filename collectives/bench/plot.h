/* Latency and bandwidth against size, drawn as SVG. */
#ifndef COLL_BENCH_PLOT_H
#define COLL_BENCH_PLOT_H

#include "bench.h"

/* Writes the picture. COLL_ERR_INVALID: no row has a size above 0. */
COLL_MUST_CHECK coll_status bench_plot_draw(const char *path, const bench_options *options,
                                            const bench_shared *shared, coll_error *reterr);

#endif
