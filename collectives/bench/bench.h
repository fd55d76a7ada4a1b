/* How coll-bench measures.
 *
 * Every rank dirties its whole buffer before each operation (a benchmark that reuses an unmodified
 * buffer measures its own cache), in place, then all meet in a barrier, and the operation alone is
 * timed; the row shows the median over the iterations of rank 0. Where an operation is so short
 * that the clock would be measured, iterations are timed in batches, dirtying included. The result
 * of the last iteration is checked bit for bit on every rank. */
#ifndef COLL_BENCH_BENCH_H
#define COLL_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

enum { BENCH_BYTES_MAX = 1 << 30 };

typedef struct bench_options {
    int ranks;
    size_t begin_bytes;
    size_t end_bytes;
    size_t factor;
    coll_transport transport;
    coll_algorithm algorithm;
    bool arena;
} bench_options;

/* "64", "4K", "16M" within [min, max]. */
BASE_MUST_CHECK base_status bench_parse_size(const char *text, size_t min, size_t max,
                                             size_t *value, base_error *reterr);

/* Forks the ranks, prints the rows; an exit code, BASE_EXIT_ERROR if any value was wrong. */
int bench_run(const bench_options *options);

#endif
