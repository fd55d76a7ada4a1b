/* The head's link to the launchers of other hosts: listening, sending, heartbeats, and who is lost.
 * Called by job_run.c for its loop, by start.c and ending.c. */
#include "job/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "job/head_impl.h"
#include "job/writer.h"

/* ---- opening ---- */

static base_status listen_at(launch_head *head, const char *numeric, int port, base_error *reterr)
{
    const proto_bus_listen_options options = {
        .address = numeric,
        .port = port,
        .keys = &head->bootstrap.own,
        .world_size = head->node_count,
        .rank_public_keys = (const uint8_t(*)[PROTO_KEY_BYTES])head->bootstrap.public_keys,
        .agents = true,
    };
    const base_status status = proto_bus_listen(&options, &head->bus, reterr);
    if (status == BASE_OK) {
        (void)snprintf(head->address, sizeof head->address, "%s", numeric);
    }
    return status;
}

static base_status listen_everywhere(launch_head *head, int port, base_error *reterr)
{
    const base_status status = listen_at(head, "*", port, reterr);
    return status == BASE_OK ? status : listen_at(head, "0.0.0.0", port, reterr);
}

/* A name may mean an IPv6 and an IPv4 address, and another host look up the second one alone. */
static void note_others(launch_head *head, int bound)
{
    const base_addresses *found = &head->bootstrap.addresses;
    for (int i = 0; i < found->count; i++) {
        if (i != bound && !launch_address_is_loopback(found->numeric[i])) {
            base_text_append(head->others, sizeof head->others, "%s%s",
                             head->others[0] == '\0' ? ", not at " : ", ", found->numeric[i]);
        }
    }
}

/* Listens on the rendezvous' address, as far as it is known. If that is a name which means only loopback here (as hosts
 * often have their own name), listens on all addresses. localhost is no name by which other hosts could mean this one. */
static base_status listen_somewhere(launch_head *head, const launch_wait *wait, base_error *reterr)
{
    launch_address address;
    const base_addresses *found = &head->bootstrap.addresses;
    base_status status = launch_address_parse(head->options->rendezvous, &address, reterr);
    if (status == BASE_OK && head->options->place.engine == LAUNCH_ENGINE_KUBERNETES) {
        return listen_everywhere(head, address.port, reterr); /* its name may come later */
    }
    if (status == BASE_OK) {
        status = launch_bootstrap_locate(&head->bootstrap, wait, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    bool tried = false;
    const bool stays_here = strcmp(address.host, "localhost") == 0;
    for (int i = 0; i < found->count; i++) {
        const bool literal = strcmp(found->numeric[i], address.host) == 0;
        if (!literal && !stays_here && launch_address_is_loopback(found->numeric[i])) {
            continue;
        }
        tried = true;
        status = listen_at(head, found->numeric[i], address.port, reterr);
        if (status == BASE_OK) {
            note_others(head, i);
            return status;
        }
    }
    if (tried && status == BASE_ERR_BUSY) {
        return base_error_prepend(reterr, status, "another program has that port");
    }
    if (tried) {
        return base_error_prepend(
            reterr, status, "%s must be this host's address, for --node-rank 0", address.host);
    }
    return listen_everywhere(head, address.port, reterr);
}

/* Gets the keys, listens, and says where. */
static base_status meet(launch_session *session, launch_head *head, base_error *reterr)
{
    const launch_wait wait = {
        .deadline_ns =
            base_deadline_after_ns(session->job->parallel.join_timeout_ms * BASE_NS_PER_MS),
        .signal_fd = session->signal_fd,
        .in_slurm = head->options->place.in_slurm,
        .ended_by = &session->stop_signal,
    };
    base_status status = launch_bootstrap_open(head->options, &wait, &head->bootstrap, reterr);
    if (status != BASE_OK) {
        return status;
    }
    proto_random_key(head->bootstrap.public_keys[0]); /* nobody connects as the head */
    if (launch_bootstrap_has_address(&head->bootstrap)) {
        status = listen_somewhere(head, &wait, reterr);
        return status == BASE_OK ? status : base_error_prepend(reterr, status, "--rendezvous");
    }
    status = listen_everywhere(head, 0, reterr);
    return status == BASE_OK
               ? launch_bootstrap_publish(&head->bootstrap,
                                          launch_address_port(proto_bus_endpoint(head->bus)), &wait,
                                          reterr)
               : status;
}

base_status launch_head_open(launch_session *session, base_error *reterr)
{
    const launch_hosts_options *options = session->options->hosts;
    if (session->head != NULL) { /* of the attempt before */
        session->head->seen_ns = base_now_ns();
        head_share_out(session);
        return BASE_OK;
    }
    launch_head *head = calloc(1, sizeof *head);
    if (head == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the other hosts");
    }
    session->head = head;
    head->options = options;
    head->node_count = (int)options->nodes;
    head->ranks_per_node = session->world_size / head->node_count;
    head->seen_ns = base_now_ns();
    head->nodes = calloc((size_t)head->node_count, sizeof head->nodes[0]);
    if (head->nodes == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the other hosts");
    }
    head_share_out(session);
    return meet(session, head, reterr);
}

/* ---- the ranks' ends ---- */

const uint8_t *launch_head_seed(const launch_head *head, int node)
{
    return head->nodes[node].seed;
}

int launch_head_own_ranks(const launch_head *head)
{
    return head->nodes[0].ranks;
}

const char *launch_head_address(const launch_head *head)
{
    return head->address;
}

void launch_head_own_endpoint(const launch_head *head, const char *bound,
                              char endpoint[PROTO_ENDPOINT_BYTES])
{
    const char *numeric = strcmp(head->address, "*") == 0 || strcmp(head->address, "0.0.0.0") == 0
                              ? "127.0.0.1"
                              : head->address;
    for (int node = 1; node < head->node_count && launch_address_is_loopback(numeric); node++) {
        numeric = head->nodes[node].ranks > 0 ? head->nodes[node].head_address : numeric;
    }
    launch_address_endpoint(numeric, launch_address_port(bound), endpoint);
}

static bool on_one_host(const launch_node *a, const launch_node *b)
{
    return strcmp(a->boot_id, b->boot_id) == 0 && a->pid_namespace == b->pid_namespace &&
           a->net_namespace == b->net_namespace;
}

/* Ranks of nodes from `first` up to `end` on the host of `node`. */
static int ranks_between(const launch_head *head, int node, int first, int end)
{
    int ranks = 0;
    for (int other = first; other < end; other++) {
        ranks +=
            on_one_host(&head->nodes[other], &head->nodes[node]) ? head->nodes[other].ranks : 0;
    }
    return ranks;
}

int launch_head_local_ranks(const launch_head *head, int node)
{
    return ranks_between(head, node, 0, head->node_count);
}

int head_ranks_beside(const launch_head *head, int node)
{
    return ranks_between(head, node, 1, head->node_count);
}

base_status launch_head_begin(launch_session *session,
                              const uint8_t launcher_public_key[PROTO_KEY_BYTES],
                              const uint8_t collectives_key[PROTO_KEY_BYTES], base_error *reterr)
{
    launch_head *head = session->head;
    for (int node = 1; node < head->node_count; node++) {
        launch_node *to = &head->nodes[node];
        if (to->ranks == 0) {
            continue;
        }
        Ringfence__Control__Begin begin = RINGFENCE__CONTROL__BEGIN__INIT;
        base_error gone;
        begin.port = (uint32_t)launch_address_port(proto_bus_endpoint(session->bus));
        begin.launcher_public_key =
            (ProtobufCBinaryData){PROTO_KEY_BYTES, (uint8_t *)(uintptr_t)launcher_public_key};
        begin.rank_seed = (ProtobufCBinaryData){PROTO_KEY_BYTES, to->seed};
        begin.collectives_key =
            (ProtobufCBinaryData){PROTO_KEY_BYTES, (uint8_t *)(uintptr_t)collectives_key};
        begin.master_port = (uint32_t)session->master_port;
        begin.local_first = (uint32_t)ranks_between(head, node, 0, node);
        begin.local_ranks = (uint32_t)launch_head_local_ranks(head, node);
        const base_status status =
            session->options->lease != NULL ? head_send_leases(session, node, reterr) : BASE_OK;
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, NODE_FORMAT, NODE_ARGS(head, node));
        }
        if (proto_bus_send(head->bus, node, &begin.base, &gone) != BASE_OK) {
            head_lose(session, node, gone.message); /* it has just gone */
            continue;
        }
        to->state = LAUNCH_NODE_BEGUN;
        for (int rank = to->first_rank; rank < to->first_rank + to->ranks; rank++) {
            session->ranks[rank].started = true;
            session->started_count++;
        }
    }
    session->sent = true;
    return BASE_OK;
}

/* ---- messages ---- */

void head_send(launch_head *head, int node, ProtobufCMessage *body)
{
    base_error ignored;
    (void)!proto_bus_send(head->bus, node, body, &ignored);
}

void launch_head_signal(launch_head *head, int node, int rank, int signal_number)
{
    Ringfence__Control__Signal message = RINGFENCE__CONTROL__SIGNAL__INIT;
    message.rank = (uint32_t)rank;
    message.signal = (uint32_t)signal_number;
    head_send(head, node, &message.base);
}

void head_lose(launch_session *session, int node, const char *what)
{
    launch_head *head = session->head;
    launch_node *lost = &head->nodes[node];
    if (lost->state == LAUNCH_NODE_LOST || lost->state == LAUNCH_NODE_LEFT) {
        return;
    }
    const bool begun = lost->state == LAUNCH_NODE_BEGUN;
    lost->state = LAUNCH_NODE_LOST;
    launch_incoming_close(lost->incoming, false);
    lost->incoming = NULL;
    launch_blame(session, LAUNCH_BLAME_HOST, PROTO_NO_RANK, BASE_EXIT_ERROR,
                 NODE_FORMAT " is lost: %s", NODE_ARGS(head, node), what);
    if (begun && session->options->lease != NULL) {
        head_say_unseen(session, node);
    }
    for (int i = lost->first_rank; begun && i < lost->first_rank + lost->ranks; i++) {
        launch_rank *rank = &session->ranks[i];
        if (!rank->exited) {
            launch_watch_printed(session, i, 1, NULL, 0, true);
            launch_watch_printed(session, i, 2, NULL, 0, true);
            rank->exited = true;
            session->exited_count++;
        }
    }
}

/* Gives up a node, or lets it go: it was not in the job yet. */
static void drop(launch_session *session, int node, const char *what)
{
    const launch_head *head = session->head;
    if (head->gathering || head->nodes[node].state == LAUNCH_NODE_WAITING) {
        head_leave(session, node, what);
    } else {
        head_lose(session, node, what);
    }
}

static void note_message(launch_session *session, int node)
{
    launch_node *from = &session->head->nodes[node];
    const int64_t now_ns = base_now_ns();
    if (from->silent) {
        launch_screen_say(&session->screen, NODE_FORMAT " is back, after %.0f s",
                          NODE_ARGS(session->head, node),
                          (double)(now_ns - from->last_message_ns) / BASE_NS_PER_S);
        from->silent = false;
    }
    from->last_message_ns = now_ns;
}

/* Handles the messages that have come, but only so many at once. */
static void drain_messages(launch_session *session)
{
    launch_head *head = session->head;
    head->more = true;
    for (int i = 0; i < LAUNCH_MESSAGES_AT_ONCE; i++) {
        envelope_type *envelope = NULL;
        base_error error;
        int node = PROTO_NO_RANK;
        const base_status status = proto_bus_recv(head->bus, &node, &envelope, &error);
        if (status == BASE_ERR_BUSY) {
            head_refuse_second(session, node);
        } else if (status != BASE_OK && node != PROTO_NO_RANK) {
            if (head->nodes[node].state == LAUNCH_NODE_ABSENT) {
                head_refuse(session, node, "?", &error);
            } else if (head->nodes[node].state == LAUNCH_NODE_WAITING) {
                head_leave(session, node, error.message);
            } else {
                head_lose(session, node, error.message);
            }
        } else if (status != BASE_OK) {
            launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR, "%s",
                         error.message);
            head->more = false;
            return;
        } else if (envelope == NULL) {
            head->more = false;
            return;
        } else if (head->nodes[node].state != LAUNCH_NODE_LOST) {
            note_message(session, node);
            head_handle(session, node, envelope);
        }
    }
}

static void handle_event(launch_session *session, const proto_bus_event *event)
{
    launch_head *head = session->head;
    if ((event->kind == PROTO_BUS_REFUSED || event->kind == PROTO_BUS_CUT) &&
        !head->refused_warned) {
        head->refused_warned = true;
        launch_screen_say(&session->screen,
                          "warning: refused a launcher that does not have this job's key (run %s)",
                          head->bootstrap.run_id);
    }
    if (event->kind != PROTO_BUS_DISCONNECTED || event->rank == PROTO_NO_RANK) {
        return;
    }
    drop(session, event->rank, "its launcher's connection has ended");
}

void launch_head_drain(launch_session *session)
{
    launch_head *head = session->head;
    if (head == NULL) {
        return;
    }
    drain_messages(session);
    while (!head->more) {
        if (!head->has_event && !proto_bus_next_event(head->bus, &head->event)) {
            return;
        }
        head->has_event = true;
        drain_messages(session); /* what came before a connection ended comes first */
        if (!head->more) {
            head->has_event = false;
            handle_event(session, &head->event);
        }
    }
}

/* A heartbeat, which also takes what the host's ranks have printed, if there is room for more. */
static void send_heartbeat(launch_head *head, int node, bool room)
{
    Ringfence__Control__Heartbeat heartbeat = RINGFENCE__CONTROL__HEARTBEAT__INIT;
    launch_node *to = &head->nodes[node];
    to->taken_bytes = room ? to->printed_bytes : to->taken_bytes;
    heartbeat.printed_bytes = to->taken_bytes;
    head_send(head, node, &heartbeat.base);
}

/* Shows a silent host, and gives it up in the end. */
static void check_silence(launch_session *session, int node, int64_t now_ns)
{
    launch_head *head = session->head;
    launch_node *node_state = &head->nodes[node];
    const int64_t silent_ns = now_ns - node_state->last_message_ns;
    const bool at_once = session->stop_signal != 0 && session->killed; /* the user does not wait */
    const int64_t limit_ms = at_once ? 2 * LAUNCH_HEARTBEAT_MS : head->options->host_timeout_ms;
    if (silent_ns >= limit_ms * BASE_NS_PER_MS) {
        char what[64];
        (void)snprintf(what, sizeof what, "no heartbeat for %.0f s",
                       (double)silent_ns / BASE_NS_PER_S);
        drop(session, node, what);
    } else if (silent_ns >= LAUNCH_SILENCE_MS * BASE_NS_PER_MS && !node_state->silent) {
        node_state->silent = true;
        launch_screen_say(&session->screen, NODE_FORMAT ": no heartbeat for %.0f s",
                          NODE_ARGS(head, node), (double)silent_ns / BASE_NS_PER_S);
    }
}

/* When the host's silence is shown, or it is given up. */
static int64_t silence_due_ns(const launch_head *head, const launch_node *node)
{
    const int64_t shown_ms = node->silent ? INT64_MAX : LAUNCH_SILENCE_MS;
    const int64_t lost_ms = head->options->host_timeout_ms;
    return node->state == LAUNCH_NODE_LOST
               ? BASE_NO_DEADLINE
               : node->last_message_ns + (shown_ms < lost_ms ? shown_ms : lost_ms) * BASE_NS_PER_MS;
}

int64_t launch_head_due(launch_session *session, int64_t now_ns)
{
    launch_head *head = session->head;
    int64_t next_ns = BASE_NO_DEADLINE;
    if (head == NULL) {
        return next_ns;
    }
    next_ns = head->more ? now_ns : next_ns;
    head_ask_for_pause(session);
    const bool slept = now_ns - head->seen_ns > LAUNCH_SLEPT_MS * BASE_NS_PER_MS;
    head->seen_ns = now_ns;
    head->slept_ns = slept ? now_ns : head->slept_ns;
    const bool room =
        launch_writer_has_room(STDOUT_FILENO) && launch_writer_has_room(STDERR_FILENO);
    for (int node = 1; node < head->node_count; node++) {
        launch_node *one = &head->nodes[node];
        if (one->state == LAUNCH_NODE_ABSENT || one->state >= LAUNCH_NODE_LOST) {
            continue;
        }
        if (session->abort_sent_ns != 0) {
            head_drop_states(session, node);
        }
        if (slept) {
            one->last_message_ns = now_ns; /* it was this launcher that stood still */
        }
        check_silence(session, node, now_ns);
        const bool takes =
            room && one->printed_bytes - one->taken_bytes >= PROTO_PRINTED_AHEAD_BYTES / 4;
        if (now_ns >= one->heartbeat_due_ns || takes) {
            send_heartbeat(head, node, room);
            session->sent = true;
            one->heartbeat_due_ns = now_ns + LAUNCH_HEARTBEAT_MS * BASE_NS_PER_MS;
        }
        next_ns = one->heartbeat_due_ns < next_ns ? one->heartbeat_due_ns : next_ns;
        const int64_t silence_ns = silence_due_ns(head, one);
        next_ns = silence_ns < next_ns ? silence_ns : next_ns;
    }
    return next_ns;
}

void launch_head_polls(const launch_session *session, struct pollfd *polls)
{
    proto_bus_polls(session->head != NULL ? session->head->bus : NULL, polls);
}
