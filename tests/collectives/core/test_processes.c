/* Ranks as real processes: one that is killed, one that is stopped for a while, sixteen at once,
 * two jobs at once, and nothing left behind. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "support.h"

enum { EXIT_GOOD = 0, EXIT_BAD = 1 };

typedef struct job {
    coll_transport transport;
    int64_t timeout_ns;
    int pipe[2];  /* ranks tell the parent how far they are */
    int go[2];    /* where they wait for it, if there is one */
    int32_t salt; /* in all that a crowd sends */
} job;

/* What a forked rank says about its failure goes to stderr; its exit code tells the parent. */
#define CHILD_CHECK(condition, error)                                                              \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,              \
                          (error)->message);                                                       \
            return EXIT_BAD;                                                                       \
        }                                                                                          \
    } while (0)

static coll_status join(forked_rank *rank, const job *j, coll_context **context, coll_error *error)
{
    const coll_context_options options = {
        FORKED_OPTIONS(rank),
        .transport = j->transport,
        .timeout_ns = j->timeout_ns,
    };
    return coll_context_create(&options, context, error);
}

/* All meet; the others say so, and the parent kills rank 1, which waits for it. */
static int killed_body(forked_rank *rank, void *user)
{
    const job *j = user;
    coll_context *context = NULL;
    coll_error error = {.status = COLL_OK};
    float data[100] = {0};
    CHILD_CHECK(join(rank, j, &context, &error) == COLL_OK, &error);
    coll_comm *comm = coll_context_world(context);
    CHILD_CHECK(coll_barrier(comm, &error) == COLL_OK, &error);
    while (rank->rank == 1) {
        (void)pause();
    }
    (void)!write(j->pipe[1], "r", 1);
    const coll_status status =
        coll_all_reduce(comm, data, data, 100, COLL_FLOAT32, COLL_SUM, &error);
    CHILD_CHECK(status == COLL_ERR_PEER, &error); /* long before the timeout */
    CHILD_CHECK(strstr(error.message, "rank 1 (host") != NULL, &error);
    coll_context_destroy(context);
    return EXIT_GOOD;
}

static int count_dev_shm(void)
{
    int count = 0;
    DIR *directory = opendir("/dev/shm");
    for (const struct dirent *entry = directory != NULL ? readdir(directory) : NULL; entry != NULL;
         entry = readdir(directory)) {
        count += strstr(entry->d_name, "ringfence") != NULL;
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return count;
}

static void kill_one(coll_transport transport)
{
    job j = {.transport = transport, .timeout_ns = 20 * BASE_NS_PER_S};
    pid_t pids[3];
    coll_error error;
    char byte = 0;
    int status = 0;
    assert_int_equal(pipe(j.pipe), 0);
    assert_ok(forked_start(3, killed_body, &j, pids, &error), &error);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(read(j.pipe[0], &byte, 1), 1);
    }
    assert_int_equal(kill(pids[1], SIGKILL), 0);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        if (r == 1) {
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        } else {
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), EXIT_GOOD);
        }
    }
    (void)close(j.pipe[0]);
    (void)close(j.pipe[1]);
    assert_int_equal(count_dev_shm(), 0);
}

static void test_killed_rank_is_named_shm(void **state)
{
    (void)state;
    kill_one(COLL_TRANSPORT_SHM);
}

static void test_killed_rank_is_named_zmq(void **state)
{
    (void)state;
    kill_one(COLL_TRANSPORT_ZMQ);
}

static void test_killed_rank_is_named_tcp(void **state)
{
    (void)state;
    kill_one(COLL_TRANSPORT_TCP);
}

/* Rank 1 starts a program that outlives it, and dies. */
static int parent_body(forked_rank *rank, void *user)
{
    const job *j = user;
    coll_context *context = NULL;
    coll_error error = {.status = COLL_OK};
    CHILD_CHECK(join(rank, j, &context, &error) == COLL_OK, &error);
    coll_comm *comm = coll_context_world(context);
    CHILD_CHECK(coll_barrier(comm, &error) == COLL_OK, &error);
    if (rank->rank == 1) {
        if (fork() == 0) {
            (void)dup2(j->pipe[0], STDIN_FILENO);
            (void)execlp("cat", "cat", (char *)NULL); /* until the test closes the pipe */
            _exit(EXIT_BAD);
        }
        (void)raise(SIGKILL);
    }
    CHILD_CHECK(coll_barrier(comm, &error) == COLL_ERR_PEER, &error);
    CHILD_CHECK(strstr(error.message, "rank 1 (host") != NULL, &error);
    coll_context_destroy(context);
    return EXIT_GOOD;
}

static void test_a_program_that_a_rank_started_hides_no_death(void **state)
{
    static const coll_transport over[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                          COLL_TRANSPORT_TCP};
    (void)state;
    for (int i = 0; i < 3; i++) {
        job j = {.transport = over[i], .timeout_ns = 10 * BASE_NS_PER_S};
        pid_t pids[2];
        coll_error error;
        int status = 0;
        assert_int_equal(pipe2(j.pipe, O_CLOEXEC), 0);
        assert_ok(forked_start(2, parent_body, &j, pids, &error), &error);
        assert_int_equal(waitpid(pids[1], &status, 0), pids[1]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(waitpid(pids[0], &status, 0), pids[0]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_GOOD);
        (void)close(j.pipe[0]);
        (void)close(j.pipe[1]);
    }
}

/* Rank 1 stops itself, and the parent lets it go on. */
static int stopped_body(forked_rank *rank, void *user)
{
    const job *j = user;
    coll_context *context = NULL;
    coll_error error = {.status = COLL_OK};
    int32_t over = 0;
    CHILD_CHECK(join(rank, j, &context, &error) == COLL_OK, &error);
    coll_comm *comm = coll_context_world(context);
    if (rank->rank == 1) {
        (void)raise(SIGSTOP);
        over = 1;
    }
    CHILD_CHECK(coll_all_reduce(comm, &over, &over, 1, COLL_INT32, COLL_SUM, &error) == COLL_OK,
                &error);
    CHILD_CHECK(over == 1, &error);
    coll_context_destroy(context);
    return EXIT_GOOD;
}

static void stop_one(coll_transport transport)
{
    job j = {.transport = transport, .timeout_ns = 20 * BASE_NS_PER_S};
    pid_t pids[3];
    coll_error error;
    int status = 0;
    assert_ok(forked_start(3, stopped_body, &j, pids, &error), &error);
    assert_int_equal(waitpid(pids[1], &status, WUNTRACED), pids[1]);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(pids[1], SIGCONT), 0);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_GOOD);
    }
}

static void test_stopped_rank_goes_on(void **state)
{
    (void)state;
    stop_one(COLL_TRANSPORT_SHM);
    stop_one(COLL_TRANSPORT_ZMQ);
    stop_one(COLL_TRANSPORT_TCP);
}

static bool may_go(const job *j)
{
    char byte = 0;
    return j->go[0] == 0 || (write(j->pipe[1], "r", 1) == 1 && read(j->go[0], &byte, 1) == 1);
}

/* Rounds of every operation on more ranks than there are processors. */
static int crowd_body(forked_rank *rank, void *user)
{
    enum { COUNT = 5000 };
    static int32_t send[COUNT];
    static int32_t recv[16 * COUNT];
    const job *j = user;
    coll_context *context = NULL;
    coll_error error = {.status = COLL_OK};
    const int n = rank->size;
    CHILD_CHECK(join(rank, j, &context, &error) == COLL_OK && may_go(j), &error);
    coll_comm *comm = coll_context_world(context);
    for (int round = 0; round < 5; round++) {
        const int32_t base = j->salt + round;
        for (int i = 0; i < COUNT; i++) {
            send[i] = i + rank->rank * 10 + base;
        }
        CHILD_CHECK(coll_all_reduce(comm, send, recv, COUNT, COLL_INT32, COLL_SUM, &error) ==
                        COLL_OK,
                    &error);
        for (int i = 0; i < COUNT; i++) {
            CHILD_CHECK(recv[i] == n * (i + base) + 10 * n * (n - 1) / 2, &error);
        }
        CHILD_CHECK(coll_all_gather(comm, send, recv, COUNT, COLL_INT32, &error) == COLL_OK,
                    &error);
        for (int i = 0; i < n * COUNT; i++) {
            CHILD_CHECK(recv[i] == i % COUNT + i / COUNT * 10 + base, &error);
        }
        CHILD_CHECK(coll_broadcast(comm, send, COUNT, COLL_INT32, round % n, &error) == COLL_OK,
                    &error);
        CHILD_CHECK(send[7] == 7 + round % n * 10 + base, &error);
    }
    coll_context_destroy(context);
    return EXIT_GOOD;
}

static void test_sixteen_ranks(void **state)
{
    (void)state;
    job j = {.transport = COLL_TRANSPORT_AUTO, .timeout_ns = 20 * BASE_NS_PER_S};
    pid_t pids[16];
    coll_error error;
    int status = 0;
    assert_ok(forked_start(16, crowd_body, &j, pids, &error), &error);
    for (int r = 0; r < 16; r++) {
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_GOOD);
    }
}

enum { CROWD = 24, DESCRIPTORS = 4 * CROWD, USER_FIRST = 20000, USERS = 40000 };

/* Makes this process one of an ordinary user who may open so many files. That limit holds for
 * descriptors in transit, too, of all the user's processes together, but not for root. So each run of this test has
 * a user of its own. */
static bool become_ordinary(void)
{
    const uid_t user = USER_FIRST + (uid_t)getppid() % USERS;
    const struct rlimit limit = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           (geteuid() != 0 || (setgid(user) == 0 && setuid(user) == 0)) &&
           prctl(PR_SET_DUMPABLE, 1) == 0; /* or /proc/self is root's */
}

static int ordinary_body(forked_rank *rank, void *user)
{
    const job *j = user;
    coll_context *context = NULL;
    coll_arena *arena = NULL;
    coll_error error = {.status = COLL_OK};
    CHILD_CHECK(become_ordinary(), &error);
    for (int i = 0; i < 4; i++) {
        CHILD_CHECK(join(rank, j, &context, &error) == COLL_OK, &error);
        coll_comm *comm = coll_context_world(context);
        CHILD_CHECK(coll_arena_create(comm, 4096, &arena, &error) == COLL_OK, &error);
        CHILD_CHECK(coll_barrier(comm, &error) == COLL_OK, &error);
        coll_arena_destroy(arena);
        coll_context_destroy(context);
    }
    return EXIT_GOOD;
}

static void wait_for_good(const pid_t *pids, int count)
{
    for (int r = 0; r < count; r++) {
        int status = 0;
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_GOOD);
    }
}

static void test_an_ordinary_user_has_many_ranks(void **state)
{
    (void)state;
    job j = {.transport = COLL_TRANSPORT_SHM, .timeout_ns = 20 * BASE_NS_PER_S};
    pid_t pids[CROWD];
    coll_error error;
    assert_ok(forked_start(CROWD, ordinary_body, &j, pids, &error), &error);
    wait_for_good(pids, CROWD);
}

/* Two jobs that have all joined before the first operation of either; then one of which a rank is
 * killed meanwhile. */
static void run_two_jobs(coll_transport transport)
{
    enum { RANKS = 3 };
    job one = {.transport = transport, .timeout_ns = 20 * BASE_NS_PER_S};
    pid_t pids[2 * RANKS];
    coll_error error;
    char bytes[2 * RANKS] = {0};
    int status = 0;
    assert_int_equal(pipe(one.pipe), 0);
    assert_int_equal(pipe(one.go), 0);
    job other = one;
    other.salt = 1000000;
    assert_ok(forked_start(RANKS, crowd_body, &one, pids, &error), &error);
    assert_ok(forked_start(RANKS, crowd_body, &other, pids + RANKS, &error), &error);
    for (int r = 0; r < 2 * RANKS; r++) {
        assert_int_equal(read(one.pipe[0], bytes, 1), 1);
    }
    assert_int_equal(write(one.go[1], bytes, sizeof bytes), sizeof bytes);
    wait_for_good(pids, 2 * RANKS);

    assert_ok(forked_start(RANKS, killed_body, &one, pids, &error), &error);
    assert_ok(forked_start(RANKS, crowd_body, &other, pids + RANKS, &error), &error);
    for (int r = 0; r < 2 * RANKS - 1; r++) { /* the victim says nothing */
        assert_int_equal(read(one.pipe[0], bytes, 1), 1);
    }
    assert_int_equal(kill(pids[1], SIGKILL), 0);
    assert_int_equal(waitpid(pids[1], &status, 0), pids[1]);
    wait_for_good(pids, 1);
    wait_for_good(pids + 2, 1);
    assert_int_equal(write(one.go[1], bytes, RANKS), RANKS);
    wait_for_good(pids + RANKS, RANKS);
    for (int end = 0; end < 2; end++) {
        (void)close(one.pipe[end]);
        (void)close(one.go[end]);
    }
}

static void test_two_jobs_at_once(void **state)
{
    (void)state;
    run_two_jobs(COLL_TRANSPORT_SHM);
    run_two_jobs(COLL_TRANSPORT_ZMQ);
    run_two_jobs(COLL_TRANSPORT_TCP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_rank_is_named_shm),
        cmocka_unit_test(test_killed_rank_is_named_zmq),
        cmocka_unit_test(test_killed_rank_is_named_tcp),
        cmocka_unit_test(test_a_program_that_a_rank_started_hides_no_death),
        cmocka_unit_test(test_stopped_rank_goes_on),
        cmocka_unit_test(test_sixteen_ranks),
        cmocka_unit_test(test_an_ordinary_user_has_many_ranks),
        cmocka_unit_test(test_two_jobs_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
