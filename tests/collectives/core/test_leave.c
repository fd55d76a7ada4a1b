/* A rank that has given what it has to give may leave: destroy its context and exit, before those
 * who take it have looked. Real processes. */
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "integers.h"
#include "support.h"

enum {
    RANKS_MAX = 3,
    COUNT_SHM = 1 << 13, /* what shared memory holds of a message, */
    COUNT_NET = 1 << 17, /* and credit over sockets is for */
    COUNT_INLINE = 2000, /* and travels with a flag, also two of them */
    ROUNDS = 12,         /* operations: fewer than one rank is ahead of another at most */
    BUFFER_BYTES = 32 * 1024,
    PATIENCE_MS = 1300, /* of a taker that does not read: more than a second */
    TIMEOUT_MS = 20000,
};

static bool small_buffers; /* sockets hold little */

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t value_bytes);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t value_bytes);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t value_bytes)
{
    const int bytes = BUFFER_BYTES;
    const bool sizes = level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF);
    return __real_setsockopt(fd, level, name, sizes && small_buffers ? &bytes : value, value_bytes);
}

typedef struct job {
    coll_transport transport;
    coll_kind kind;
    size_t count;
    int size;
    int taker;
    int given[2];
    int gone[2]; /* givers hold the end to write: the other one ends with the last of them */
} job;

static int giver_of(const job *j)
{
    return j->taker == 0 ? 1 : 0;
}

static coll_op_desc make_desc(const job *j, int rank, int32_t *memory)
{
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = j->kind,
                         .send = memory,
                         .recv = memory + (size_t)j->size * COUNT_NET,
                         .count = j->count,
                         .type = COLL_INT32,
                         .reduce = COLL_SUM,
                         .root = j->taker};
    if (j->kind == COLL_SEND && rank == j->taker) {
        desc.kind = COLL_RECEIVE;
        desc.root = giver_of(j);
    }
    if (j->kind == COLL_BROADCAST || j->kind == COLL_SCATTER) {
        desc.root = giver_of(j);
    }
    return desc;
}

static int complain(const job *j, int rank, const char *what, const coll_error *error)
{
    (void)fprintf(stderr, "transport %d kind %d count %zu ranks %d taker %d, rank %d: %s: %s\n",
                  j->transport, j->kind, j->count, j->size, j->taker, rank, what, error->message);
    return 1;
}

/* ::1 where there is IPv6: ZeroMQ ends connections to it in another way than to 127.0.0.1. */
static const char *loopback(void)
{
    const struct sockaddr_in6 one = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool here = fd >= 0 && bind(fd, (const struct sockaddr *)&one, sizeof one) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return here ? "::1" : NULL;
}

static coll_context_options options_of(const job *j, forked_rank *rank)
{
    return (coll_context_options){FORKED_OPTIONS(rank), .transport = j->transport,
                                  .interface = loopback(),
                                  .timeout_ns = TIMEOUT_MS * BASE_NS_PER_MS};
}

static void await_end(int fd, int timeout_ms)
{
    struct pollfd end = {.fd = fd};
    (void)poll(&end, 1, timeout_ms);
}

static int body(forked_rank *rank, void *user)
{
    static int32_t memory[2 * RANKS_MAX * COUNT_NET];
    job *j = user;
    const bool takes = rank->rank == j->taker;
    coll_error error = {.message = ""};
    coll_context *context = NULL;
    coll_request *request = NULL;
    const coll_context_options options = options_of(j, rank);
    if (takes) {
        (void)close(j->gone[1]);
    }
    const coll_op_desc desc = make_desc(j, rank->rank, memory);
    integers_give(&desc, 0, rank->rank, j->size);
    if (coll_context_create(&options, &context, &error) != COLL_OK ||
        coll_barrier(coll_context_world(context), &error) != COLL_OK ||
        coll_start(coll_context_world(context), &desc, &request, &error) != COLL_OK) {
        return complain(j, rank->rank, "does not begin", &error);
    }
    if (takes) {
        await_end(j->gone[0], small_buffers ? PATIENCE_MS : TIMEOUT_MS);
    }
    if (coll_request_wait(&request, &error) != COLL_OK) {
        return complain(j, rank->rank, "fails", &error);
    }
    if (integers_wrong(&desc, 0, rank->rank, j->size) >= 0) {
        return complain(j, rank->rank, "has something else", &error);
    }
    coll_context_destroy(context);
    return 0;
}

/* Several operations, with which the taker does not even begin before its givers are gone. */
static int late_body(forked_rank *rank, void *user)
{
    static int32_t memory[2 * RANKS_MAX * COUNT_NET];
    job *j = user;
    const bool takes = rank->rank == j->taker;
    coll_error error = {.message = ""};
    coll_context *context = NULL;
    const coll_context_options options = options_of(j, rank);
    const coll_op_desc desc = make_desc(j, rank->rank, memory);
    if (coll_context_create(&options, &context, &error) != COLL_OK ||
        coll_barrier(coll_context_world(context), &error) != COLL_OK) {
        return complain(j, rank->rank, "does not begin", &error);
    }
    if (takes) {
        (void)close(j->gone[1]);
        await_end(j->gone[0], TIMEOUT_MS);
    }
    for (int i = 0; i < ROUNDS; i++) {
        coll_request *request = NULL;
        integers_give(&desc, (unsigned)i, rank->rank, j->size);
        coll_status status = i % 2 == 0
                                 ? coll_run(coll_context_world(context), &desc, &error)
                                 : coll_start(coll_context_world(context), &desc, &request, &error);
        status = status == COLL_OK ? coll_request_wait(&request, &error) : status;
        if (status != COLL_OK || integers_wrong(&desc, (unsigned)i, rank->rank, j->size) >= 0) {
            return complain(j, rank->rank, "has something else, or nothing", &error);
        }
    }
    coll_context_destroy(context);
    return 0;
}

/* A rank that does nothing but give never has to wait: what has become of its peers comes to it all
 * the same. ZeroMQ's threads take their time. */
static coll_status await_news(coll_comm *comm, coll_error *error)
{
    const int64_t deadline_ns = base_deadline_after_ns(TIMEOUT_MS / 2 * BASE_NS_PER_MS);
    coll_status status = COLL_OK;
    while (status == COLL_OK && base_now_ns() < deadline_ns) {
        (void)sched_yield();
        status = coll_comm_finalize(comm, error);
    }
    return status;
}

/* Until the kernel's clock has ticked: a sender looks for its peer once in a tick. */
static void await_tick(void)
{
    struct timespec begin;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &begin);
    do {
        (void)sched_yield();
        (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    } while (now.tv_sec == begin.tv_sec && now.tv_nsec == begin.tv_nsec);
}

/* Two messages, for which there is credit, to a peer that has died. */
static coll_status send_to_dead(const job *j, coll_comm *comm, coll_error *error)
{
    int32_t value = 1;
    coll_status status = COLL_OK;
    for (int i = 0; i < 2 && status == COLL_OK; i++) {
        await_tick();
        status = coll_send(comm, &value, 1, COLL_INT32, j->taker, error);
    }
    return status;
}

/* One rank is the root of a broadcast, and of another when its peer, which took none, has died. Or
 * it sends messages. */
static int root_of_the_dead_body(forked_rank *rank, void *user)
{
    job *j = user;
    const int root = giver_of(j);
    char dead[32];
    int32_t value = 1;
    coll_error error = {.message = ""};
    coll_status status = COLL_OK;
    coll_context *context = NULL;
    const coll_context_options options = options_of(j, rank);
    (void)close(j->gone[1]);
    if (coll_context_create(&options, &context, &error) != COLL_OK ||
        coll_barrier(coll_context_world(context), &error) != COLL_OK) {
        return complain(j, rank->rank, "does not begin", &error);
    }
    coll_comm *comm = coll_context_world(context);
    if (rank->rank == j->taker) {
        (void)close(j->given[1]);
        await_end(j->given[0], TIMEOUT_MS);
        _exit(0);
    }
    if (j->kind == COLL_BROADCAST) {
        status = coll_broadcast(comm, &value, 1, COLL_INT32, root, &error);
    }
    if (status != COLL_OK) {
        return complain(j, rank->rank, "does not give", &error);
    }
    (void)close(j->given[1]);
    await_end(j->gone[0], TIMEOUT_MS);
    if (j->transport == COLL_TRANSPORT_ZMQ && await_news(comm, &error) != COLL_ERR_PEER) {
        return complain(j, rank->rank, "is not notified", &error);
    }
    (void)snprintf(dead, sizeof dead, "rank %d (host", j->taker);
    status = j->kind == COLL_BROADCAST ? coll_broadcast(comm, &value, 1, COLL_INT32, root, &error)
                                       : send_to_dead(j, comm, &error);
    if (status != COLL_ERR_PEER || strstr(error.message, dead) == NULL) {
        return complain(j, rank->rank, "does not name the dead", &error);
    }
    coll_context_destroy(context);
    return 0;
}

static void leaf_dies(coll_transport transport, coll_kind kind, int leaf)
{
    job j = {.transport = transport, .kind = kind, .size = 2, .taker = leaf};
    pid_t pids[2];
    coll_error error;
    int status = 0;
    assert_int_equal(pipe(j.gone), 0);
    assert_int_equal(pipe(j.given), 0);
    assert_ok(forked_start(2, root_of_the_dead_body, &j, pids, &error), &error);
    (void)close(j.given[1]);
    assert_int_equal(waitpid(pids[leaf], &status, 0), pids[leaf]);
    (void)close(j.gone[1]);
    assert_int_equal(waitpid(pids[1 - leaf], &status, 0), pids[1 - leaf]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    (void)close(j.gone[0]);
    (void)close(j.given[0]);
}

/* Of two ranks the lower one listens: both are tried. */
static void a_leaf_dies(void **state)
{
    leaf_dies(*(const coll_transport *)*state, COLL_BROADCAST, 0);
    leaf_dies(*(const coll_transport *)*state, COLL_BROADCAST, 1);
}

static void a_receiver_dies(void **state)
{
    leaf_dies(*(const coll_transport *)*state, COLL_SEND, 0);
    leaf_dies(*(const coll_transport *)*state, COLL_SEND, 1);
}

static void run_job(job j, forked_body run)
{
    pid_t pids[RANKS_MAX];
    coll_error error;
    int status = 0;
    assert_int_equal(pipe(j.gone), 0);
    assert_ok(forked_start(j.size, run, &j, pids, &error), &error);
    (void)close(j.gone[1]);
    for (int r = 0; r < j.size; r++) {
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    (void)close(j.gone[0]);
}

static void givers_leave(void **state)
{
    static const coll_kind kinds[] = {COLL_GATHER, COLL_SEND, COLL_BROADCAST, COLL_SCATTER,
                                      COLL_REDUCE};
    const coll_transport transport = *(const coll_transport *)*state;
    const size_t most = transport == COLL_TRANSPORT_SHM ? COUNT_SHM : COUNT_NET;
    for (int i = 0; i < 5 * 2 * 2; i++) {
        const coll_kind kind = kinds[i / 4];
        run_job((job){.transport = transport,
                      .kind = kind,
                      .count = i % 4 < 2 ? 1 : most,
                      .size = kind == COLL_GATHER || kind == COLL_REDUCE ? 2 + i % 4 / 2 : 2,
                      .taker = i % 2},
                body);
    }
}

/* What travels with flags is given before anybody has come for it. */
static void givers_are_gone(void **state)
{
    static const coll_kind kinds[] = {COLL_GATHER, COLL_BROADCAST, COLL_SCATTER, COLL_REDUCE};
    for (int i = 0; i < 4 * 2 * 2; i++) {
        const coll_kind kind = kinds[i / 4];
        run_job((job){.transport = *(const coll_transport *)*state,
                      .kind = kind,
                      .count = i % 4 < 2 ? 1 : COUNT_INLINE,
                      .size = kind == COLL_GATHER || kind == COLL_REDUCE ? 2 + i % 4 / 2 : 2,
                      .taker = i % 2},
                late_body);
    }
}

/* The taker reads late, and what was sent lies with the giver until then. */
static void a_giver_stays_while_it_holds_data(void **state)
{
    small_buffers = true;
    run_job((job){.transport = *(const coll_transport *)*state,
                  .kind = COLL_GATHER,
                  .count = COUNT_NET,
                  .size = 2},
            body);
    small_buffers = false;
}

int main(void)
{
    static coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                          COLL_TRANSPORT_ZMQ};
    const struct CMUnitTest tests[] = {
        {"givers leave, shm", givers_leave, NULL, NULL, &transports[0]},
        {"givers leave, tcp", givers_leave, NULL, NULL, &transports[1]},
        {"givers leave, zmq", givers_leave, NULL, NULL, &transports[2]},
        {"givers are gone, tcp", givers_are_gone, NULL, NULL, &transports[1]},
        {"givers are gone, zmq", givers_are_gone, NULL, NULL, &transports[2]},
        {"a leaf dies, tcp", a_leaf_dies, NULL, NULL, &transports[1]},
        {"a leaf dies, zmq", a_leaf_dies, NULL, NULL, &transports[2]},
        {"a receiver dies, shm", a_receiver_dies, NULL, NULL, &transports[0]},
        {"a receiver dies, tcp", a_receiver_dies, NULL, NULL, &transports[1]},
        {"a giver stays, tcp", a_giver_stays_while_it_holds_data, NULL, NULL, &transports[1]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
