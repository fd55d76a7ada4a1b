/* A ring all-reduce by hand, in sends and receives, beside the library's own.
 *
 *   cc ring.c $(pkg-config --cflags --libs libcoll-launched) -o ring
 *   launcher --ranks 4 -- ./ring [ELEMENTS]
 *
 * The vector is cut into a block for each rank. In round k a rank sends block rank-1-k to the next rank, and
 * gets block rank-2-k from the one before. In the first n-1 rounds it adds what comes, and then every
 * rank has one block of the sum. In the others it copies, and then every rank has all of them. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, also with -std=c11 */
#include <coll/launched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMES = 9 };

typedef struct ring {
    coll_comm *world;
    size_t elements;
    float *mine;
    float *sum;      /* by hand */
    float *expected; /* by the library */
    float *incoming; /* a block */
} ring;

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int block_of(const ring *r, int round, int behind)
{
    const int n = coll_comm_size(r->world);
    return ((coll_comm_rank(r->world) - behind - round) % n + 2 * n) % n;
}

/* One round: the send is started, and not waited for, before the receive. If every rank waited for its send
 * first, a long one would never end: nobody would be there to receive it. */
static coll_status do_round(ring *r, int round, coll_error *error)
{
    const int n = coll_comm_size(r->world);
    const int rank = coll_comm_rank(r->world);
    const size_t block = r->elements / (size_t)n;
    float *kept = r->sum + block * (size_t)block_of(r, round, 2);
    coll_request *sent = NULL;
    coll_op_desc send = {.size = sizeof send, .kind = COLL_SEND, .type = COLL_FLOAT32};
    send.send = r->sum + block * (size_t)block_of(r, round, 1);
    send.count = block;
    send.root = (rank + 1) % n;
    coll_status status = coll_start(r->world, &send, &sent, error);
    if (status == COLL_OK) {
        status =
            coll_receive(r->world, r->incoming, block, COLL_FLOAT32, (rank + n - 1) % n, error);
    }
    for (size_t i = 0; status == COLL_OK && i < block; i++) {
        kept[i] = round < n - 1 ? r->incoming[i] + kept[i] : r->incoming[i];
    }
    return status == COLL_OK ? coll_request_wait(&sent, error) : status;
}

static coll_status by_hand(ring *r, coll_error *error)
{
    const int rounds = 2 * (coll_comm_size(r->world) - 1);
    coll_status status = COLL_OK;
    memcpy(r->sum, r->mine, r->elements * sizeof(float));
    for (int round = 0; status == COLL_OK && round < rounds; round++) {
        status = do_round(r, round, error);
    }
    return status;
}

static coll_status by_library(ring *r, coll_algorithm algorithm, coll_error *error)
{
    coll_op_desc desc = {.size = sizeof desc, .kind = COLL_ALL_REDUCE, .type = COLL_FLOAT32};
    desc.send = r->mine;
    desc.recv = r->expected;
    desc.count = r->elements;
    desc.reduce = COLL_SUM;
    desc.algorithm = algorithm;
    return coll_run(r->world, &desc, error);
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* way: 0 by hand, else by the library. Prints the median of TIMES runs, and the bytes of one. */
static coll_status measure(ring *r, const char *name, int way, coll_algorithm algorithm,
                           const coll_context *context, coll_error *error)
{
    double took_us[TIMES];
    coll_status status = COLL_OK;
    uint64_t bytes = 0;
    for (int i = 0; status == COLL_OK && i < TIMES; i++) {
        status = coll_barrier(r->world, error);
        const uint64_t before = coll_context_bytes_sent(context);
        const double begin_us = now_us();
        if (status == COLL_OK) {
            status = way == 0 ? by_hand(r, error) : by_library(r, algorithm, error);
        }
        took_us[i] = now_us() - begin_us;
        bytes = coll_context_bytes_sent(context) - before;
    }
    if (status == COLL_OK && coll_comm_rank(r->world) == 0) {
        qsort(took_us, TIMES, sizeof took_us[0], compare);
        printf("%-20s %10.1f us  %12llu bytes sent by rank 0\n", name, took_us[TIMES / 2],
               (unsigned long long)bytes);
    }
    return status;
}

static coll_status run(ring *r, const coll_context *context, coll_error *error)
{
    coll_status status = measure(r, "by hand", 0, COLL_ALGORITHM_RING, context, error);
    if (status == COLL_OK) {
        status = measure(r, "the library's ring", 1, COLL_ALGORITHM_RING, context, error);
    }
    const int equal = memcmp(r->sum, r->expected, r->elements * sizeof(float)) == 0;
    if (status == COLL_OK) {
        status = measure(r, "its choice", 1, COLL_ALGORITHM_AUTO, context, error);
    }
    if (status == COLL_OK && coll_comm_rank(r->world) == 0) {
        printf("the two rings have %s\n", equal ? "the same bits" : "other bits");
    }
    return status;
}

static coll_status prepare(ring *r, size_t elements, coll_error *error)
{
    const size_t n = (size_t)coll_comm_size(r->world);
    r->elements = (elements + n - 1) / n * n; /* blocks of one length */
    r->mine = malloc(r->elements * sizeof(float));
    r->sum = malloc(r->elements * sizeof(float));
    r->expected = malloc(r->elements * sizeof(float));
    r->incoming = malloc(r->elements / n * sizeof(float));
    if (r->mine == NULL || r->sum == NULL || r->expected == NULL || r->incoming == NULL) {
        *error = (coll_error){.status = COLL_ERR_MEMORY, .message = "no memory"};
        return COLL_ERR_MEMORY;
    }
    for (size_t i = 0; i < r->elements; i++) { /* so that the order of the sum matters */
        r->mine[i] = 1.0f / (float)(i + 1 + (size_t)coll_comm_rank(r->world));
    }
    return COLL_OK;
}

int main(int count, char **arguments)
{
    coll_error error;
    coll_launched *launched = NULL;
    ring r = {.elements = 0};
    const size_t elements = count > 1 ? strtoull(arguments[1], NULL, 10) : 1000000;
    if (coll_launched_open(&launched, &error) != COLL_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    coll_context *context = coll_launched_context(launched);
    r.world = coll_context_world(context);
    coll_status status = prepare(&r, elements, &error);
    if (status == COLL_OK) {
        status = run(&r, context, &error);
    }
    if (status != COLL_OK) {
        coll_launched_fail(launched, &error); /* the launcher says it, and ends the others */
    }
    free(r.mine);
    free(r.sum);
    free(r.expected);
    free(r.incoming);
    return coll_launched_close(launched, &error) == COLL_OK ? 0 : 1;
}
