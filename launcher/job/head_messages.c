/* Handles what agents say: that they are prepared, and how their ranks fare. Called by head.c for
 * each message of an agent. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "job/head_impl.h"

static void break_off(launch_session *session, int node, const envelope_type *envelope)
{
    char what[128];
    (void)snprintf(what, sizeof what, "its launcher sent \"%s\" out of place",
                   proto_envelope_name(envelope));
    if (session->head->nodes[node].state == LAUNCH_NODE_WAITING) {
        head_leave(session, node, what);
    } else {
        head_lose(session, node, what);
    }
}

/* The rank of a message, if it runs on that node. */
static launch_rank *rank_of(launch_session *session, int node, uint32_t rank)
{
    const launch_node *from = &session->head->nodes[node];
    const bool own =
        rank >= (uint32_t)from->first_rank && rank < (uint32_t)(from->first_rank + from->ranks);
    return own && from->state == LAUNCH_NODE_BEGUN ? &session->ranks[rank] : NULL;
}

static bool handle_started(launch_session *session, int node,
                           const Ringfence__Control__Started *started)
{
    launch_rank *rank = rank_of(session, node, started->rank);
    if (rank == NULL || rank->process.pid != 0) {
        return false;
    }
    rank->process.pid = (pid_t)started->pid;
    launch_rank_info *info = &session->result->ranks[started->rank];
    info->bound = started->cpus.len > 0;
    launch_cpus_unpack(started->cpus.data, started->cpus.len, &info->cpus);
    return true;
}

/* What a launcher may have sent that was not taken: its room, which one message may pass, and what its
 * ranks leave in their pipes when they end. */
static uint64_t printed_ahead_max(const launch_node *node)
{
    const uint64_t messages = 1 + 2 * (uint64_t)node->ranks * PROTO_PRINTED_LAST_MESSAGES_MAX;
    return PROTO_PRINTED_AHEAD_BYTES + messages * PROTO_PRINTED_BYTES_MAX;
}

static bool handle_printed(launch_session *session, int node,
                           const Ringfence__Control__Printed *printed)
{
    const launch_rank *rank = rank_of(session, node, printed->rank);
    if (rank == NULL || rank->remote.ended) {
        return false;
    }
    launch_node *from = &session->head->nodes[node];
    from->printed_bytes += printed->data.len;
    if (from->printed_bytes - from->taken_bytes > printed_ahead_max(from)) {
        head_lose(session, node, "its launcher has sent more output than it was given room for");
        return true;
    }
    launch_watch_printed(session, (int)printed->rank, printed->is_stderr ? 2 : 1,
                         (const char *)printed->data.data, printed->data.len, printed->last);
    return true;
}

static bool handle_halted(launch_session *session, int node,
                          const Ringfence__Control__Halted *halted)
{
    const launch_rank *rank = rank_of(session, node, halted->rank);
    if (rank == NULL || rank->remote.ended) {
        return false;
    }
    launch_watch_halted(session, (int)halted->rank, (int)halted->signal, base_now_ns());
    return true;
}

static bool handle_exited(launch_session *session, int node,
                          const Ringfence__Control__Exited *exited)
{
    launch_rank *rank = rank_of(session, node, exited->rank);
    if (rank == NULL || rank->remote.ended) {
        return false;
    }
    rank->remote = (launch_remote){
        .ended = true, .by_signal = exited->by_signal, .status = (int)exited->status};
    (void)snprintf(rank->remote.reason, sizeof rank->remote.reason, "%s", exited->reason);
    if (exited->state != NULL && session->job->output.directory[0] != '\0') {
        rank->remote.state.saved = true;
        rank->remote.state.size_bytes = exited->state->size_bytes;
        memcpy(rank->remote.state.sha256, exited->state->sha256.data, PROTO_DIGEST_BYTES);
        head_fetch_states(session, node);
    } else {
        launch_watch_exit(session, (int)exited->rank);
    }
    return true;
}

static bool handle_asked(launch_session *session, int node, const Ringfence__Control__Asked *asked)
{
    launch_head *head = session->head;
    if (head->nodes[node].state != LAUNCH_NODE_BEGUN) {
        return false;
    }
    if (head->nodes[node].left) {
        return true; /* once more: the attempt ends already */
    }
    if (head_may_lose(session, node)) {
        const char *name = sigabbrev_np((int)asked->signal);
        head->nodes[node].left = true;
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK,
                     BASE_EXIT_SIGNAL_BASE + (int)asked->signal,
                     NODE_FORMAT " leaves the job: its user has ended its launcher (SIG%s)",
                     NODE_ARGS(head, node), name != NULL ? name : "?");
        return true;
    }
    if (session->stop_signal == 0) {
        launch_screen_say(&session->screen, "its user ends the job at " NODE_FORMAT,
                          NODE_ARGS(head, node));
    }
    launch_stop(session, (int)asked->signal, head->nodes[node].asked);
    head->nodes[node].asked = true;
    return true;
}

/* The launcher of a host cannot go on. */
static bool handle_refuse(launch_session *session, int node,
                          const Ringfence__Control__Refuse *refuse)
{
    if (session->head->gathering && refuse->for_now) {
        head_leave(session, node, refuse->reason);
        return true;
    }
    if (launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR,
                     NODE_FORMAT " cannot take part: %s", NODE_ARGS(session->head, node),
                     refuse->reason)) {
        session->cause.node = node;
    }
    return true;
}

static bool handle_prepared(launch_session *session, int node,
                            const Ringfence__Control__Prepared *prepared)
{
    launch_node *from = &session->head->nodes[node];
    if (from->state != LAUNCH_NODE_ENROLLED) {
        return false;
    }
    from->state = LAUNCH_NODE_PREPARED;
    from->knows_room = prepared->knows_room;
    from->room_bytes = prepared->room_bytes;
    if (prepared->files > 0 && !session->options->quiet) {
        launch_screen_say(&session->screen, NODE_FORMAT " has fetched %" PRIu32 " %s (%.1f MB)",
                          NODE_ARGS(session->head, node), prepared->files,
                          prepared->files == 1 ? "file" : "files", (double)prepared->bytes / 1e6);
    }
    return true;
}

static bool handle_any(launch_session *session, int node, const envelope_type *envelope)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PREPARED:
        return handle_prepared(session, node, envelope->prepared);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_STARTED:
        return handle_started(session, node, envelope->started);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PRINTED:
        return handle_printed(session, node, envelope->printed);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_HALTED:
        return handle_halted(session, node, envelope->halted);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXITED:
        return handle_exited(session, node, envelope->exited);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ASKED:
        return handle_asked(session, node, envelope->asked);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_REFUSE:
        return handle_refuse(session, node, envelope->refuse);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FETCH:
        return head_send_chunk(session, node, envelope->fetch);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CHUNK:
        return head_take_chunk(session, node, envelope->chunk);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT:
        head_show_files(session, node, envelope->heartbeat);
        return true;
    default:
        return false;
    }
}

/* It calls again every second. */
static void put_off(launch_session *session, int node)
{
    char reason[] = "this host was sent away, and is not needed yet";
    Ringfence__Control__Refuse refuse = RINGFENCE__CONTROL__REFUSE__INIT;
    refuse.reason = reason;
    refuse.for_now = true;
    head_send(session->head, node, &refuse.base);
    session->sent = true;
}

/* Of a node that is not in this attempt: it comes, or its user has ended the job when the attempt before had
 * just ended. */
static void handle_absent(launch_session *session, int node, const envelope_type *envelope)
{
    launch_head *head = session->head;
    const bool enrolls = envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_ENROLL;
    const bool asks = envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_ASKED;
    if (enrolls && head_keeps_away(session, node)) {
        put_off(session, node);
    } else if (enrolls && (head->gathering || head->nodes[node].ranks == 0)) {
        head_enroll(session, node, envelope->enroll);
        return;
    }
    if (asks && head->gathering) {
        head->nodes[node].left = true;
        head->nodes[node].returning = false;
        if (!head_may_do_without(session)) {
            head_stop_gathering(session, (int)envelope->asked->signal);
        }
    }
    proto_bus_forget(head->bus, node); /* its next connection may do better */
}

void head_handle(launch_session *session, int node, const envelope_type *envelope)
{
    const launch_node_state state = session->head->nodes[node].state;
    const bool enrolls = envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_ENROLL;
    const bool lives = envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT;
    if (state == LAUNCH_NODE_ABSENT) {
        handle_absent(session, node, envelope);
    } else if (enrolls || (state == LAUNCH_NODE_WAITING && !lives) ||
               !handle_any(session, node, envelope)) {
        break_off(session, node, envelope);
    }
}
