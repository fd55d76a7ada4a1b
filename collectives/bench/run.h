/* A whole run of coll-bench: starts the ranks, waits for them, and ends what is left of them. */
#ifndef COLL_BENCH_RUN_H
#define COLL_BENCH_RUN_H

#include "bench.h"

/* Whether the files that the options name could be written, so that no run ends for nothing. */
COLL_MUST_CHECK coll_status bench_check_files(const bench_options *options, coll_error *reterr);

/* An exit code: BASE_EXIT_ERROR if a rank failed or any value was wrong, BASE_EXIT_SIGNAL_BASE +
 * the signal on SIGINT, SIGTERM and SIGHUP, which end all ranks first. Logs its errors. Blocks. */
int bench_run(const bench_options *options);

#endif
