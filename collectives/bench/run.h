/* A whole run of coll-bench: starts the ranks, waits for them, and ends what is left of them. */
#ifndef COLL_BENCH_RUN_H
#define COLL_BENCH_RUN_H

#include "bench.h"
#include "bench/on_device.h"

/* Whether the files that the options name could be written, so that no run ends for nothing. */
COLL_MUST_CHECK coll_status bench_check_files(const bench_options *options, coll_error *reterr);

/* Whether this host has memory for the buffers of so many ranks. The kernel gives pages when they are
 * written: without this it would give more than there are, and kill a process later, maybe another. */
COLL_MUST_CHECK coll_status bench_check_room(const bench_options *options, int ranks_here,
                                             coll_error *reterr);

/* The run of ranks that are there already, over their context; device NULL: on CPUs. Collective. Rank 0
 * prints, and writes the files that the options name; *code is then the exit code. */
COLL_MUST_CHECK coll_status bench_run_apart(const bench_options *options, coll_context *context,
                                            const bench_device *device, int *code,
                                            coll_error *reterr);

/* An exit code: BASE_EXIT_ERROR if a rank failed or any value was wrong, BASE_EXIT_SIGNAL_BASE +
 * the signal on SIGINT, SIGTERM and SIGHUP, which end all ranks first. Logs its errors. Blocks. */
int bench_run(const bench_options *options);

#endif
