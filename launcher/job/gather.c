/* Lets the launchers of all hosts enrol with the head, and hands each its part of the job. Called by
 * job_run.c before any rank is started, and by head.c for each message of that time. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/version.h"
#include "job/flag_digests.h"
#include "job/head_impl.h"

enum { POLL_MS_MAX = 1000 };

/* False: it is absent for the same reason as before. */
static bool note_absence(launch_node *node, const char *what, const char *why)
{
    char text[LAUNCH_WHY_BYTES];
    (void)snprintf(text, sizeof text, "%s: %s", what, why);
    const bool is_new = strcmp(text, node->why_absent) != 0;
    (void)snprintf(node->why_absent, sizeof node->why_absent, "%s", text);
    return is_new;
}

void head_refuse(launch_session *session, int node, const char *hostname, const base_error *why)
{
    launch_head *head = session->head;
    char reason[BASE_ERROR_MESSAGE_BYTES];
    Ringfence__Control__Refuse refuse = RINGFENCE__CONTROL__REFUSE__INIT;
    (void)snprintf(reason, sizeof reason, "%s", why->message);
    refuse.reason = reason;
    head_send(head, node, &refuse.base);
    proto_bus_forget(head->bus, node); /* its next connection may do better */
    session->sent = true;
    /* somebody may start it again and again */
    if (note_absence(&head->nodes[node], "refused", why->message)) {
        launch_screen_say(&session->screen, "warning: refused host %s (node %d): %s", hostname,
                          node, why->message);
    }
}

void head_refuse_second(launch_session *session, int node)
{
    launch_head *head = session->head;
    const launch_node *first = &head->nodes[node];
    char reason[BASE_ERROR_MESSAGE_BYTES];
    base_error ignored;
    Ringfence__Control__Refuse refuse = RINGFENCE__CONTROL__REFUSE__INIT;
    (void)snprintf(reason, sizeof reason,
                   first->state != LAUNCH_NODE_LOST ? "node %d is in the job already: host %s"
                   : session->options->tried_again
                       ? "node %d (host %s) was given up, and this attempt ends"
                       : "node %d (host %s) was given up: the job goes on without it, or has ended",
                   node, first->hostname);
    refuse.reason = reason;
    /* the first may turn out to be gone */
    refuse.for_now = head->gathering || session->options->tried_again;
    (void)!proto_bus_answer_second(head->bus, &refuse.base, &ignored);
    session->sent = true;
}

/* Whether the launcher belongs to this job. */
static base_status check_enrolment(const launch_session *session, int node,
                                   const Ringfence__Control__Enroll *enroll, base_error *reterr)
{
    const launch_head *head = session->head;
    const int ranks = head->ranks_per_node;
    if (strcmp(enroll->run_id, head->bootstrap.run_id) != 0 || enroll->node != (uint32_t)node) {
        return base_fail(reterr, BASE_ERR_AUTH, "it presents itself as node %u of run %s",
                         enroll->node, enroll->run_id);
    }
    if (strcmp(enroll->build, base_version_build()) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "it is of build %s, the head of %s",
                         enroll->build, base_version_build());
    }
    if (enroll->nodes != (uint32_t)head->node_count) {
        return base_fail(reterr, BASE_ERR_INVALID, "it has --nodes %u, the head %d", enroll->nodes,
                         head->node_count);
    }
    if (enroll->ranks != 0 && enroll->ranks != (uint32_t)ranks) {
        return base_fail(reterr, BASE_ERR_INVALID, "it has --ranks-per-node %u, the head %d",
                         enroll->ranks, ranks);
    }
    if (session->options->program != NULL && enroll->flag_digests.len == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it was given no program: -- PROGRAM must stand on each host");
    }
    return enroll->flag_digests.len == 0
               ? BASE_OK
               : launch_flag_digests_compare(&head->options->flag_digests, session->job,
                                             enroll->flag_digests.data, enroll->flag_digests.len,
                                             reterr);
}

static base_status send_assign(launch_session *session, int node, base_error *reterr)
{
    const launch_node *to = &session->head->nodes[node];
    const launch_job_options *options = session->options;
    Ringfence__Control__File files[PROTO_FILES_MAX];
    Ringfence__Control__File *list[PROTO_FILES_MAX];
    char *text = NULL;
    size_t text_bytes = 0;
    Ringfence__Control__Assign assign = RINGFENCE__CONTROL__ASSIGN__INIT;
    for (int i = 0; i < options->file_count; i++) {
        const proto_file *file = &options->files[i];
        ringfence__control__file__init(&files[i]);
        files[i].key = (char *)(uintptr_t)file->key;
        files[i].name = (char *)(uintptr_t)file->name;
        files[i].size_bytes = file->size_bytes;
        files[i].sha256 =
            (ProtobufCBinaryData){PROTO_DIGEST_BYTES, (uint8_t *)(uintptr_t)file->sha256};
        list[i] = &files[i];
    }
    assign.n_files = (size_t)options->file_count;
    assign.files = list;
    base_status status = proto_job_write(session->job, session->root, &text, &text_bytes, reterr);
    if (status == BASE_OK) {
        assign.first_rank = (uint32_t)to->first_rank;
        assign.ranks = (uint32_t)to->ranks;
        assign.world_size = (uint32_t)session->world_size;
        assign.job = (ProtobufCBinaryData){text_bytes, (uint8_t *)text};
        assign.ports = (char *)(uintptr_t)session->head->options->ports;
        assign.host_timeout_ms = session->head->options->host_timeout_ms;
        assign.tried_again = options->tried_again;
        assign.may_leave = options->tried_again && options->min_hosts > 0;
        status = proto_bus_send(session->head->bus, node, &assign.base, reterr);
        session->sent = true;
    }
    free(text);
    return status;
}

/* Lets an agent wait for the next attempt, or the job's end. */
static base_status send_wait(launch_session *session, int node, base_error *reterr)
{
    Ringfence__Control__Wait wait = RINGFENCE__CONTROL__WAIT__INIT;
    wait.host_timeout_ms = session->head->options->host_timeout_ms;
    session->sent = true;
    return proto_bus_send(session->head->bus, node, &wait.base, reterr);
}

const char *launch_head_hostname(const launch_head *head, int node)
{
    return head->nodes[node].hostname;
}

void head_enroll(launch_session *session, int node, const Ringfence__Control__Enroll *enroll)
{
    launch_head *head = session->head;
    launch_node *from = &head->nodes[node];
    base_error error;
    base_status status = check_enrolment(session, node, enroll, &error);
    if (status == BASE_OK) {
        status =
            from->ranks > 0 ? send_assign(session, node, &error) : send_wait(session, node, &error);
    }
    if (status != BASE_OK) {
        head_refuse(session, node, enroll->hostname, &error);
        return;
    }
    (void)snprintf(from->hostname, sizeof from->hostname, "%s", enroll->hostname);
    (void)snprintf(from->boot_id, sizeof from->boot_id, "%s", enroll->boot_id);
    (void)snprintf(from->head_address, sizeof from->head_address, "%s", enroll->head_address);
    from->pid_namespace = enroll->pid_namespace;
    from->net_namespace = enroll->net_namespace;
    from->pid = enroll->pid;
    from->state = from->ranks > 0 ? LAUNCH_NODE_ENROLLED : LAUNCH_NODE_WAITING;
    from->returning = false;
    from->left = false;
    from->sent_away = false;
    from->silent = false;
    from->files_bytes = 0;
    head->show_files_ns = from->last_message_ns + LAUNCH_FILES_SHOWN_MS * BASE_NS_PER_MS;
    from->last_message_ns = from->joined_ns = base_now_ns();
    from->lost = false;
    if (from->ranks == 0 && !session->options->quiet) {
        launch_screen_say(&session->screen, NODE_FORMAT " is there: it waits, and %s%s",
                          NODE_ARGS(head, node),
                          head_wants_pause(session) ? "joins after the next checkpoint"
                                                    : "may join the next attempt",
                          from->trust == LAUNCH_NODE_UNSTEADY
                              ? "; no attempt ends for it, since the last one with it has "
                                "lost it before a checkpoint"
                              : "");
    } else if (!session->options->quiet) {
        char last[24] = "";
        if (from->ranks > 1) {
            (void)snprintf(last, sizeof last, " to %d", from->first_rank + from->ranks - 1);
        }
        launch_screen_say(&session->screen,
                          NODE_FORMAT " has joined: pid %" PRId64 ", %u CPUs, %s %d%s",
                          NODE_ARGS(head, node), from->pid, enroll->cpus,
                          from->ranks > 1 ? "ranks" : "rank", from->first_rank, last);
    }
}

static int64_t join_timeout_ns(const launch_session *session)
{
    return session->job->parallel.join_timeout_ms * BASE_NS_PER_MS;
}

/* For as long as it was there: one that comes and goes is not awaited for ever. */
static void await_again(const launch_session *session, launch_node *node)
{
    const int64_t limit_ns = join_timeout_ns(session);
    const int64_t stay_ns = base_now_ns() - node->joined_ns;
    const int64_t until_ns = base_deadline_after_ns(stay_ns < limit_ns ? stay_ns : limit_ns);
    node->awaited_until_ns = until_ns > node->awaited_until_ns ? until_ns : node->awaited_until_ns;
}

void head_leave(launch_session *session, int node, const char *why)
{
    launch_head *head = session->head;
    if (head->nodes[node].state == LAUNCH_NODE_WAITING) {
        head->nodes[node].left = true;
        launch_screen_say(&session->screen, NODE_FORMAT " does not wait any longer: %s",
                          NODE_ARGS(head, node), why);
    } else if (head->nodes[node].state != LAUNCH_NODE_ABSENT) {
        launch_screen_say(&session->screen, NODE_FORMAT " has left before the job began: %s",
                          NODE_ARGS(head, node), why);
        (void)note_absence(&head->nodes[node], "has left", why);
        await_again(session, &head->nodes[node]);
    }
    head->nodes[node].state = LAUNCH_NODE_ABSENT;
    proto_bus_forget(head->bus, node);
}

static bool all_prepared(const launch_head *head)
{
    int node = 1;
    while (node < head->node_count &&
           (head->nodes[node].ranks == 0 || head->nodes[node].state == LAUNCH_NODE_PREPARED)) {
        node++;
    }
    return node == head->node_count;
}

/* "node 1 (refused: …), node 3": those that are absent. Returns how many. */
static int list_missing(const launch_head *head, char *text, size_t size_bytes)
{
    int count = 0;
    text[0] = '\0';
    for (int node = 1; node < head->node_count; node++) {
        if (head->nodes[node].ranks == 0 || head->nodes[node].state != LAUNCH_NODE_ABSENT) {
            continue;
        }
        const launch_node *one = &head->nodes[node];
        const bool known = one->why_absent[0] != '\0';
        base_text_append(text, size_bytes, "%snode %d%s%s%s", count == 0 ? "" : ", ", node,
                         known ? " (" : "", one->why_absent, known ? ")" : "");
        count++;
    }
    return count;
}

/* When the last one of the hosts that are absent is not awaited any longer. */
static int64_t awaited_until_ns(const launch_session *session)
{
    const launch_head *head = session->head;
    const bool enough = head_has_enough(session);
    int64_t last_ns = 0;
    for (int node = 1; node < head->node_count; node++) {
        const launch_node *one = &head->nodes[node];
        const int64_t until_ns = enough && one->lost ? head->lost_until_ns : one->awaited_until_ns;
        if (one->ranks > 0 && one->state == LAUNCH_NODE_ABSENT && !one->left) {
            last_ns = until_ns > last_ns ? until_ns : last_ns;
        }
    }
    return last_ns;
}

/* Blames hosts that are absent for too long. A host that has joined may take its time, to fetch
 * files: it is watched by its heartbeats. Returns when to call again. */
static int64_t check_missing(launch_session *session, int64_t now_ns)
{
    char missing[BASE_ERROR_MESSAGE_BYTES / 2];
    char enough[48] = "";
    const int count = list_missing(session->head, missing, sizeof missing);
    if (count == 0 || session->cause.blame != 0) {
        return BASE_NO_DEADLINE;
    }
    const int64_t until_ns = awaited_until_ns(session);
    if (now_ns < until_ns) {
        return until_ns;
    }
    if (head_do_with_fewer(session)) {
        return now_ns;
    }
    if (session->options->min_hosts > 0) {
        (void)snprintf(enough, sizeof enough, ", and --min-nodes is %d",
                       session->options->min_hosts);
    }
    launch_blame(
        session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR,
        "%d of %d hosts have not joined within %g s%s: %s (launcher --node-rank K with the "
        "key of run %s)",
        count, session->head->node_count, (double)session->job->parallel.join_timeout_ms / 1000,
        enough, missing, session->head->bootstrap.run_id);
    return now_ns;
}

void head_stop_gathering(launch_session *session, int signal_number)
{
    session->stop_signal = signal_number;
    session->head->farewell_ns = base_deadline_after_ns(LAUNCH_FAREWELL_MS * BASE_NS_PER_MS);
    launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_SIGNAL_BASE + signal_number,
                 session->options->attempt > 1 ? "ended before all hosts had joined again"
                                               : "ended before all hosts had joined");
}

static void take_signals(launch_session *session)
{
    const launch_place *place = session->options->place;
    const bool in_slurm = place != NULL && place->in_slurm;
    struct signalfd_siginfo info;
    while (read(session->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (launch_signal_ends((int)info.ssi_signo, in_slurm)) {
            if (session->stop_signal != 0) {
                session->head->farewell_ns = base_now_ns(); /* again: at once */
            } else {
                head_stop_gathering(session, (int)info.ssi_signo);
            }
        }
    }
}

/* Whether to wait on for agents. After the user has ended the job: for those that are about to enrol again, as they
 * would call in vain later on. */
static bool is_awaited(const launch_session *session)
{
    const launch_head *head = session->head;
    if (session->cause.blame == 0) {
        return !session->is_short && !all_prepared(head);
    }
    int node = 1;
    while (node < head->node_count && !head->nodes[node].returning) {
        node++;
    }
    return session->stop_signal != 0 && node < head->node_count &&
           base_now_ns() < head->farewell_ns;
}

/* Hosts are awaited for --join-timeout. Those that were lost with the attempt before, and that the job can do without,
 * for --host-timeout: whoever watches over them may start their launchers again, and all others wait for that. */
static void set_deadlines(launch_session *session)
{
    launch_head *head = session->head;
    const int64_t join_ns = join_timeout_ns(session);
    const int64_t host_ns = head->options->host_timeout_ms * BASE_NS_PER_MS;
    head->lost_until_ns = base_deadline_after_ns(host_ns < join_ns ? host_ns : join_ns);
    for (int node = 1; node < head->node_count; node++) {
        head->nodes[node].awaited_until_ns = base_deadline_after_ns(join_ns);
    }
}

void launch_head_gather(launch_session *session)
{
    launch_head *head = session->head;
    set_deadlines(session);
    head->gathering = true;
    char missing[BASE_ERROR_MESSAGE_BYTES / 2];
    const int count = list_missing(head, missing, sizeof missing);
    if (count > 0 && !session->options->quiet && !head_waits_in_vain(session)) {
        launch_screen_say(&session->screen, "run %s: waiting at %s for %d more %s%s",
                          head->bootstrap.run_id, proto_bus_endpoint(head->bus), count,
                          count == 1 ? "host" : "hosts", head->others);
    }
    for (launch_head_drain(session); is_awaited(session); launch_head_drain(session)) {
        struct pollfd polls[PROTO_BUS_FDS + 1];
        session->sent = false;
        const int64_t now_ns = base_now_ns();
        int64_t due_ns = launch_head_due(session, now_ns);
        const int64_t missing_ns = check_missing(session, now_ns);
        due_ns = missing_ns < due_ns ? missing_ns : due_ns;
        if (session->stop_signal != 0 && head->farewell_ns < due_ns) {
            due_ns = head->farewell_ns;
        }
        launch_head_polls(session, polls);
        polls[PROTO_BUS_FDS] = (struct pollfd){.fd = session->signal_fd, .events = POLLIN};
        /* sending may have consumed the bus's wake-up: then look again before sleeping */
        if (poll(polls, PROTO_BUS_FDS + 1,
                 base_deadline_poll_ms(due_ns, session->sent ? 0 : POLL_MS_MAX)) < 0) {
            continue;
        }
        take_signals(session);
    }
    head->gathering = false;
    launch_bootstrap_withdraw(&head->bootstrap);
    launch_screen_clear(&session->screen);
}
