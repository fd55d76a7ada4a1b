/* Times one cell on all ranks together; see bench.h for what a time is. */
#ifndef COLL_BENCH_MEASURE_H
#define COLL_BENCH_MEASURE_H

#include "bench.h"
#include "cell.h"

/* Collective. Fills *column on rank 0; its bandwidths from the cell's size. COLL_ERR_ABORTED:
 * another rank has failed, and said why. */
COLL_MUST_CHECK coll_status bench_measure(const bench_options *options, const bench_cell *cell,
                                          bench_shared *shared, bench_column *column,
                                          coll_error *reterr);

/* How many samples, of how many operations each, make so many iterations (0: what fits in a tenth
 * of a second of operations that take `us`, dirtying included): at least as many, and less than one
 * sample more. Only chained operations are timed in batches. Pure. */
void bench_choose_samples(int iterations, bool chains, double us, int *samples, int *batch);

/* Mean and median of the samples of all ranks, in microseconds per operation; cost_ticks, the
 * clock's own, is taken off each sample. Sorts the samples of rank 0. Pure. */
void bench_summarise(bench_shared *shared, int ranks, uint64_t cost_ticks, double ticks_per_us,
                     double *mean_us, double *median_us);

#endif
