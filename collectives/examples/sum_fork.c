/* libcoll by itself: this program forks, and its four processes add up. To start, libcoll needs only
 * a way for every process to learn a few bytes of every other. Here this is memory that all of them
 * see.
 *
 *   cc sum_fork.c $(pkg-config --cflags --libs libcoll) -o sum_fork
 *   ./sum_fork */
#define _GNU_SOURCE /* MAP_ANONYMOUS, also with -std=c11 */
#include <coll/coll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4 };

/* In shared memory. */
typedef struct {
    atomic_uint came; /* how often ranks have written their bytes, all calls together */
    atomic_uint read; /* and have read all */
    char bytes[RANKS][COLL_EXCHANGE_BYTES_MAX];
} shared_board;

typedef struct {
    shared_board *board;
    int rank;
    unsigned calls; /* of gather */
} this_process;

/* Waits until so many have come. A rank may never come: it may have died. */
static coll_status wait_for(atomic_uint *count, unsigned wanted, int64_t deadline_ns,
                            coll_error *reterr)
{
    const struct timespec pause = {.tv_nsec = 100000};
    while (atomic_load(count) < wanted) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec * INT64_C(1000000000) + now.tv_nsec >= deadline_ns) {
            if (reterr != NULL) {
                *reterr = (coll_error){.status = COLL_ERR_TIMEOUT, .message = "a rank is missing"};
            }
            return COLL_ERR_TIMEOUT;
        }
        nanosleep(&pause, NULL);
    }
    return COLL_OK;
}

/* The all-gather of libcoll's start. */
static coll_status gather(void *user, const void *mine, void *all, size_t size_bytes,
                          int64_t deadline_ns, coll_error *reterr)
{
    this_process *self = user;
    shared_board *board = self->board;
    const unsigned wanted = ++self->calls * RANKS;
    memcpy(board->bytes[self->rank], mine, size_bytes);
    atomic_fetch_add(&board->came, 1);
    coll_status status = wait_for(&board->came, wanted, deadline_ns, reterr);
    if (status != COLL_OK) {
        return status;
    }
    for (int r = 0; r < RANKS; r++) {
        memcpy((char *)all + (size_t)r * size_bytes, board->bytes[r], size_bytes);
    }
    atomic_fetch_add(&board->read, 1);
    return wait_for(&board->read, wanted, deadline_ns, reterr); /* nobody writes before that */
}

static coll_status add_up(coll_context *context, coll_error *error)
{
    coll_comm *world = coll_context_world(context);
    double sum = 0;
    const double mine = coll_comm_rank(world) + 1;
    const coll_status status =
        coll_all_reduce(world, &mine, &sum, 1, COLL_FLOAT64, COLL_SUM, error);
    if (status == COLL_OK) {
        printf("1 + … + %d = %g\n", coll_comm_size(world), sum);
    }
    return status;
}

static int run(shared_board *board, int rank)
{
    this_process self = {.board = board, .rank = rank};
    const coll_context_options options = {.size = sizeof(coll_context_options),
                                          .rank = rank,
                                          .world_size = RANKS,
                                          .exchange = gather,
                                          .exchange_user = &self,
                                          .timeout_ns = INT64_C(10) * 1000000000};
    coll_context *context = NULL;
    coll_error error = {.message = ""};
    coll_status status = coll_context_create(&options, &context, &error);
    if (status == COLL_OK) {
        status = add_up(context, &error);
    }
    if (status != COLL_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, error.message);
    }
    coll_context_destroy(context);
    return status == COLL_OK ? 0 : 1;
}

int main(void)
{
    pid_t pids[RANKS];
    int failed = 0;
    shared_board *board = /* of zeros */
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("shared memory");
        return 1;
    }
    for (int r = 1; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            return run(board, r);
        }
        if (pids[r] < 0) {
            perror("fork");
            while (--r > 0) {
                kill(pids[r], SIGTERM); /* they wait for one that does not come */
            }
            return 1;
        }
    }
    failed = run(board, 0);
    for (int status; wait(&status) > 0;) {
        failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}
