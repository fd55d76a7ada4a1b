/* What joins the attempts of a job on several hosts: which hosts take part in one, and what the head keeps for
 * the next. Called by head.c, gather.c, head_messages.c and job_run.c. */
#include <stdio.h>

#include "base/assert.h"
#include "base/host.h"
#include "base/text.h"
#include "job/head_impl.h"

/* One that its user has just taken out is not. */
static bool is_present(const launch_node *node)
{
    return node->state >= LAUNCH_NODE_WAITING && node->state <= LAUNCH_NODE_BEGUN && !node->left;
}

/* Hosts that are there, with the head's own. */
static int count_present(const launch_head *head)
{
    int count = 0;
    for (int node = 0; node < head->node_count; node++) {
        count += is_present(&head->nodes[node]) ? 1 : 0;
    }
    return count;
}

static void describe_own(launch_node *own)
{
    base_host host;
    base_host_get(&host);
    (void)snprintf(own->hostname, sizeof own->hostname, "%s", host.hostname);
    (void)snprintf(own->boot_id, sizeof own->boot_id, "%s", host.boot_id);
    own->pid_namespace = host.pid_namespace;
    own->net_namespace = host.net_namespace;
    own->state = LAUNCH_NODE_BEGUN;
    own->present = true;
}

/* All hosts take part, or the first ones of those that were there. */
void head_share_out(launch_session *session)
{
    launch_head *head = session->head;
    const int asked = session->options->host_count;
    const int hosts = asked > 0 ? asked : head->node_count;
    const int ranks = session->world_size / hosts;
    int taken = 0;
    describe_own(&head->nodes[0]);
    for (int node = 0; node < head->node_count; node++) {
        launch_node *one = &head->nodes[node];
        const bool takes_part = taken < hosts && (hosts == head->node_count || one->present);
        one->first_rank = taken * ranks;
        one->ranks = takes_part ? ranks : 0;
        proto_random_key(one->seed);
        for (int rank = one->first_rank; rank < one->first_rank + one->ranks; rank++) {
            session->ranks[rank].node = node;
        }
        taken += takes_part ? 1 : 0;
    }
    BASE_ASSERT(taken == hosts);
}

bool head_may_lose(const launch_session *session, int node)
{
    const launch_job_options *options = session->options;
    const int others =
        count_present(session->head) - (is_present(&session->head->nodes[node]) ? 1 : 0);
    return options->min_hosts > 0 && options->tried_again && session->stop_signal == 0 &&
           others >= options->min_hosts;
}

bool head_may_do_without(const launch_session *session)
{
    const launch_head *head = session->head;
    int count = 0;
    for (int node = 0; node < head->node_count; node++) {
        count += head->nodes[node].left ? 0 : 1;
    }
    return session->options->min_hosts > 0 && count >= session->options->min_hosts;
}

bool head_has_enough(const launch_session *session)
{
    return session->options->min_hosts > 0 &&
           count_present(session->head) >= session->options->min_hosts;
}

/* Of this attempt, but not there. */
static bool is_missing(const launch_node *node)
{
    return node->ranks > 0 && !is_present(node);
}

/* The attempt runs without it, and may end for it. */
static bool may_join(const launch_node *node)
{
    return node->state == LAUNCH_NODE_WAITING && node->trust != LAUNCH_NODE_UNSTEADY;
}

/* "host b (node 1), node 3": those of which that is true. */
static void list_nodes(const launch_head *head, bool (*is)(const launch_node *node), char *text,
                       size_t size_bytes)
{
    text[0] = '\0';
    for (int node = 1; node < head->node_count; node++) {
        const launch_node *one = &head->nodes[node];
        const char *comma = text[0] != '\0' ? ", " : "";
        if (is(one) && one->hostname[0] != '\0') {
            base_text_append(text, size_bytes, "%s" NODE_FORMAT, comma, NODE_ARGS(head, node));
        } else if (is(one)) {
            base_text_append(text, size_bytes, "%snode %d", comma, node);
        }
    }
}

bool head_waits_in_vain(const launch_session *session)
{
    const launch_head *head = session->head;
    int node = 1;
    while (node < head->node_count && (head->nodes[node].ranks == 0 || head->nodes[node].left ||
                                       is_present(&head->nodes[node]))) {
        node++;
    }
    return session->options->min_hosts > 0 && node == head->node_count;
}

bool head_do_with_fewer(launch_session *session)
{
    launch_job_result *result = session->result;
    if (!head_has_enough(session)) {
        return false;
    }
    /* those that are counted are also those that are taken, even if one leaves in this moment */
    for (int node = 1; node < session->head->node_count; node++) {
        launch_node *one = &session->head->nodes[node];
        one->present = is_present(one);
        one->left = !one->present; /* no attempt waits for it again, until it comes */
    }
    session->is_short = true;
    result->hosts_present = count_present(session->head);
    list_nodes(session->head, is_missing, result->hosts_absent, sizeof result->hosts_absent);
    return true;
}

bool head_wants_pause(const launch_session *session)
{
    const launch_job_options *options = session->options;
    const launch_head *head = session->head;
    int waiting = 0;
    int hosts = 1;
    for (int node = 1; node < head->node_count; node++) {
        const launch_node *one = &head->nodes[node];
        const bool joins = may_join(one);
        waiting += joins ? 1 : 0;
        hosts += joins || (one->ranks > 0 && is_present(one)) ? 1 : 0;
    }
    return waiting > 0 && options->would_grow != NULL && options->would_grow(options->user, hosts);
}

void head_ask_for_pause(launch_session *session)
{
    Ringfence__Control__Pause pause = RINGFENCE__CONTROL__PAUSE__INIT;
    base_error ignored;
    const bool wanted = head_wants_pause(session);
    if (!session->result->ready || session->stop_signal != 0 || session->cause.blame != 0 ||
        session->ranks[0].finished || wanted == session->pausing) {
        return;
    }
    pause.withdrawn = !wanted;
    session->sent = true;
    if (proto_bus_send(session->bus, 0, &pause.base, &ignored) ==
        BASE_OK) { /* else once more soon */
        session->pausing = wanted;
        session->asked_to_pause = true;
    }
}

bool head_has_come_further(const launch_session *session)
{
    const launch_job_result *result = session->result;
    const int64_t every = session->job->train.save_every;
    return result->ready && every > 0 &&
           (result->steps_done - 1) / every > (int64_t)result->first_step / every;
}

/* A host that comes and goes ends one attempt, and not each. */
static launch_node_trust trust_after(const launch_session *session, const launch_node *node)
{
    if (node->sent_away) {
        return LAUNCH_NODE_UNSTEADY;
    }
    if (session->result->paused && may_join(node)) {
        return LAUNCH_NODE_TRIED;
    }
    if (node->ranks > 0 && head_has_come_further(session)) {
        return LAUNCH_NODE_TRUSTED;
    }
    return node->trust == LAUNCH_NODE_TRIED && is_missing(node) ? LAUNCH_NODE_UNSTEADY
                                                                : node->trust;
}

/* Why this attempt ends, for the other hosts. */
static const char *describe_end(const launch_session *session)
{
    return session->is_short ? "the job is shared out anew, without hosts that are missing"
           : session->cause.blame == 0 ? "the job is shared out anew, with hosts that have come"
                                       : session->cause.error.message;
}

void launch_head_leave_attempt(launch_session *session)
{
    launch_head *head = session->head;
    if (head == NULL) {
        return;
    }
    launch_job_result *result = session->result;
    list_nodes(head, may_join, result->hosts_joining, sizeof result->hosts_joining);
    head_say_end(head, result->exit_status, describe_end(session), true);
    head_drop_incoming(head);
    for (int node = 1; node < head->node_count; node++) {
        /* what comes over the old connection is nobody's from now on */
        launch_node *one = &head->nodes[node];
        launch_node kept = {.present = one->present,
                            .left = one->left,
                            .trust = trust_after(session, one),
                            .faults = one->faults,
                            .cuts = one->cuts,
                            .sent_away = one->sent_away,
                            .returning = is_present(one),
                            .lost = !is_present(one)};
        (void)snprintf(kept.hostname, sizeof kept.hostname, "%s", one->hostname);
        proto_bus_forget(head->bus, node);
        proto_wipe(one, sizeof *one);
        *one = kept;
    }
    *session->options->kept_head = head;
    session->head = NULL;
}
