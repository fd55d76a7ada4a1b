/* Hands the ranks of other hosts what they need at their gates. Called by head.c before it tells an
 * agent to start its ranks. */
#include "base/clock.h"
#include "budget/lease.h"
#include "job/head_impl.h"

base_status head_send_leases(launch_session *session, int node, base_error *reterr)
{
    const launch_node *to = &session->head->nodes[node];
    base_status status = BASE_OK;
    for (int rank = to->first_rank; rank < to->first_rank + to->ranks && status == BASE_OK;
         rank++) {
        const launch_rank_lease part = launch_lease_of_rank(session->options->lease, rank);
        Ringfence__Control__Lease lease = RINGFENCE__CONTROL__LEASE__INIT;
        envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
        lease.rank = (uint32_t)rank;
        lease.attempt = (uint32_t)part.attempt;
        lease.token = (char *)(uintptr_t)part.token;
        lease.receipt = (char *)(uintptr_t)part.receipt;
        envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_LEASE;
        envelope.lease = &lease;
        status = proto_bus_send(session->head->bus, node, &envelope, reterr);
    }
    return status;
}

void head_say_unseen(launch_session *session, int node)
{
    const launch_head *head = session->head;
    const launch_node *lost = &head->nodes[node];
    int unseen = 0;
    for (int rank = lost->first_rank; rank < lost->first_rank + lost->ranks; rank++) {
        unseen += session->ranks[rank].exited ? 0 : 1;
    }
    if (unseen == 0) {
        return;
    }
    launch_screen_say(&session->screen,
                      "warning: nobody saw the end of %d %s on " NODE_FORMAT
                      ": timers end them within %.0f s; what %s has reserved stays reserved until "
                      "the end of its instances is proven",
                      unseen, unseen == 1 ? "rank" : "ranks", NODE_ARGS(head, node),
                      (double)launch_lease_left_ns(session->options->lease) / BASE_NS_PER_S,
                      launch_lease_label(session->options->lease));
}
