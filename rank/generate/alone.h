/* Rank 0 works alone for a while, and the other ranks of a communicator sleep.
 *
 * They sleep in a broadcast of one number. Rank 0 repeats it while it loads and between its steps,
 * every second, or four times in a shorter timeout, so that no collective times out. Its last
 * broadcast has the result of its work. One thread. */
#ifndef RANK_GENERATE_ALONE_H
#define RANK_GENERATE_ALONE_H

#include <stdint.h>

#include "base/status.h"
#include "coll/coll.h"

/* What rank 0 broadcasts. */
typedef enum rank_alone_state {
    RANK_ALONE_WAIT = 1,
    RANK_ALONE_DONE = 2,
    RANK_ALONE_NO_ROOM = 3, /* rank 0 did not work, because memory would not suffice */
    RANK_ALONE_FAILED = 4,
} rank_alone_state;

typedef struct rank_alone {
    coll_comm *comm;
    int64_t timeout_ns; /* of its collectives */
    int64_t due_ns;     /* 0 at first */
} rank_alone;

/* How often a rank takes part in a collective that others wait in, so that it does not time out. */
int64_t rank_alone_period_ns(int64_t timeout_ns);

/* On rank 0, often: broadcasts RANK_ALONE_WAIT when it is due. NULL: nobody waits. */
BASE_MUST_CHECK base_status rank_alone_tick(rank_alone *alone, base_error *reterr);

/* On rank 0, once: its last broadcast. */
BASE_MUST_CHECK base_status rank_alone_end(rank_alone *alone, rank_alone_state state,
                                           base_error *reterr);

/* On the other ranks: sleeps until the last broadcast. */
BASE_MUST_CHECK base_status rank_alone_sleep(coll_comm *comm, rank_alone_state *state,
                                             base_error *reterr);

#endif
