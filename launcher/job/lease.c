/* The lease of a job: redeems it, hands the ranks of other hosts what they need at their gates, and ends
 * the job when it is over. Called by job_run.c, and by head.c before it tells an agent to start its ranks. */
#include "budget/lease.h"

#include "base/clock.h"
#include "base/exitcode.h"
#include "job/head_impl.h"

void launch_job_redeem(launch_session *session)
{
    launch_lease *lease = session->options->lease;
    int exit_code = BASE_EXIT_ERROR;
    base_error error;
    if (lease != NULL &&
        launch_lease_redeem(lease, session->options->attempt, &exit_code, &error) != BASE_OK) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, exit_code, "%s", error.message);
    }
}

int64_t launch_job_lease_due(launch_session *session, int64_t now_ns)
{
    const launch_lease *lease = session->options->lease;
    if (lease == NULL || session->abort_sent_ns != 0) {
        return BASE_NO_DEADLINE;
    }
    const int64_t left_ns = launch_lease_left_ns(lease) - LAUNCH_LEASE_MARGIN_MS * BASE_NS_PER_MS;
    if (left_ns <= 0) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_REFUSED,
                     "the time that was authorized for %s is over: all ranks are ended",
                     launch_lease_label(lease));
        launch_kill_ranks(session, now_ns);
        return BASE_NO_DEADLINE;
    }
    return now_ns + left_ns;
}

base_status head_send_leases(launch_session *session, int node, base_error *reterr)
{
    const launch_node *to = &session->head->nodes[node];
    base_status status = BASE_OK;
    for (int rank = to->first_rank; rank < to->first_rank + to->ranks && status == BASE_OK;
         rank++) {
        const launch_rank_lease part = launch_lease_of_rank(session->options->lease, rank);
        Ringfence__Control__Lease lease = RINGFENCE__CONTROL__LEASE__INIT;
        lease.rank = (uint32_t)rank;
        lease.attempt = (uint32_t)part.attempt;
        lease.token = (char *)(uintptr_t)part.token;
        lease.receipt = (char *)(uintptr_t)part.receipt;
        status = proto_bus_send(session->head->bus, node, &lease.base, reterr);
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
