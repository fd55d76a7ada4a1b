/* Frames that wait to be coalesced, over sockets: nothing leaves meanwhile, and each is gone by the
 * end of the turn, or when there is nothing else to do, or before its sender sleeps. Called from
 * the outside each of these would cover up for another that is missing, so rank 0 calls what a
 * transport has for each by itself, and counts what it hands to the system. Ranks are threads. */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <zmq.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"
#include "transport/socket/comm.h"
#include "transport/tcp/tcp.h"

enum { PEER = 1, POLLS_MAX = 10000, FRAMES = 300, WAIT_MS = 10000 };

static _Thread_local int sends; /* by libcoll */

ssize_t __real_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_zmq_msg_send(zmq_msg_t *message, void *socket, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *message, void *socket, int flags);

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
    sends++;
    return __real_send(fd, bytes, size, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    sends++;
    return __real_sendmsg(fd, message, flags);
}

int __wrap_zmq_msg_send(zmq_msg_t *message, void *socket, int flags)
{
    sends++;
    return __real_zmq_msg_send(message, socket, flags);
}

/* A frame that says nothing new. */
static void give(test_rank *rank, coll_net_when when)
{
    coll_frame_head head = {.kind = COLL_FRAME_CREDIT};
    coll_net_send_frame(coll_context_world(rank->context), PEER, &head, NULL, when);
}

static int taken_sends(void)
{
    const int count = sends;
    sends = 0;
    return count;
}

/* Turns without anything to do until something leaves. */
static int polls_until_sent(test_rank *rank)
{
    int polls = 0;
    while (sends == 0 && polls < POLLS_MAX) {
        (void)rank->context->table->poll(rank->context);
        polls++;
    }
    return polls;
}

static bool nothing_changed(coll_context *context)
{
    (void)context;
    return false;
}

static void until_the_end_of_the_turn(test_rank *rank)
{
    static const coll_net_when ends[] = {COLL_NET_SOON, COLL_NET_AHEAD};
    coll_context *context = rank->context;
    for (int i = 0; i < 2; i++) {
        give(rank, ends[i]);
        RANK_CHECK(rank, taken_sends() == 0);
        context->table->push(context);
        RANK_CHECK(rank, taken_sends() == 1);
        context->table->push(context);
        RANK_CHECK(rank, taken_sends() == 0);
        give(rank, COLL_NET_IDLY);
        give(rank, ends[i]);
        context->table->push(context);
        RANK_CHECK(rank, taken_sends() == 1);
    }
}

/* The turns are counted from the last frame that began to wait. */
static void until_nothing_else_is_to_do(test_rank *rank)
{
    coll_context *context = rank->context;
    give(rank, COLL_NET_IDLY);
    context->table->push(context);
    RANK_CHECK(rank, sends == 0);
    const int polls = polls_until_sent(rank);
    RANK_CHECK(rank, polls > 1 && taken_sends() == 1);
    for (int frame = 0; frame < 3; frame++) {
        give(rank, COLL_NET_IDLY);
        for (int i = 1; i < polls; i++) {
            (void)context->table->poll(context);
        }
        RANK_CHECK(rank, sends == 0);
    }
    RANK_CHECK(rank, polls_until_sent(rank) == 1 && taken_sends() == 1);
    for (int i = 0; i < 2 * polls; i++) {
        (void)context->table->poll(context);
    }
    RANK_CHECK(rank, taken_sends() == 0);
}

static void until_a_sleep(test_rank *rank)
{
    static const coll_net_when all[] = {COLL_NET_SOON, COLL_NET_AHEAD, COLL_NET_IDLY};
    coll_context *context = rank->context;
    for (int i = 0; i < 3; i++) {
        give(rank, all[i]);
        RANK_CHECK(rank, taken_sends() == 0);
        context->table->sleep(context, nothing_changed, base_now_ns());
        RANK_CHECK(rank, taken_sends() == 1);
    }
}

/* However many: what there is no room for goes at once, with all before it. */
static void until_others_go(test_rank *rank)
{
    coll_context *context = rank->context;
    give(rank, COLL_NET_IDLY);
    give(rank, COLL_NET_NOW);
    RANK_CHECK(rank, taken_sends() == 1);
    for (int i = 0; i < FRAMES; i++) {
        give(rank, COLL_NET_IDLY);
    }
    context->table->sleep(context, nothing_changed, base_now_ns());
    RANK_CHECK(rank, taken_sends() < FRAMES / 2);
}

/* False: it takes too long. */
static bool await(atomic_bool *word)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (!atomic_load(word) && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    return atomic_load(word);
}

static atomic_bool peer_may_begin; /* the second barrier */

/* What follows in the same turn goes before anything is read, though there is something. */
static void before_anything_is_read(test_rank *rank)
{
    coll_context *context = rank->context;
    if (context->table != &coll_tcp_transport) {
        atomic_store(&peer_may_begin, true);
        return;
    }
    const coll_conn *conn = ((coll_tcp *)context->net)->connections[PEER];
    struct pollfd item = {.fd = conn->fd, .events = POLLIN};
    atomic_store(&peer_may_begin, true);
    RANK_CHECK(rank, poll(&item, 1, WAIT_MS) == 1);
    const uint64_t received = conn->received;
    give(rank, COLL_NET_AHEAD);
    RANK_CHECK(rank, !context->table->poll(context) && conn->received == received);
    context->table->push(context);
    RANK_CHECK(rank, taken_sends() == 1);
    RANK_CHECK(rank, context->table->poll(context) && conn->received > received);
}

static void coalescing_body(test_rank *rank)
{
    static void (*const steps[])(test_rank *) = {before_anything_is_read, until_the_end_of_the_turn,
                                                 until_nothing_else_is_to_do, until_a_sleep,
                                                 until_others_go};
    coll_comm *comm = coll_context_world(rank->context);
    if (rank->rank == 0) {
        atomic_store(&peer_may_begin, false);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    RANK_CHECK(rank, rank->rank == 0 || await(&peer_may_begin));
    rank->context->table->push(rank->context);
    sends = 0;
    for (size_t i = 0; rank->rank == 0 && i < sizeof steps / sizeof steps[0]; i++) {
        steps[i](rank);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error)); /* none was lost, and all came in order */
}

static void check(coll_transport transport, coll_tcp_auth auth)
{
    test_ranks_as_threads(
        &(test_ranks_options){.size = 2, .transport = transport, .tcp_auth = auth},
        coalescing_body);
}

static void what_waits_over_tcp_leaves_in_time(void **state)
{
    (void)state;
    check(COLL_TRANSPORT_TCP, COLL_TCP_AUTH_MAC);
    check(COLL_TRANSPORT_TCP, COLL_TCP_AUTH_OFF);
}

static void what_waits_over_zmq_leaves_in_time(void **state)
{
    (void)state;
    check(COLL_TRANSPORT_ZMQ, COLL_TCP_AUTH_MAC);
    check(COLL_TRANSPORT_ZMQ, COLL_TCP_AUTH_OFF);
}

/* Who takes from a root that is ahead answers every few operations, although nobody waits for its
 * flags and bytes come in several packets. */
static void ahead_body(test_rank *rank)
{
    enum { CALLS = 12, LEAST = CALLS / COLL_FLAGS_KEPT - 1 };
    static atomic_bool given;
    coll_comm *comm = coll_context_world(rank->context);
    coll_net *net = rank->context->net;
    int32_t value = 0;
    if (rank->rank == 0) {
        atomic_store(&given, false);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    RANK_CHECK(rank, rank->rank == PEER || await(&given));
    rank->context->spins = 1;
    net->packet_bytes[1 - rank->rank] = COLL_FRAME_HEAD_BYTES;
    sends = 0;
    for (int i = 0; i < CALLS; i++) {
        value = rank->rank == PEER ? i : -1;
        RANK_OK(rank, coll_broadcast(comm, &value, 1, COLL_INT32, PEER, &rank->error));
        RANK_CHECK(rank, value == i);
    }
    RANK_CHECK(rank, taken_sends() >= LEAST);
    atomic_store(&given, true);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void lines_wait_for_a_few_operations_at_most(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_TCP},
                          ahead_body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_over_tcp_leaves_in_time),
        cmocka_unit_test(what_waits_over_zmq_leaves_in_time),
        cmocka_unit_test(lines_wait_for_a_few_operations_at_most),
    };
    return cmocka_run_group_tests_name("coll-coalescing", tests, NULL, NULL);
}
