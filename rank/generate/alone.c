/* Lets one rank work while the others sleep. Called by baseline.c and curve_run.c, which measure
 * one rank, and by the engine of that rank. */
#include "generate/alone.h"

#include "base/clock.h"
#include "ringfence/coll_error.h"

enum { PERIOD_S_MAX = 1, PERIODS_PER_TIMEOUT = 4 };

int64_t rank_alone_period_ns(int64_t timeout_ns)
{
    const int64_t longest_ns = PERIOD_S_MAX * BASE_NS_PER_S;
    const int64_t part_ns = timeout_ns / PERIODS_PER_TIMEOUT;
    return part_ns < longest_ns ? part_ns : longest_ns;
}

static base_status broadcast(coll_comm *comm, int32_t *state, base_error *reterr)
{
    const base_status status =
        (base_status)coll_broadcast(comm, state, 1, COLL_INT32, 0, coll_error_of(reterr));
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "while one rank works alone");
}

base_status rank_alone_tick(rank_alone *alone, base_error *reterr)
{
    int32_t state = RANK_ALONE_WAIT;
    if (alone == NULL) {
        return BASE_OK;
    }
    const int64_t now_ns = base_now_ns();
    if (now_ns < alone->due_ns) {
        return BASE_OK;
    }
    alone->due_ns = now_ns + rank_alone_period_ns(alone->timeout_ns);
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
