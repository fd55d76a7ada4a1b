/* Mode gate-check: after the gate, one all-reduce shows that the ranks have found each other.
 * Called by modes.c. */
#include <control.pb-c.h>
#include <inttypes.h>
#include <stdio.h>

#include "modes.h"
#include "ringfence/coll_error.h"

base_status rank_cloud_gate_check(rank_worker *worker, const rank_pass *pass, base_error *reterr)
{
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    coll_comm *world = coll_context_world(worker->context);
    const int64_t mine = worker->identity.rank + 1;
    const int64_t ranks = worker->identity.world_size;
    int64_t sum = 0;
    base_status status = (base_status)coll_all_reduce(world, &mine, &sum, 1, COLL_INT64, COLL_SUM,
                                                      coll_error_of(reterr));
    if (status == BASE_OK) {
        status = (base_status)coll_barrier(world, coll_error_of(reterr));
    }
    if (status == BASE_OK && sum != ranks * (ranks + 1) / 2) {
        status = base_fail(reterr, BASE_ERR_STATE, "1 + … + %" PRId64 " gave %" PRId64, ranks, sum);
    }
    if (status != BASE_OK) {
        return status;
    }
    (void)printf("the gate let all %" PRId64 " ranks in: label %s, %" PRId64 " s left; the sum is "
                 "right\n",
                 ranks, rank_pass_label(pass), rank_pass_seconds(pass));
    (void)fflush(stdout);
    finished.max_rss_bytes = rank_worker_max_rss_bytes();
    return proto_client_finish(worker->client, &finished, reterr);
}
