#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "forked.h"

enum {
    PATTERN_COUNT = 1021, /* prime, so that no block size is a multiple of it */
    BATCH_BYTES_MAX = 256,
    BATCH = 512,
    ITERATIONS_MAX = 1000,
    ITERATIONS_MIN = 8,
};

#define SIZE_BUDGET_NS (400 * BASE_NS_PER_MS) /* time to spend on one size */

typedef struct bench {
    const bench_options *options;
    forked_rank *rank;
    coll_context *context;
    coll_comm *comm;
    coll_arena *arena;
    float *buffer;
    float own[PATTERN_COUNT];
    float expected[PATTERN_COUNT];
    int64_t samples_ns[ITERATIONS_MAX];
    base_error error;
} bench;

base_status bench_parse_size(const char *text, size_t min, size_t max, size_t *value,
                             base_error *reterr)
{
    char *rest = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &rest, 10);
    const char *const units = "KMG";
    const char *unit = *rest != '\0' ? strchr(units, *rest) : NULL;
    const int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    rest += unit != NULL ? 1 : 0;
    if (rest == text || *rest != '\0' || text[0] == '-' || errno != 0 || number > max >> shift ||
        number << shift < min) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%.32s' is no number from %zu to %zu", text,
                         min, max);
    }
    *value = (size_t)(number << shift);
    return BASE_OK;
}

static float pattern(int rank, int index)
{
    static const float scales[] = {1.0f, 1e-5f, 3e3f, 0.37f, 1e6f};
    return ((float)(index % 89) - 44.5f) * scales[(index + 2 * rank) % 5] + (float)rank;
}

/* The ring's order depends on the block, so its rows are checked with values that no order changes.
 */
static float pattern_for(const bench *b, int rank, int index)
{
    return b->options->algorithm == COLL_ALGORITHM_RING ? (float)(index % 89 + rank)
                                                        : pattern(rank, index);
}

static void make_patterns(bench *b)
{
    for (int i = 0; i < PATTERN_COUNT; i++) {
        float values[FORKED_RANKS_MAX] = {0};
        int count = b->rank->size;
        for (int r = 0; r < count; r++) {
            values[r] = pattern_for(b, r, i);
        }
        b->own[i] = values[b->rank->rank];
        for (; count > 1; count = (count + 1) / 2) {
            for (int r = 0; r < count / 2; r++) {
                values[r] = values[2 * r] + values[2 * r + 1];
            }
            values[count / 2] = count % 2 == 1 ? values[count - 1] : values[count / 2];
        }
        b->expected[i] = values[0];
    }
}

static void dirty(bench *b, size_t count)
{
    for (size_t at = 0; at < count; at += PATTERN_COUNT) {
        const size_t n = count - at < PATTERN_COUNT ? count - at : PATTERN_COUNT;
        memcpy(b->buffer + at, b->own, n * sizeof(float));
    }
}

static uint64_t count_wrong(const bench *b, size_t count)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += memcmp(&b->buffer[i], &b->expected[i % PATTERN_COUNT], sizeof(float)) != 0;
    }
    return wrong;
}

/* Nanoseconds for one operation: a batch's mean, or the operation alone. */
static base_status sample(bench *b, size_t count, int64_t *elapsed_ns)
{
    const int batch = count * sizeof(float) <= BATCH_BYTES_MAX ? BATCH : 1;
    base_status status = BASE_OK;
    if (batch == 1) {
        dirty(b, count);
    }
    status = coll_barrier(b->comm, &b->error);
    const int64_t begin_ns = base_now_ns();
    for (int i = 0; status == BASE_OK && i < batch; i++) {
        if (batch > 1) {
            dirty(b, count);
        }
        status = coll_all_reduce(b->comm, b->buffer, b->buffer, count, COLL_FLOAT32, COLL_SUM,
                                 &b->error);
    }
    *elapsed_ns = (base_now_ns() - begin_ns) / batch;
    return status;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* All ranks must do the same number of iterations: rank 0's first sample decides. */
static base_status choose_iterations(bench *b, size_t count, int *iterations)
{
    int64_t elapsed_ns = 0;
    base_status status = sample(b, count, &elapsed_ns);
    if (status == BASE_OK) {
        status = sample(b, count, &elapsed_ns);
    }
    const int batch = count * sizeof(float) <= BATCH_BYTES_MAX ? BATCH : 1;
    const int64_t wanted = SIZE_BUDGET_NS / (2 * batch * (elapsed_ns + 1));
    *iterations = wanted < ITERATIONS_MIN   ? ITERATIONS_MIN
                  : wanted > ITERATIONS_MAX ? ITERATIONS_MAX
                                            : (int)wanted;
    return status == BASE_OK ? coll_broadcast(b->comm, iterations, 1, COLL_INT32, 0, &b->error)
                             : status;
}

static base_status measure(bench *b, size_t bytes, uint64_t *wrong)
{
    const size_t count = bytes / sizeof(float);
    int iterations = 0;
    base_status status = choose_iterations(b, count, &iterations);
    for (int i = 0; status == BASE_OK && i < iterations; i++) {
        status = sample(b, count, &b->samples_ns[i]);
    }
    if (status != BASE_OK) {
        return status;
    }
    int64_t bad = (int64_t)count_wrong(b, count);
    status = coll_all_reduce(b->comm, &bad, &bad, 1, COLL_INT64, COLL_SUM, &b->error);
    *wrong += (uint64_t)bad;
    if (b->rank->rank == 0) {
        qsort(b->samples_ns, (size_t)iterations, sizeof b->samples_ns[0], compare_times);
        const int64_t median_ns = b->samples_ns[iterations / 2];
        const double us = (double)median_ns / 1e3;
        const double algbw = us > 0 ? (double)bytes / us / 1e3 : 0;
        const double busbw = algbw * 2.0 * (b->rank->size - 1) / b->rank->size;
        (void)printf("%12zu %12zu %8s %6s %10.2f %8.2f %8.2f %7lld\n", bytes, count, "float32",
                     "sum", us, algbw, busbw, (long long)bad);
        (void)fflush(stdout);
    }
    return status;
}

static base_status open_bench(bench *b)
{
    const coll_context_options options = {.rank = b->rank->rank,
                                          .world_size = b->rank->size,
                                          .exchange = forked_exchange,
                                          .exchange_user = b->rank,
                                          .transport = b->options->transport,
                                          .algorithm = b->options->algorithm,
                                          .timeout_ns = 60 * BASE_NS_PER_S};
    base_status status = coll_context_create(&options, &b->context, &b->error);
    if (status != BASE_OK) {
        return status;
    }
    b->comm = coll_context_world(b->context);
    if (b->options->arena) {
        status = coll_arena_create(b->comm, b->options->end_bytes, &b->arena, &b->error);
        b->buffer = status == BASE_OK ? coll_arena_data(b->arena) : NULL;
        return status;
    }
    b->buffer = aligned_alloc(4096, (b->options->end_bytes + 4095) / 4096 * 4096);
    return b->buffer != NULL ? BASE_OK : base_fail(&b->error, BASE_ERR_MEMORY, "no memory");
}

/* One processor for each rank, where there are enough. */
static void bind_rank(const forked_rank *rank)
{
    cpu_set_t allowed;
    cpu_set_t own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < rank->size) {
        return;
    }
    for (int cpu = 0, place = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && place++ == rank->rank) {
            CPU_SET(cpu, &own);
        }
    }
    (void)sched_setaffinity(0, sizeof own, &own);
}

static int rank_body(forked_rank *rank, void *user)
{
    static bench b;
    uint64_t wrong = 0;
    bind_rank(rank);
    b = (bench){.options = user, .rank = rank};
    make_patterns(&b);
    base_status status = open_bench(&b);
    if (status == BASE_OK && rank->rank == 0) {
        (void)printf("# all_reduce, %d ranks, %s, %s, %s memory\n", rank->size,
                     coll_transport_name(coll_context_transport(b.context)),
                     coll_algorithm_name(b.options->algorithm), b.arena != NULL ? "arena" : "own");
        (void)printf("#%11s %12s %8s %6s %10s %8s %8s %7s\n", "size(B)", "count", "type", "redop",
                     "time(us)", "algbw", "busbw", "#wrong");
    }
    for (size_t bytes = b.options->begin_bytes; status == BASE_OK && bytes <= b.options->end_bytes;
         bytes *= b.options->factor) {
        status = measure(&b, bytes / sizeof(float) * sizeof(float), &wrong);
    }
    if (status != BASE_OK) {
        base_log(BASE_LOG_ERROR, "rank %d: %s", rank->rank, b.error.message);
    }
    if (b.arena == NULL) {
        free(b.buffer);
    }
    coll_arena_destroy(b.arena);
    coll_context_destroy(b.context);
    return status == BASE_OK && wrong == 0 ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
}

int bench_run(const bench_options *options)
{
    bench_options copy = *options;
    pid_t pids[FORKED_RANKS_MAX];
    base_error error;
    if (forked_start(options->ranks, rank_body, &copy, pids, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    int code = BASE_EXIT_DONE;
    for (int r = 0; r < options->ranks; r++) {
        int status = 0;
        if (waitpid(pids[r], &status, 0) != pids[r] || !WIFEXITED(status) ||
            WEXITSTATUS(status) != BASE_EXIT_DONE) {
            code = BASE_EXIT_ERROR;
        }
    }
    return code;
}
