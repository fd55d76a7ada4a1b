/* How the ranks of a benchmark keep in step, and how rank 0 gets what all have measured.
 *
 * Ranks that coll-bench has forked share memory: they pass its gate, and their times are of one
 * clock. Ranks that a launcher has started (shared->apart) may be on several hosts. They keep in
 * step through the library's own barrier, outside what is timed. There is no common clock, so a
 * sample's time is the longest of all ranks: it contains the time between the first and the last
 * rank's leaving of the barrier. */
#ifndef COLL_BENCH_TEAM_H
#define COLL_BENCH_TEAM_H

#include "bench.h"

/* Collective, all of them. COLL_ERR_ABORTED: another rank has failed, and said why. */

/* The first: rank 0 gets pids, processors and hosts of all. */
COLL_MUST_CHECK coll_status bench_team_enter(bench_shared *shared, coll_comm *comm,
                                             coll_error *reterr);

COLL_MUST_CHECK coll_status bench_team_pass(bench_shared *shared, coll_comm *comm,
                                            coll_error *reterr);

/* All ranks get the numbers of samples and of operations that rank 0 has chosen. */
COLL_MUST_CHECK coll_status bench_team_agree(bench_shared *shared, coll_comm *comm,
                                             coll_error *reterr);

/* Rank 0 gets the samples, and the wrong values. */
COLL_MUST_CHECK coll_status bench_team_collect(bench_shared *shared, coll_comm *comm,
                                               coll_error *reterr);

#endif
