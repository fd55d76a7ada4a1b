/* Rounds of random operations between processes, with one of them killed, or stopped for a while,
 * at a random point: by a timer of its own, so that it can be anywhere. Survivors of a kill must
 * end with an error that names the killed rank, long before their deadline; a pause must change
 * nothing. Nothing may be left behind.
 *
 * `--rounds N` does N rounds of each (default 12), `--seed S` begins with another seed. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "support.h"

enum {
    RANKS_MAX = 5,
    COUNT_MAX = 40000,
    OPERATIONS = 400, /* of a round in which nobody dies */
    EXIT_GOOD = 0,
    EXIT_BAD = 1,
};

/* Timers go off at a random time up to this after the first operation. */
#define TIMER_NS (4 * BASE_NS_PER_MS)
/* Ranks must end before their collectives' own deadline. */
#define TIMEOUT_NS (30 * BASE_NS_PER_S)
#define ENOUGH_NS  (15 * BASE_NS_PER_S)
#define PAUSE_MS   5

static unsigned rounds = 12;
static uint64_t first_seed = 1;

typedef struct round_plan {
    uint64_t seed;
    int size;
    int victim;
    int signal;
    int64_t timer_ns;
    coll_transport transport;
} round_plan;

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

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
    int32_t *heap;
    uint64_t random;
    base_error error;
} player;

/* One random operation, the same on every rank; results are looked at by other tests. */
static base_status play(player *p)
{
    static const size_t counts[] = {1, 3, 14, 60, 500, 3000, 10000, COUNT_MAX};
    const int size = coll_comm_size(p->comm);
    coll_op_desc desc = {.kind = (coll_kind)(COLL_ALL_REDUCE + next(&p->random) % 9),
                         .type = COLL_INT32,
                         .reduce = COLL_MAX};
    desc.count = counts[next(&p->random) % (sizeof counts / sizeof counts[0])];
    desc.root = (int)(next(&p->random) % (uint32_t)size);
    int32_t *memory = next(&p->random) % 2 == 0 ? p->heap : coll_arena_data(p->arena);
    desc.send = memory;
    desc.recv = memory + (size_t)size * COUNT_MAX;
    return coll_run(p->comm, &desc, &p->error);
}

static bool names(const char *text, int rank)
{
    char who[32];
    (void)snprintf(who, sizeof who, "rank %d (host", rank);
    return strstr(text, who) != NULL;
}

static int complain(const round_plan *plan, const forked_rank *rank, base_status status,
                    const player *p)
{
    (void)fprintf(stderr, "seed %llu, rank %d of %d, victim %d: %s: %s\n",
                  (unsigned long long)plan->seed, rank->rank, rank->size, plan->victim,
                  base_status_name(status), p->error.message);
    return EXIT_BAD;
}

static int body(forked_rank *rank, void *user)
{
    const round_plan *plan = user;
    const bool killed = plan->signal == SIGKILL;
    const coll_context_options options = {.rank = rank->rank,
                                          .world_size = rank->size,
                                          .exchange = forked_exchange,
                                          .exchange_user = rank,
                                          .transport = plan->transport,
                                          .timeout_ns = TIMEOUT_NS};
    player p = {.random = plan->seed * 7919 + 1};
    coll_context *context = NULL;
    const size_t bytes = (size_t)2 * RANKS_MAX * COUNT_MAX * sizeof(int32_t);
    base_status status = coll_context_create(&options, &context, &p.error);
    p.comm = status == BASE_OK ? coll_context_world(context) : NULL;
    p.heap = calloc(1, bytes);
    if (status == BASE_OK) {
        status = coll_arena_create(p.comm, bytes, &p.arena, &p.error);
    }
    if (status == BASE_OK) {
        status = coll_barrier(p.comm, &p.error);
    }
    if (status != BASE_OK || p.heap == NULL || (rank->rank == plan->victim && !arm(plan))) {
        return complain(plan, rank, status, &p);
    }
    const int64_t begin_ns = base_now_ns();
    for (int i = 0; status == BASE_OK && (killed || i < OPERATIONS); i++) {
        status = play(&p);
    }
    if (killed && (status != BASE_ERR_PEER || !names(p.error.message, plan->victim) ||
                   base_now_ns() - begin_ns > ENOUGH_NS)) {
        return complain(plan, rank, status, &p);
    }
    if (!killed && status != BASE_OK) {
        return complain(plan, rank, status, &p);
    }
    coll_arena_destroy(p.arena);
    coll_context_destroy(context);
    free(p.heap);
    return EXIT_GOOD;
}

/* Entries of a folder that are there. */
static int count_entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return count;
}

static void play_round(const round_plan *plan)
{
    pid_t pids[RANKS_MAX];
    base_error error;
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
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t random = (first_seed + i) * 104729;
        round_plan plan = {.seed = first_seed + i, .signal = signal, .transport = transport};
        (void)next(&random);
        plan.size = 2 + (int)(next(&random) % (RANKS_MAX - 1));
        plan.victim = (int)(next(&random) % (uint32_t)plan.size);
        plan.timer_ns = 1 + (int64_t)(next(&random) % (uint32_t)TIMER_NS);
        const int before = count_entries("/dev/shm");
        play_round(&plan);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
        assert_true(count_entries("/dev/shm") <= before);
    }
}

static void test_killed_shm(void **state)
{
    (void)state;
    play_rounds(COLL_TRANSPORT_SHM, SIGKILL);
}

static void test_paused_shm(void **state)
{
    (void)state;
    play_rounds(COLL_TRANSPORT_SHM, SIGSTOP);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_shm),
        cmocka_unit_test(test_paused_shm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
