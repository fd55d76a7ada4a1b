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

/* By libcoll. */
static _Thread_local int sends;
static _Thread_local int reads;
static _Thread_local int reads_before;    /* the first send, */
static _Thread_local ssize_t first_bytes; /* which took so many */

ssize_t __real_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
int __real_zmq_msg_send(zmq_msg_t *message, void *socket, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *message, void *socket, int flags);

static ssize_t count_send(ssize_t sent)
{
    if (sends++ == 0) {
        reads_before = reads;
        first_bytes = sent;
    }
    return sent;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
    return count_send(__real_send(fd, bytes, size, flags));
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return count_send(__real_sendmsg(fd, message, flags));
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    reads++;
    return __real_recv(fd, bytes, size, flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    reads++;
    return __real_recvmsg(fd, message, flags);
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
        (void)rank->context->table->sockets->poll(rank->context);
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
    coll_context *context = rank->context;
    give(rank, COLL_NET_THIS_TURN);
    RANK_CHECK(rank, taken_sends() == 0);
    context->table->sockets->push(context);
    RANK_CHECK(rank, taken_sends() == 1);
    context->table->sockets->push(context);
    RANK_CHECK(rank, taken_sends() == 0);
    give(rank, COLL_NET_IDLE);
    give(rank, COLL_NET_THIS_TURN);
    context->table->sockets->push(context);
    RANK_CHECK(rank, taken_sends() == 1);
}

/* The turns are counted from the last frame that began to wait. */
static void until_nothing_else_is_to_do(test_rank *rank)
{
    coll_context *context = rank->context;
    give(rank, COLL_NET_IDLE);
    context->table->sockets->push(context);
    RANK_CHECK(rank, sends == 0);
    const int polls = polls_until_sent(rank);
    RANK_CHECK(rank, polls > 1 && taken_sends() == 1);
    for (int frame = 0; frame < 3; frame++) {
        give(rank, COLL_NET_IDLE);
        for (int i = 1; i < polls; i++) {
            (void)context->table->sockets->poll(context);
        }
        RANK_CHECK(rank, sends == 0);
    }
    RANK_CHECK(rank, polls_until_sent(rank) == 1 && taken_sends() == 1);
    for (int i = 0; i < 2 * polls; i++) {
        (void)context->table->sockets->poll(context);
    }
    RANK_CHECK(rank, taken_sends() == 0);
}

static void until_a_sleep(test_rank *rank)
{
    static const coll_net_when all[] = {COLL_NET_THIS_TURN, COLL_NET_IDLE};
    coll_context *context = rank->context;
    for (int i = 0; i < 2; i++) {
        give(rank, all[i]);
        RANK_CHECK(rank, taken_sends() == 0);
        context->table->sleep->sleep(context, nothing_changed, base_now_ns());
        RANK_CHECK(rank, taken_sends() == 1);
    }
}

/* However many: what there is no room for goes at once, with all before it. */
static void until_others_go(test_rank *rank)
{
    coll_context *context = rank->context;
    give(rank, COLL_NET_IDLE);
    give(rank, COLL_NET_NOW);
    RANK_CHECK(rank, taken_sends() == 1);
    for (int i = 0; i < FRAMES; i++) {
        give(rank, COLL_NET_IDLE);
    }
    context->table->sleep->sleep(context, nothing_changed, base_now_ns());
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

static atomic_bool peer_may_begin; /* the operation after the first barrier */

/* What an operation begins with leaves with its flag before anything is read, although the peer's
 * flag and data are here. */
static void data_leave_with_their_flag(test_rank *rank)
{
    enum { COUNT = 16384, BLOCK_BYTES = COUNT / 2 * 4 };
    static float values[2][COUNT];
    coll_context *context = rank->context;
    coll_request *request = NULL;
    const bool over_tcp = context->table == &coll_tcp_transport;
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = values[rank->rank],
                               .recv = values[rank->rank],
                               .count = COUNT,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .algorithm = COLL_ALGORITHM_RING};
    if (rank->rank == 0 && over_tcp) {
        const coll_conn *conn = ((coll_tcp *)context->net)->connections[PEER];
        struct pollfd item = {.fd = conn->fd, .events = POLLIN};
        RANK_CHECK(rank, poll(&item, 1, WAIT_MS) == 1);
    }
    sends = 0;
    reads = 0;
    RANK_OK(rank, coll_start(coll_context_world(context), &desc, &request, &rank->error));
    if (rank->rank == 0 && over_tcp) {
        RANK_CHECK(rank, sends > 0 && reads_before == 0 && first_bytes > BLOCK_BYTES);
    }
    RANK_OK(rank, coll_request_wait(&request, &rank->error));
}

static void coalescing_body(test_rank *rank)
{
    static void (*const steps[])(test_rank *) = {
        until_the_end_of_the_turn, until_nothing_else_is_to_do, until_a_sleep, until_others_go};
    coll_comm *comm = coll_context_world(rank->context);
    if (rank->rank == 0) {
        atomic_store(&peer_may_begin, false);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    rank->context->table->sockets->push(rank->context);
    sends = 0;
    for (size_t i = 0; rank->rank == 0 && i < sizeof steps / sizeof steps[0]; i++) {
        steps[i](rank);
    }
    if (rank->rank == 0) {
        atomic_store(&peer_may_begin, true);
    }
    RANK_CHECK(rank, await(&peer_may_begin));
    data_leave_with_their_flag(rank);
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

/* A rank that takes from a root that is ahead answers every few operations, although nobody waits
 * for its flags and bytes come in several packets. */
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

static void flags_wait_for_a_few_operations_at_most(void **state)
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
        cmocka_unit_test(flags_wait_for_a_few_operations_at_most),
    };
    return cmocka_run_group_tests_name("coll-coalescing", tests, NULL, NULL);
}
