/* Ranks in network namespaces of their own, joined by a bridge: hosts as far as libcoll can tell.
 * A link with a limited rate, one that loses packets, one that is cut, and a rank that is killed, or
 * stopped for a while, over tcp and zmq. Needs root, ip, tc and nft: exits with 77 where it has not got them.
 *
 * This process lives in a namespace of its own, with the bridge; rank r's end is 10.99.0.(r + 1),
 * the bridge's port to it v(job)-(r). All goes with the processes. */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "netns.h"
#include "small_sockets.h"
#include "support.h"

enum { RANKS = 3, RANKS_SUM = RANKS * (RANKS + 1) / 2, COUNT = 300000, MESSAGE = 1 << 20 };

/* Of hosts, and longer than that. */
#define HOST_TIMEOUT_NS BASE_NS_PER_S
enum { STOPPED_MS = 3000 };

typedef enum trouble {
    TROUBLE_NONE,
    TROUBLE_RATE,
    TROUBLE_LOSS,
    TROUBLE_STOP,
    TROUBLE_SILENCE,      /* a cut, and ranks would wait for long */
    TROUBLE_SILENCE_LAST, /* the same of the last rank: all others listened for it */
    TROUBLE_CUT,
    TROUBLE_KILL,
    TROUBLE_LOOPBACK, /* no interface is named */
} trouble;

/* Of the ports: a namespace goes a little after its last process. */
static int jobs;

typedef struct job {
    coll_transport transport;
    trouble what;
    int notices[2]; /* ranks to the test: 'x' when here, and when ready; '!' after a failed check */
    int go[2];      /* the test to the ranks */
} job;

#define CHILD_CHECK(condition, error)                                                              \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,              \
                          (error)->message);                                                       \
            (void)!write(j->notices[1], "!", 1);                                                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static bool step(const job *j)
{
    char byte = 0;
    return write(j->notices[1], "x", 1) == 1 && read(j->go[0], &byte, 1) == 1;
}

static coll_status work(coll_comm *comm, coll_error *error)
{
    static float data[COUNT];
    coll_status status = COLL_OK;
    for (size_t count = 1; status == COLL_OK && count <= COUNT; count *= 17) {
        for (size_t i = 0; i < count; i++) {
            data[i] = (float)(coll_comm_rank(comm) + 1);
        }
        status = coll_all_reduce(comm, data, data, count, COLL_FLOAT32, COLL_SUM, error);
        for (size_t i = 0; status == COLL_OK && i < count; i++) {
            if (data[i] != (float)RANKS_SUM) {
                return coll_fail(error, COLL_ERR_STATE, "element %zu is %g", i, (double)data[i]);
            }
        }
    }
    return status;
}

/* Rank 0's message to rank 1 fills what the sockets have room for. */
static coll_status pass_message(coll_comm *comm, coll_error *error)
{
    static float data[MESSAGE];
    const int rank = coll_comm_rank(comm);
    const coll_status status = rank == 0 ? coll_send(comm, data, MESSAGE, COLL_FLOAT32, 1, error)
                               : rank == 1
                                   ? coll_receive(comm, data, MESSAGE, COLL_FLOAT32, 0, error)
                                   : COLL_OK;
    return status == COLL_OK ? work(comm, error) : status;
}

static bool is_silence(trouble what)
{
    return what == TROUBLE_SILENCE || what == TROUBLE_SILENCE_LAST;
}

static int cut_rank(trouble what)
{
    return what == TROUBLE_SILENCE_LAST ? RANKS - 1 : 1;
}

static int rank_body(forked_rank *rank, void *user)
{
    const job *j = user;
    coll_error error = {.message = ""};
    coll_context *context = NULL;
    coll_context_options options = {
        FORKED_OPTIONS(rank),
        .transport = j->transport,
        .timeout_ns = (j->what >= TROUBLE_CUT ? 2 : 60) * BASE_NS_PER_S,
        .host_timeout_ns = j->what == TROUBLE_STOP || is_silence(j->what) ? HOST_TIMEOUT_NS : 0,
        .algorithm = COLL_ALGORITHM_DIRECT,
        .interface = j->what == TROUBLE_LOOPBACK ? NULL : "10.99.0.0/24",
    };
    test_small_sockets = j->what == TROUBLE_STOP; /* a stopped rank's buffers get full */
    CHILD_CHECK(unshare(CLONE_NEWNET) == 0 && step(j), &error);
    const coll_status joined = coll_context_create(&options, &context, &error);
    if (j->what == TROUBLE_LOOPBACK) {
        CHILD_CHECK(joined == COLL_ERR_INVALID, &error);
        CHILD_CHECK(strstr(error.message, "cannot reach 127.0.0.1: name an interface") != NULL,
                    &error);
        return 0;
    }
    CHILD_CHECK(joined == COLL_OK, &error);
    CHILD_CHECK(coll_context_transport(context) ==
                    (j->transport == COLL_TRANSPORT_AUTO ? COLL_TRANSPORT_TCP : j->transport),
                &error);
    coll_comm *comm = coll_context_world(context);
    CHILD_CHECK(coll_barrier(comm, &error) == COLL_OK && step(j), &error);
    if (j->what == TROUBLE_KILL && rank->rank == 1) {
        (void)pause();
    }
    const int64_t begin_ns = base_now_ns();
    const coll_status status =
        j->what == TROUBLE_STOP ? pass_message(comm, &error) : work(comm, &error);
    if (is_silence(j->what)) {
        char named[] = "rank 0 (host";
        named[5] = (char)('0' + cut_rank(j->what));
        CHILD_CHECK(status == COLL_ERR_PEER, &error);
        CHILD_CHECK(strstr(error.message, ": its host has not answered for ") != NULL, &error);
        CHILD_CHECK(rank->rank == cut_rank(j->what) || strstr(error.message, named) != NULL,
                    &error);
    } else if (j->what < TROUBLE_CUT) {
        CHILD_CHECK(status == COLL_OK, &error);
        CHILD_CHECK(coll_barrier(comm, &error) == COLL_OK, &error);
    } else {
        /* By the deadline, and a second for the machine. */
        CHILD_CHECK(base_now_ns() - begin_ns < options.timeout_ns + BASE_NS_PER_S, &error);
        CHILD_CHECK(status == COLL_ERR_PEER || status == COLL_ERR_TIMEOUT, &error);
        CHILD_CHECK(rank->rank == 1 || strstr(error.message, "rank 1 (host") != NULL, &error);
        CHILD_CHECK(j->what != TROUBLE_KILL || status == COLL_ERR_PEER, &error);
    }
    coll_context_destroy(context);
    return 0;
}

static void wait_for_all(const job *j)
{
    char byte = 0;
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(read(j->notices[0], &byte, 1), 1);
        assert_int_equal(byte, 'x');
    }
}

static void let_all_go(const job *j)
{
    assert_int_equal(write(j->go[1], "xxx", RANKS), RANKS);
}

/* A veth pair between the bridge and each rank's namespace. */
static void plug_in(const pid_t *pids)
{
    for (int r = 0; r < RANKS; r++) {
        assert_true(netns_run("ip link add v%d-%d type veth peer name port netns %d", jobs, r,
                              (int)pids[r]));
        assert_true(netns_run("ip link set v%d-%d master bridge up", jobs, r));
        assert_true(netns_run("nsenter -t %d -n sh -c 'ip link set lo up; "
                              "ip addr add 10.99.0.%d/24 dev port; ip link set port up'",
                              (int)pids[r], r + 1));
    }
}

static void make_trouble(trouble what, const pid_t *pids)
{
    switch (what) {
    case TROUBLE_RATE:
        for (int r = 0; r < RANKS; r++) {
            assert_true(netns_run(
                "tc qdisc add dev v%d-%d root tbf rate 400mbit burst 64kb latency 400ms", jobs, r));
        }
        return;
    case TROUBLE_LOSS:
        assert_true(netns_run("nft add table bridge loss"));
        assert_true(netns_run(
            "nft 'add chain bridge loss every { type filter hook forward priority 0; }'"));
        assert_true(netns_run("nft add rule bridge loss every numgen random mod 1000 lt 5 drop"));
        return;
    case TROUBLE_STOP:
        assert_int_equal(kill(pids[1], SIGSTOP), 0);
        return;
    case TROUBLE_SILENCE:
    case TROUBLE_SILENCE_LAST:
    case TROUBLE_CUT:
        assert_true(netns_run("ip link set v%d-%d down", jobs, cut_rank(what)));
        return;
    case TROUBLE_KILL:
        assert_int_equal(kill(pids[1], SIGKILL), 0);
        return;
    default:
        return;
    }
}

/* A stopped rank is waited for, for longer than a silent host would be. Then it goes on. */
static void assert_patience(const pid_t *pids)
{
    struct pollfd ends[RANKS];
    for (int r = 0; r < RANKS; r++) {
        ends[r] = (struct pollfd){.fd = pidfd_open(pids[r], 0), .events = POLLIN};
        assert_true(ends[r].fd >= 0);
    }
    assert_int_equal(poll(ends, RANKS, STOPPED_MS), 0);
    assert_int_equal(kill(pids[1], SIGCONT), 0);
    for (int r = 0; r < RANKS; r++) {
        (void)close(ends[r].fd);
    }
}

static void run_job(coll_transport transport, trouble what)
{
    job j = {.transport = transport, .what = what};
    pid_t pids[RANKS];
    coll_error error;
    int status = 0;
    jobs++;
    assert_int_equal(pipe(j.notices), 0);
    assert_int_equal(pipe(j.go), 0);
    assert_ok(forked_start(RANKS, rank_body, &j, pids, &error), &error);
    wait_for_all(&j);
    plug_in(pids);
    let_all_go(&j);
    if (what != TROUBLE_LOOPBACK) {
        wait_for_all(&j);
        make_trouble(what, pids);
        let_all_go(&j);
    }
    if (what == TROUBLE_STOP) {
        assert_patience(pids);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        if (what == TROUBLE_KILL && r == 1) {
            assert_true(WIFSIGNALED(status));
        } else {
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
    }
    for (int end = 0; end < 2; end++) {
        (void)close(j.notices[end]);
        (void)close(j.go[end]);
    }
    if (what == TROUBLE_LOSS) {
        assert_true(netns_run("nft delete table bridge loss"));
    }
}

static void test_tcp(void **state)
{
    (void)state;
    run_job(COLL_TRANSPORT_AUTO, TROUBLE_NONE);
    for (trouble what = TROUBLE_NONE; what <= TROUBLE_LOOPBACK; what++) {
        run_job(COLL_TRANSPORT_TCP, what);
    }
}

static void test_zmq(void **state)
{
    (void)state;
    for (trouble what = TROUBLE_NONE; what <= TROUBLE_LOOPBACK; what++) {
        run_job(COLL_TRANSPORT_ZMQ, what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_zmq),
    };
    if (!netns_begin() || !netns_run("nft list tables >/dev/null && tc qdisc show >/dev/null")) {
        (void)fprintf(stderr, "skipped: needs root, network namespaces, and ip, tc and nft "
                              "(iproute2, nftables)\n");
        return TEST_EXIT_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
