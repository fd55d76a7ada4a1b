/* The numbers that coll-bench sends, and what must come out. Pure; no thread rule but one writer.
 *
 * A rank's elements repeat with a period of BENCH_PERIOD (a prime: no block size is a multiple of
 * it). Values are whole numbers, so small that every sum, product and average of them is exact in
 * the type at hand, in any order; integers may wrap, which is exact too. */
#ifndef COLL_BENCH_DATA_H
#define COLL_BENCH_DATA_H

#include "bench.h"

enum { BENCH_PERIOD = 1021 };

typedef struct bench_data bench_data;

/* For one type and operation among so many ranks; reduce 0: none. The result is of the first `operands` ranks: all
 * of them, but in scans. NULL: out of memory. */
bench_data *bench_data_create(int ranks, coll_type type, coll_reduce_op reduce, int operands);
/* How many that are in the results of a rank. */
int bench_data_operands(coll_kind kind, int ranks, int rank);
void bench_data_destroy(bench_data *data);

/* Stores elements [first, first + count) of a rank, or (rank == BENCH_REDUCED) of the result. */
enum { BENCH_REDUCED = -1 };
void bench_data_fill(const bench_data *data, int rank, size_t first, size_t count, void *out);

/* How many of count elements at `values` differ in any bit from what fill stores. */
size_t bench_data_wrong(const bench_data *data, int rank, size_t first, size_t count,
                        const void *values);

/* How a size is divided among ranks. */
typedef struct bench_layout {
    size_t count;      /* as coll_op_desc has it */
    size_t size_bytes; /* what is left of the size asked for; see nccl-tests */
    size_t send_count;
    size_t recv_count;
} bench_layout;

bench_layout bench_layout_make(coll_kind kind, int ranks, size_t size_bytes, size_t element_bytes);

/* Bus bandwidth over algorithm bandwidth. */
double bench_bus_factor(coll_kind kind, int ranks);

#endif
