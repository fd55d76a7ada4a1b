/* coll-bench --tune: what the cost model behind `auto` predicts, beside what is measured. */
#ifndef COLL_BENCH_TUNE_H
#define COLL_BENCH_TUNE_H

#include <stdio.h>

#include "bench.h"

/* Collective. Every algorithm at every size of the options, float32 (sums); rank 0 prints as it
 * goes and leaves the rows in shared. */
COLL_MUST_CHECK coll_status bench_tune(const bench_options *options, coll_context *context,
                                       bench_shared *shared, FILE *out, coll_error *reterr);

#endif
