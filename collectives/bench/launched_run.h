/* coll-bench as the program of `launcher --ranks N -- coll-bench ...`: this process is one rank of
 * the launcher's job, on one host or several. */
#ifndef COLL_BENCH_LAUNCHED_RUN_H
#define COLL_BENCH_LAUNCHED_RUN_H

#include "bench.h"

/* The ranks of the launcher's job; 0: no launcher has started this process. */
int bench_launched_ranks(void);

/* Joins, measures, and prints on rank 0. What the launcher decides is put into *options. An exit
 * code; logs its errors. Blocks. */
int bench_run_launched(bench_options *options);

#endif
