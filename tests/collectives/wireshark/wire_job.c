/* A rank of a job whose traffic dissector.sh captures: operations of all sorts, several under way at a time, with
 * operands that follow from rank and place. Prints how many bytes it has sent. Started by the launcher. */
#include <coll/launched.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RANKS = 4,
    LONG = 4000,     /* elements: more than goes with a flag, */
    LONGER = 150000, /* and than one frame has */
    SHORT = 6,
    SUMS = 3, /* under way together */
};

typedef struct buffers {
    float mine[SUMS][LONG];
    float sums[SUMS][LONG];
    int32_t to[RANKS * LONG];
    int32_t from[RANKS * LONG];
    double block[LONGER];
} buffers;

static coll_status add_up(coll_comm *world, buffers *b, coll_error *error)
{
    coll_request *requests[SUMS] = {NULL};
    coll_status status = COLL_OK;
    for (int sum = 0; status == COLL_OK && sum < SUMS; sum++) {
        for (int i = 0; i < LONG; i++) {
            b->mine[sum][i] = (float)(coll_comm_rank(world) + 1 + i % 7);
        }
        const coll_op_desc desc = {.size = sizeof desc,
                                   .kind = COLL_ALL_REDUCE,
                                   .send = b->mine[sum],
                                   .recv = b->sums[sum],
                                   .count = LONG,
                                   .type = COLL_FLOAT32,
                                   .reduce = COLL_SUM};
        status = coll_start(world, &desc, &requests[sum], error);
    }
    const coll_status ended =
        coll_request_wait_all(requests, SUMS, status == COLL_OK ? error : NULL);
    return status == COLL_OK ? ended : status;
}

static coll_status exchange(coll_comm *world, buffers *b, coll_error *error)
{
    const int rank = coll_comm_rank(world);
    size_t send_counts[RANKS];
    size_t recv_counts[RANKS];
    for (int peer = 0; peer < RANKS; peer++) {
        send_counts[peer] = (size_t)(900 * rank + peer);
        recv_counts[peer] = (size_t)(900 * peer + rank);
    }
    coll_status status =
        coll_all_to_all_v(world, b->to, send_counts, b->from, recv_counts, COLL_INT32, error);
    if (status == COLL_OK) {
        status = coll_all_to_all(world, b->to, b->from, LONG, COLL_INT32, error);
    }
    if (status == COLL_OK) {
        status = coll_all_gather(world, b->to, b->from, LONG, COLL_INT32, error);
    }
    if (status == COLL_OK) {
        status = coll_reduce_scatter(world, b->to, b->from, LONG, COLL_INT32, COLL_MAX, error);
    }
    if (status == COLL_OK) {
        status = coll_scan(world, b->to, b->from, LONG, COLL_INT32, COLL_SUM, error);
    }
    return status == COLL_OK ? coll_broadcast(world, b->block, LONGER, COLL_FLOAT64, 1, error)
                             : status;
}

/* Small ones, whose operands go with the flags, and messages to the next rank. */
static coll_status talk(coll_comm *world, buffers *b, coll_error *error)
{
    const int rank = coll_comm_rank(world);
    coll_op_desc send = {.size = sizeof send,
                         .kind = COLL_SEND,
                         .send = b->mine[0],
                         .count = LONG,
                         .type = COLL_FLOAT32,
                         .root = (rank + 1) % RANKS};
    coll_request *sent = NULL;
    coll_status status = coll_all_reduce(world, b->to, b->from, SHORT, COLL_INT32, COLL_SUM, error);
    if (status == COLL_OK) {
        status = coll_barrier(world, error);
    }
    if (status == COLL_OK) {
        status = coll_start(world, &send, &sent, error);
    }
    if (status == COLL_OK) {
        status =
            coll_receive(world, b->sums[0], LONG, COLL_FLOAT32, (rank + RANKS - 1) % RANKS, error);
    }
    return status == COLL_OK ? coll_request_wait(&sent, error) : status;
}

static coll_status run(coll_comm *world, coll_error *error)
{
    coll_comm *half = NULL;
    buffers *b = calloc(1, sizeof *b);
    coll_status status = b != NULL ? add_up(world, b, error) : COLL_ERR_MEMORY;
    if (status == COLL_OK) {
        status = exchange(world, b, error);
    }
    if (status == COLL_OK) {
        status = talk(world, b, error);
    }
    if (status == COLL_OK) {
        status = coll_comm_split(world, coll_comm_rank(world) % 2, 0, &half, error);
    }
    if (status == COLL_OK) {
        status = coll_all_reduce(half, b->mine[1], b->sums[1], LONG, COLL_FLOAT32, COLL_SUM, error);
    }
    coll_comm_destroy(half);
    free(b);
    return status;
}

int main(void)
{
    coll_error error;
    coll_launched *launched = NULL;
    if (coll_launched_open(&launched, &error) != COLL_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    const coll_context *context = coll_launched_context(launched);
    coll_comm *world = coll_context_world(coll_launched_context(launched));
    if (run(world, &error) != COLL_OK) {
        coll_launched_fail(launched, &error);
    }
    printf("%d has sent %" PRIu64 " bytes\n", coll_comm_rank(world),
           coll_context_bytes_sent(context));
    return coll_launched_close(launched, &error) == COLL_OK ? 0 : 1;
}
