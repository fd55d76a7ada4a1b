/* A whole run of coll-bench: starts the ranks, waits for them, and ends what is left of them. */
#ifndef COLL_BENCH_RUN_H
#define COLL_BENCH_RUN_H

#include "bench.h"

/* Whether the files that the options name could be written, so that no run ends for nothing. */
COLL_MUST_CHECK coll_status bench_check_files(const bench_options *options, coll_error *reterr);

/* Whether this host has memory for the buffers of so many ranks. The kernel gives pages when they are
 * written: without this it would give more than there are, and kill a process later, maybe another. */
COLL_MUST_CHECK coll_status bench_check_room(const bench_options *options, int ranks_here,
                                             coll_error *reterr);

/* Zeroed, shared with children, and never unmapped; NULL: no memory. */
bench_shared *bench_map_shared(const bench_options *options);

/* Prints the table's end, and writes JSON and plot. An exit code. Logs its errors. */
int bench_finish(const bench_options *options, const bench_shared *shared,
                 const bench_roofline *roofline);

/* An exit code: BASE_EXIT_ERROR if a rank failed or any value was wrong, BASE_EXIT_SIGNAL_BASE +
 * the signal on SIGINT, SIGTERM and SIGHUP, which end all ranks first. Logs its errors. Blocks. */
int bench_run(const bench_options *options);

#endif
