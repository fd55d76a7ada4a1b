/* Which host an attempt has failed by, and whether the job goes on without that one. Called by result.c when an
 * attempt has ended, and by head_messages.c when that host comes again. */
#include <stdio.h>

#include "base/clock.h"
#include "base/text.h"
#include "job/head_impl.h"

/* So many failures of one host, with no checkpoint between them, are no chance. */
enum { FAULTS_MAX = 2 };

/* The node of the rank that this one could not be connected to; -1: none, or the same. */
static int unreached_node(const launch_session *session, int rank)
{
    const launch_rank *one = &session->ranks[rank];
    const int node = one->unreached >= 0 ? session->ranks[one->unreached].node : one->node;
    return node != one->node ? node : -1;
}

/* Whether the host has gone because the head stood still. Its launcher gives up a head that says nothing for
 * --host-timeout, which shows at once, or if the network has gone as well, once it has been silent as long. */
static bool has_missed_head(const launch_head *head, const launch_node *lost)
{
    const int64_t heard_ns = lost->last_message_ns - head->slept_ns;
    return head->slept_ns != 0 && heard_ns < head->options->host_timeout_ms * BASE_NS_PER_MS;
}

/* The host that was lost, if it was that one which failed: the head is not why, and others are not lost, too. */
static int lost_node(const launch_session *session)
{
    const launch_head *head = session->head;
    int lost = 0;
    for (int node = 1; node < head->node_count; node++) {
        if (head->nodes[node].state == LAUNCH_NODE_LOST) {
            if (lost != 0 || has_missed_head(head, &head->nodes[node])) {
                return 0;
            }
            lost = node;
        }
    }
    return lost;
}

/* Whether the rank that was waited for may hang instead. One that runs fails as well: it has waited as long, or finds that
 * others have left. */
static bool may_hang(const launch_session *session)
{
    const launch_cause *cause = &session->cause;
    const int peer = session->ranks[cause->rank].unreached;
    return cause->waited && !session->ranks[peer].failed_unasked;
}

/* Of all hosts but the head's, the one whose rank may hang; else the one that most ranks of others could not be
 * connected to, or the other way round: without it, most links are whole. */
static int worst_connected(const launch_session *session)
{
    int links[PROTO_NODES_MAX] = {0};
    int worst = 0;
    const int awaited = unreached_node(session, session->cause.rank);
    if (awaited > 0 && may_hang(session)) {
        return awaited;
    }
    for (int rank = 0; rank < session->world_size; rank++) {
        const int peer = unreached_node(session, rank);
        if (peer >= 0) {
            links[peer]++;
            links[session->ranks[rank].node]++;
        }
    }
    for (int node = 1; node < session->head->node_count; node++) {
        worst = worst == 0 || links[node] >= links[worst] ? node : worst;
    }
    return worst;
}

/* Whether two hosts that are both in the job do not reach each other; says so. */
static bool is_cut(launch_session *session)
{
    const launch_head *head = session->head;
    launch_cause *cause = &session->cause;
    const bool connecting = cause->blame == LAUNCH_BLAME_CONNECTING && cause->rank >= 0;
    const int peer = connecting ? unreached_node(session, cause->rank) : -1;
    if (peer < 0) {
        return false;
    }
    const int own = session->ranks[cause->rank].node;
    const bool with_head = own == 0 || peer == 0;
    char hangs[32] = "";
    if (may_hang(session)) {
        (void)snprintf(hangs, sizeof hangs, ", or rank %d hangs",
                       session->ranks[cause->rank].unreached);
    }
    base_text_append(cause->error.message, sizeof cause->error.message,
                     "; %s" NODE_FORMAT " and " NODE_FORMAT " %s%s: check the network and the "
                     "firewall between these two (--interface, --listen-ports)",
                     with_head ? "the ranks of " : "", NODE_ARGS(head, own), NODE_ARGS(head, peer),
                     with_head ? "do not reach each other, though their launchers do"
                               : "reach the head, but not each other",
                     hangs);
    return true;
}

void launch_head_judge(launch_session *session)
{
    launch_head *head = session->head;
    if (head == NULL) {
        return;
    }
    for (int node = 1; node < head->node_count; node++) {
        launch_node *one = &head->nodes[node];
        if (one->ranks > 0 && head_has_come_further(session)) {
            one->faults = 0;
            one->cuts = 0;
        }
    }
    const bool cut = is_cut(session);
    const int node = cut                                         ? worst_connected(session)
                     : session->cause.blame == LAUNCH_BLAME_HOST ? lost_node(session)
                                                                 : session->cause.node;
    if (node == 0) {
        return;
    }
    launch_node *one = &head->nodes[node];
    int *count = cut ? &one->cuts : &one->faults;
    *count += cut && session->cause.waited && !may_hang(session) ? FAULTS_MAX : 1;
    if (*count < FAULTS_MAX || !session->options->tried_again) {
        return;
    }
    if (head_may_lose(session, node)) {
        const bool lost = one->state == LAUNCH_NODE_LOST;
        one->sent_away = true;
        one->left = true;
        base_text_append(session->cause.error.message, sizeof session->cause.error.message,
                         "; " NODE_FORMAT "%s%s: the job goes on without it. %s joins when the "
                         "job next starts again",
                         NODE_ARGS(head, node),
                         cut ? "" : " has failed before, without a checkpoint in between, and",
                         lost ? " is not awaited any more" : " is sent away",
                         lost ? "If it comes back, it"
                              : "Once that is mended, start its launcher again: it");
    } else if (cut) {
        session->cause.fails_again = true;
    }
}

bool head_keeps_away(const launch_session *session, int node)
{
    const launch_head *head = session->head;
    return head->nodes[node].sent_away && head->gathering &&
           (head_has_enough(session) || base_now_ns() < head->lost_until_ns);
}
