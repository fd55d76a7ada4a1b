/* Lets one rank work while the others sleep. Called by baseline.c and curve_run.c, which measure
 * one rank. */
#include "generate/alone.h"

#include "base/clock.h"
#include "ringfence/coll_error.h"

enum { STATE_EVERY_S = 1 };

static base_status broadcast(coll_comm *comm, int32_t *state, base_error *reterr)
{
    coll_error error;
    const base_status status =
        coll_to_base(coll_broadcast(comm, state, 1, COLL_INT32, 0, &error), &error, reterr);
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "while one rank works alone");
}

base_status rank_alone_tick(rank_alone *alone, base_error *reterr)
{
    const int64_t now_ns = base_now_ns();
    int32_t state = RANK_ALONE_WAIT;
    if (now_ns < alone->due_ns) {
        return BASE_OK;
    }
    alone->due_ns = now_ns + STATE_EVERY_S * BASE_NS_PER_S;
    return broadcast(alone->comm, &state, reterr);
}

base_status rank_alone_end(rank_alone *alone, rank_alone_state state, base_error *reterr)
{
    int32_t last = (int32_t)state;
    return broadcast(alone->comm, &last, reterr);
}

base_status rank_alone_sleep(coll_comm *comm, rank_alone_state *state, base_error *reterr)
{
    int32_t received = RANK_ALONE_WAIT;
    base_status status = BASE_OK;
    while (status == BASE_OK && received == RANK_ALONE_WAIT) {
        status = broadcast(comm, &received, reterr);
    }
    *state = (rank_alone_state)received;
    return status;
}
