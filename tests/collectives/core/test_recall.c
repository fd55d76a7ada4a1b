/* Blocking operations of all kinds over a few buffers again and again, so that many of them were
 * made earlier and are recalled: with other contents, sizes, roots and reductions, in place or not,
 * with others under way, and with communicators that come and go. Which buffers a rank uses is its
 * own affair, so that ranks recall different ones. Ranks are threads. */
#include <stdlib.h>
#include <string.h>

#include "integers.h"
#include "random.h"
#include "ranks.h"
#include "support.h"

enum {
    ROUNDS = TEST_HAS_SANITIZER ? 150 : 400,
    BUFFERS = 3,
    COUNT_MAX = 12000,
    KINDS = COLL_ALL_TO_ALL
};

typedef struct call {
    coll_kind kind;
    size_t count;
    coll_reduce_op reduce;
    int root;
    coll_algorithm algorithm;
} call;

static call draw_call(uint64_t *state, int size)
{
    static const size_t counts[] = {1, 3, 17, 300, 1365, 2000, COUNT_MAX};
    return (call){.kind = (coll_kind)(COLL_ALL_REDUCE + (int)test_random_below(state, KINDS)),
                  .count = counts[test_random_below(state, 7)],
                  .reduce = test_random_below(state, 2) == 0 ? COLL_SUM : COLL_MAX,
                  .root = (int)test_random_below(state, (uint32_t)size),
                  .algorithm = test_random_below(state, 3) == 0 ? COLL_ALGORITHM_DIRECT
                                                                : COLL_ALGORITHM_AUTO};
}

static bool has_whole_send(coll_kind kind)
{
    return kind == COLL_REDUCE_SCATTER || kind == COLL_SCATTER || kind == COLL_ALL_TO_ALL;
}

static bool has_whole_recv(coll_kind kind)
{
    return kind == COLL_ALL_GATHER || kind == COLL_GATHER || kind == COLL_ALL_TO_ALL;
}

/* One operation, blocking or not, in buffers of this rank's choice. */
static void one(test_rank *rank, coll_comm *comm, const call *c, unsigned round, uint64_t *own,
                int32_t *buffers[2 * BUFFERS])
{
    const int size = coll_comm_size(comm);
    const int me = coll_comm_rank(comm);
    int32_t *send = buffers[test_random_below(own, BUFFERS)];
    int32_t *recv = buffers[BUFFERS + test_random_below(own, BUFFERS)];
    bool in_place = test_random_below(own, 3) == 0;
    if (in_place) {
        recv = send;
        if (has_whole_recv(c->kind) && c->kind != COLL_ALL_TO_ALL) {
            send = recv + (size_t)me * c->count;
        } else if (has_whole_send(c->kind) && c->kind != COLL_ALL_TO_ALL) {
            recv = send + (size_t)me * c->count;
        }
    }
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = c->kind,
                               .send = send,
                               .recv = recv,
                               .count = c->count,
                               .type = COLL_INT32,
                               .reduce = c->reduce,
                               .root = c->root,
                               .algorithm = c->algorithm};
    integers_give(&desc, round, me, size);
    if (test_random_below(own, 5) == 0) {
        coll_request *request = NULL;
        RANK_OK(rank, coll_start(comm, &desc, &request, &rank->error));
        RANK_OK(rank, coll_request_wait(&request, &rank->error));
    } else {
        RANK_OK(rank, coll_run(comm, &desc, &rank->error));
    }
    const ptrdiff_t wrong = integers_wrong(&desc, round, me, size);
    if (wrong >= 0) {
        test_rank_fail(rank, "round %u: kind %d count %zu root %d in place %d: element %td", round,
                       (int)c->kind, c->count, c->root, (int)in_place, wrong);
    }
}

static void body(test_rank *rank)
{
    const uint32_t seed = *(const uint32_t *)rank->user;
    uint64_t all = seed;
    uint64_t own = seed + 77u * (uint32_t)(rank->rank + 1);
    int32_t *buffers[2 * BUFFERS];
    coll_comm *comm = coll_context_world(rank->context);
    coll_comm *part = NULL;
    const size_t bytes = sizeof(int32_t) * COUNT_MAX * (size_t)rank->size;
    for (int i = 0; i < 2 * BUFFERS; i++) {
        buffers[i] = malloc(bytes);
        RANK_CHECK(rank, buffers[i] != NULL);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        coll_comm *on = part != NULL && test_random_below(&all, 3) == 0 ? part : comm;
        const uint32_t what = test_random_below(&all, 40);
        const call c = draw_call(&all, coll_comm_size(on));
        if (what == 0) {
            coll_comm_destroy(part);
            part = NULL;
            RANK_OK(rank, coll_comm_split(comm, 0, rank->size - rank->rank, &part, &rank->error));
        } else if (what == 1) {
            const int next = (rank->rank + 1) % rank->size;
            const int last = (rank->rank + rank->size - 1) % rank->size;
            coll_request *request = NULL;
            const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                       .kind = COLL_RECEIVE,
                                       .recv = buffers[0],
                                       .count = c.count,
                                       .type = COLL_INT32,
                                       .root = last};
            RANK_OK(rank, coll_start(comm, &desc, &request, &rank->error));
            RANK_OK(rank, coll_send(comm, buffers[1], c.count, COLL_INT32, next, &rank->error));
            RANK_OK(rank, coll_request_wait(&request, &rank->error));
        } else if (what < 4) { /* memory that comes back at the same place, or does not */
            const int which = (int)test_random_below(&own, 2 * BUFFERS);
            free(buffers[which]);
            buffers[which] = malloc(bytes);
            RANK_CHECK(rank, buffers[which] != NULL);
        } else {
            one(rank, on, &c, round, &own, buffers);
        }
        if (rank->error.message[0] != '\0') {
            break;
        }
    }
    coll_comm_destroy(part);
    for (int i = 0; i < 2 * BUFFERS; i++) {
        free(buffers[i]);
    }
}

static void recalled_are_as_good_as_new(void **state)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_TCP, COLL_TRANSPORT_ZMQ,
                                                COLL_TRANSPORT_SHM};
    (void)state;
    for (uint32_t seed = 1; seed <= 2; seed++) {
        for (int size = 2; size <= 4; size++) {
            for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
                test_ranks_as_threads(
                    &(test_ranks_options){.size = size, .transport = transports[t], .user = &seed},
                    body);
            }
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(recalled_are_as_good_as_new),
    };
    return cmocka_run_group_tests_name("coll-recall", tests, NULL, NULL);
}
