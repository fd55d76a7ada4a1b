/* All ranks' plans on a network that exists on paper: links with a latency, a price per message and
 * per byte (coll/tune.h), a link in and a link out for every rank, and one of each for every host.
 *
 * A step takes its bytes' time on the links that it uses, begins when they are free and what it
 * needs has begun to be there, and ends no earlier than what it needs has ended, one chunk later:
 * that is the pipelining of the real executor, without its chunks. Steps are taken in the order of
 * time. Memory grows with the messages under way: 4096 ranks of `direct`, which all send to all,
 * take some 4 GB. */
#ifndef COLL_SIMULATE_NETWORK_H
#define COLL_SIMULATE_NETWORK_H

#include "coll/tune.h"
#include "plan/plan.h"

enum { SIMULATE_RANKS_MAX = 4096 };

typedef struct simulate_result {
    double time_us;  /* until the last rank has ended, start_us included */
    double messages; /* on all links */
    double bytes;
} simulate_result;

/* Plays the operation of whole_bytes to its end; plan->rank is not read. COLL_ERR_STATE, and who is
 * stuck, if the schedule does not complete; COLL_ERR_MEMORY. */
COLL_MUST_CHECK coll_status simulate_run(const coll_plan *plan, const coll_costs *costs,
                                         size_t whole_bytes, simulate_result *result,
                                         coll_error *reterr);

#endif
