/* What coll-bench prints: nccl-tests' header, rows and footer, and the roofline. */
#ifndef COLL_BENCH_TABLE_H
#define COLL_BENCH_TABLE_H

#include <stdio.h>

#include "bench.h"

/* roofline NULL: none was measured, also below. */
void bench_table_header(FILE *out, const bench_options *options, const bench_shared *shared,
                        const bench_roofline *roofline);

/* A row in three parts, so that it grows while it is measured. */
void bench_table_row_begin(FILE *out, const bench_row *row);
void bench_table_column(FILE *out, const bench_column *column);
void bench_table_row_end(FILE *out);

void bench_table_footer(FILE *out, const bench_options *options, const bench_shared *shared,
                        const bench_roofline *roofline);

/* Wrong values of all rows. */
int64_t bench_total_wrong(const bench_shared *shared);

#endif
