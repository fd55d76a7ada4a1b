/* The end of a job on several hosts: tells the agents, waits a moment until they have left, and frees
 * the head. Called by job_run.c. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "job/head_impl.h"

static bool all_have_left(const launch_head *head)
{
    for (int node = 1; node < head->node_count; node++) {
        if (head->nodes[node].state != LAUNCH_NODE_ABSENT &&
            head->nodes[node].state < LAUNCH_NODE_LOST) {
            return false;
        }
    }
    return true;
}

static void note_left(launch_head *head)
{
    proto_bus_event event;
    envelope_type *envelope = NULL;
    int node = PROTO_NO_RANK;
    base_error ignored;
    base_status status = BASE_OK;
    int taken = 0;
    do {
        status = proto_bus_recv(head->bus, &node, &envelope, &ignored);
    } while (taken++ < LAUNCH_MESSAGES_AT_ONCE &&
             (envelope != NULL || (status != BASE_OK && node != PROTO_NO_RANK)));
    while (proto_bus_next_event(head->bus, &event)) {
        if (event.kind == PROTO_BUS_DISCONNECTED && event.rank != PROTO_NO_RANK) {
            head->nodes[event.rank].state = LAUNCH_NODE_LEFT;
        }
    }
}

void head_say_end(launch_head *head, int exit_code, const char *reason, bool again)
{
    char text[PROTO_REASON_BYTES_MAX];
    Ringfence__Control__End end = RINGFENCE__CONTROL__END__INIT;
    (void)snprintf(text, sizeof text, "%s", reason);
    end.exit_code = (uint32_t)exit_code;
    end.reason = text;
    for (int node = 1; node < head->node_count; node++) {
        const launch_node_state state = head->nodes[node].state;
        if (state != LAUNCH_NODE_ABSENT) { /* one that was lost may come back by itself */
            end.again = again && (state == LAUNCH_NODE_LOST || !head->nodes[node].sent_away);
            head_send(head, node, &end.base);
        }
    }
}

static void await_leaving(launch_head *head)
{
    const int64_t deadline_ns = base_deadline_after_ns(LAUNCH_FAREWELL_MS * BASE_NS_PER_MS);
    note_left(head);
    while (!all_have_left(head) && base_now_ns() < deadline_ns) {
        struct pollfd polls[PROTO_BUS_FDS];
        proto_bus_polls(head->bus, polls);
        (void)poll(polls, PROTO_BUS_FDS, base_deadline_poll_ms(deadline_ns, 100));
        note_left(head);
    }
}

void head_drop_incoming(launch_head *head)
{
    for (int node = 1; head->nodes != NULL && node < head->node_count; node++) {
        launch_incoming_close(head->nodes[node].incoming, false);
        head->nodes[node].incoming = NULL;
    }
}

void launch_head_close(launch_session *session, int exit_code, const char *reason)
{
    launch_head *head = session->head;
    if (head == NULL) {
        return;
    }
    if (head->bus != NULL) {
        head_say_end(head, exit_code, reason, false);
        await_leaving(head);
        proto_bus_close(head->bus);
    }
    head_drop_incoming(head);
    launch_bootstrap_close(&head->bootstrap);
    if (head->nodes != NULL) {
        proto_wipe(head->nodes, (size_t)head->node_count * sizeof head->nodes[0]);
    }
    free(head->nodes);
    free(head);
    session->head = NULL;
}
