/* libcoll by itself: this program forks, and its four processes add up. To start, libcoll needs only
 * a way for every process to learn a few bytes of every other. Here this is memory that all of them
 * see.
 *
 *   cc sum_fork.c $(pkg-config --cflags --libs libcoll) -pthread -o sum_fork
 *   ./sum_fork */
#include <coll/coll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, BYTES_MAX = 16384 };

/* In shared memory. */
typedef struct {
    pthread_barrier_t barrier;
    char bytes[RANKS][BYTES_MAX];
} shared_board;

typedef struct {
    shared_board *board;
    int rank;
} this_process;

/* The all-gather of libcoll's start. Ignores the deadline, because a barrier has none. */
static coll_status gather(void *user, const void *mine, void *all, size_t size_bytes,
                          int64_t deadline_ns, coll_error *reterr)
{
    const this_process *self = user;
    shared_board *board = self->board;
    (void)deadline_ns;
    if (size_bytes > BYTES_MAX) {
        if (reterr != NULL) {
            *reterr = (coll_error){.status = COLL_ERR_LIMIT, .message = "the board is too small"};
        }
        return COLL_ERR_LIMIT;
    }
    memcpy(board->bytes[self->rank], mine, size_bytes);
    pthread_barrier_wait(&board->barrier);
    for (int r = 0; r < RANKS; r++) {
        memcpy((char *)all + (size_t)r * size_bytes, board->bytes[r], size_bytes);
    }
    pthread_barrier_wait(&board->barrier); /* nobody writes again before all have read */
    return COLL_OK;
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
                                          .exchange_user = &self};
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

static shared_board *make_board(void)
{
    pthread_barrierattr_t attributes;
    shared_board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || pthread_barrierattr_init(&attributes) != 0 ||
        pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_barrier_init(&board->barrier, &attributes, RANKS) != 0) {
        return NULL;
    }
    return board;
}

int main(void)
{
    pid_t pids[RANKS];
    int failed = 0;
    shared_board *board = make_board();
    if (board == NULL) {
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
