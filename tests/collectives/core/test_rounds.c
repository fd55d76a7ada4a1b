/* Rounds of random operations between processes, over each transport, with one of them killed, or
 * stopped for a while, at a random point: by a timer of its own, so that it can be anywhere.
 * Survivors of a kill must end with an error that names the killed rank, long before their
 * deadline; a pause must change nothing. Ranks are on one host or, where this process may make
 * them, on two, played by network namespaces. Nothing may be left behind: no process (this one
 * takes all unexpected messages), and no file in /dev/shm and /tmp, which root's test has for
 * itself (other programs use the common ones: of /tmp they say nothing).
 *
 * `--rounds N` does N rounds of each (default 12 over shm, 4 over the others), `--seed S` begins
 * with another seed. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "netns.h"
#include "random.h"
#include "support.h"

enum {
    RANKS_MAX = 5,
    HOSTS = 2,
    COUNT_MAX = 40000,
    OPERATIONS = 400, /* of a round in which nobody dies */
    ROUNDS_SHM = 12,
    ROUNDS_OTHER = 4, /* sockets take longer to make */
    EXIT_GOOD = 0,
    EXIT_BAD = 1,
};

/* Timers go off at a random time up to this after the first operation. */
#define TIMER_NS (4 * BASE_NS_PER_MS)
/* Ranks must end before their collectives' own deadline. */
#define TIMEOUT_NS (30 * BASE_NS_PER_S)
#define ENOUGH_NS  (15 * BASE_NS_PER_S)
#define PAUSE_MS   5

static unsigned rounds; /* 0: as many as there are by default */
static uint64_t first_seed = 1;
static bool has_own_folders; /* /dev/shm and /tmp are nobody else's */

typedef struct round_plan {
    uint64_t seed;
    int size;
    int victim;
    int signal;
    int64_t timer_ns;
    coll_transport transport; /* AUTO: on two hosts */
} round_plan;

/* Sends this process a signal in a while, wherever it is then. */
static bool arm(const round_plan *plan)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = plan->signal};
    const struct itimerspec when = {.it_value = {.tv_nsec = (long)plan->timer_ns}};
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
           timer_settime(timer, 0, &when, NULL) == 0;
}

typedef struct player {
    coll_comm *comm;
    coll_arena *arena;
    bool has_hosts;
    int32_t *heap;
    uint64_t random;
    coll_error error;
} player;

/* One random operation, the same on every rank; results are looked at by other tests. */
static coll_status play(player *p)
{
    static const size_t counts[] = {1, 3, 14, 60, 500, 3000, 10000, COUNT_MAX};
    const int size = coll_comm_size(p->comm);
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = (coll_kind)(COLL_ALL_REDUCE + test_random(&p->random) % 11),
                         .type = COLL_INT32,
                         .reduce = COLL_MAX};
    desc.kind += desc.kind >= COLL_SEND ? COLL_SCAN - COLL_SEND : 0;
    desc.count = counts[test_random(&p->random) % (sizeof counts / sizeof counts[0])];
    desc.root = (int)(test_random(&p->random) % (uint32_t)size);
    if (p->has_hosts && test_random(&p->random) % 2 == 0) {
        desc.algorithm = COLL_ALGORITHM_TWO_LEVEL;
    }
    int32_t *memory = test_random(&p->random) % 2 == 0 ? p->heap : coll_arena_data(p->arena);
    desc.send = memory;
    desc.recv = memory + (size_t)size * COUNT_MAX;
    return coll_run(p->comm, &desc, &p->error);
}

static bool names(const char *text, int rank)
{
    char name[32];
    (void)snprintf(name, sizeof name, "rank %d (host", rank);
    return strstr(text, name) != NULL;
}

static int complain(const round_plan *plan, const forked_rank *rank, coll_status status,
                    const player *p)
{
    (void)fprintf(stderr, "seed %llu, rank %d of %d, victim %d: %s: %s\n",
                  (unsigned long long)plan->seed, rank->rank, rank->size, plan->victim,
                  coll_status_name(status), p->error.message);
    return EXIT_BAD;
}

static int body(forked_rank *rank, void *user)
{
    const round_plan *plan = user;
    const bool killed = plan->signal == SIGKILL;
    const bool has_hosts = plan->transport == COLL_TRANSPORT_AUTO;
    const coll_context_options options = {FORKED_OPTIONS(rank), .transport = plan->transport,
                                          .interface = has_hosts ? "port" : NULL,
                                          .timeout_ns = TIMEOUT_NS};
    player p = {.random = plan->seed * 7919 + 1, .has_hosts = has_hosts};
    coll_context *context = NULL;
    const size_t bytes = (size_t)2 * RANKS_MAX * COUNT_MAX * sizeof(int32_t);
    if (has_hosts && !netns_enter(rank->rank % HOSTS)) {
        return complain(plan, rank, COLL_ERR_IO, &p);
    }
    coll_status status = coll_context_create(&options, &context, &p.error);
    p.comm = status == COLL_OK ? coll_context_world(context) : NULL;
    p.heap = calloc(1, bytes);
    if (status == COLL_OK) {
        status = coll_arena_create(p.comm, bytes, &p.arena, &p.error);
    }
    if (status != COLL_OK || p.heap == NULL) {
        return complain(plan, rank, status, &p);
    }
    const int64_t begin_ns = base_now_ns();
    status = coll_barrier(p.comm, &p.error); /* sockets may lose what a killed rank sent last */
    if (rank->rank == plan->victim && (status != COLL_OK || !arm(plan))) {
        return complain(plan, rank, status, &p);
    }
    for (int i = 0; status == COLL_OK && (killed || i < OPERATIONS); i++) {
        status = play(&p);
    }
    if (killed && (status != COLL_ERR_PEER || !names(p.error.message, plan->victim) ||
                   base_now_ns() - begin_ns > ENOUGH_NS)) {
        return complain(plan, rank, status, &p);
    }
    if (!killed && status != COLL_OK) {
        return complain(plan, rank, status, &p);
    }
    coll_arena_destroy(p.arena);
    coll_context_destroy(context);
    free(p.heap);
    return EXIT_GOOD;
}

/* Entries of a directory that are there. */
static int count_entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    while (directory != NULL && readdir(directory) != NULL) {
        count++;
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return count;
}

/* Whether this process could have empty folders in the places of /dev/shm and /tmp, that only it
 * and its children see. */
static bool take_own_folders(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) == 0 &&
           mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0;
}

/* No process and no file is left of a round; before it, /dev/shm had `before` entries. */
static void assert_nothing_left(int before)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_true(count_entries("/dev/shm") <= before);
    if (has_own_folders) {
        assert_int_equal(before, 2); /* itself and its parent */
        assert_int_equal(count_entries("/tmp"), 2);
    }
}

static void play_round(const round_plan *plan)
{
    pid_t pids[RANKS_MAX];
    coll_error error;
    int status = 0;
    round_plan copy = *plan;
    assert_ok(forked_start(plan->size, body, &copy, pids, &error), &error);
    if (plan->signal == SIGSTOP) {
        /* It may be through before its timer goes off. */
        assert_int_equal(waitpid(pids[plan->victim], &status, WUNTRACED), pids[plan->victim]);
        if (WIFSTOPPED(status)) {
            (void)poll(NULL, 0, PAUSE_MS); /* the pause is what is tried */
            assert_int_equal(kill(pids[plan->victim], SIGCONT), 0);
            assert_int_equal(waitpid(pids[plan->victim], &status, 0), pids[plan->victim]);
        }
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_GOOD);
    }
    for (int r = 0; r < plan->size; r++) {
        if (plan->signal == SIGSTOP && r == plan->victim) {
            continue;
        }
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        if (r == plan->victim) {
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        } else {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_GOOD);
        }
    }
}

static void play_rounds(coll_transport transport, int signal)
{
    const unsigned usual = transport == COLL_TRANSPORT_SHM ? ROUNDS_SHM : ROUNDS_OTHER;
    for (unsigned i = 0; i < (rounds != 0 ? rounds : usual); i++) {
        uint64_t random = (first_seed + i) * 104729;
        round_plan plan = {.seed = first_seed + i, .signal = signal, .transport = transport};
        plan.size = 2 + (int)(test_random(&random) % (RANKS_MAX - 1));
        plan.size += transport == COLL_TRANSPORT_AUTO && plan.size < 3; /* some share a host */
        plan.victim = (int)(test_random(&random) % (uint32_t)plan.size);
        plan.timer_ns = 1 + (int64_t)(test_random(&random) % (uint32_t)TIMER_NS);
        const int before = count_entries("/dev/shm");
        play_round(&plan);
        assert_nothing_left(before);
    }
}

/* Whether there can be hosts. */
static bool make_hosts(void)
{
    static int made = -1;
    if (made < 0) {
        made = netns_begin() && netns_make(0, 1) && netns_make(1, 2);
    }
    return made != 0;
}

static void test_killed(void **state)
{
    const coll_transport transport = *(const coll_transport *)*state;
    if (transport == COLL_TRANSPORT_AUTO && !make_hosts()) {
        skip();
    }
    play_rounds(transport, SIGKILL);
}

static void test_paused(void **state)
{
    const coll_transport transport = *(const coll_transport *)*state;
    if (transport == COLL_TRANSPORT_AUTO && !make_hosts()) {
        skip();
    }
    play_rounds(transport, SIGSTOP);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0) {
            rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            first_seed = strtoull(argv[i + 1], NULL, 10);
        }
    }
    static coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                          COLL_TRANSPORT_ZMQ, COLL_TRANSPORT_AUTO};
    const struct CMUnitTest tests[] = {
        {"killed, shm", test_killed, NULL, NULL, &transports[0]},
        {"killed, tcp", test_killed, NULL, NULL, &transports[1]},
        {"killed, zmq", test_killed, NULL, NULL, &transports[2]},
        {"paused, shm", test_paused, NULL, NULL, &transports[0]},
        {"paused, tcp", test_paused, NULL, NULL, &transports[1]},
        {"paused, zmq", test_paused, NULL, NULL, &transports[2]},
        {"killed, two hosts", test_killed, NULL, NULL, &transports[3]},
        {"paused, two hosts", test_paused, NULL, NULL, &transports[3]},
    };
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        return 1;
    }
    has_own_folders = take_own_folders();
    (void)printf("/dev/shm and /tmp: %s\n",
                 has_own_folders ? "own" : "common, only the former looked at");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
