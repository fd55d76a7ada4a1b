/* A rank that comes to an operation late, when its peers have given it up. They use their buffers
 * for something else at once, as they may. The late rank must not say that all went well with what
 * it finds there. All buffers lie in arenas, where it reads them in place. Ranks are threads. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "processors.h"
#include "ranks.h"
#include "support.h"

enum { COUNT = 100000, RANKS_MAX = 3, ROUNDS = TEST_HAS_SANITIZER ? 1 : 4 };

typedef struct late_case {
    coll_kind kind;
    int late;
    bool after;      /* the late rank begins only when all others have reused their buffers */
    atomic_int gone; /* ranks that have */
} late_case;

static coll_op_desc desc_of(const test_rank *rank, const late_case *c, int32_t *send, int32_t *recv)
{
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = c->kind,
                         .send = send,
                         .recv = recv,
                         .count = COUNT,
                         .type = COLL_INT32,
                         .reduce = COLL_SUM};
    if (c->kind == COLL_SEND) {
        desc.kind = rank->rank == 0 ? COLL_SEND : COLL_RECEIVE;
        desc.root = 1 - rank->rank;
    }
    return desc;
}

/* How many elements of recv an operation fills on this rank. All ranks give ones. */
static size_t filled(const test_rank *rank, coll_kind kind)
{
    const size_t all = (size_t)rank->size * COUNT;
    switch (kind) {
    case COLL_REDUCE:
        return rank->rank == 0 ? COUNT : 0;
    case COLL_GATHER:
        return rank->rank == 0 ? all : 0;
    case COLL_SEND:
        return rank->rank == 1 ? COUNT : 0;
    case COLL_ALL_GATHER:
    case COLL_ALL_TO_ALL:
        return all;
    default:
        return COUNT;
    }
}

static bool is_right(const test_rank *rank, coll_kind kind, const int32_t *recv)
{
    const bool sums = kind == COLL_ALL_REDUCE || kind == COLL_REDUCE || kind == COLL_REDUCE_SCATTER;
    for (size_t i = 0; i < filled(rank, kind); i++) {
        const int sum = kind == COLL_SCAN ? rank->rank + 1 : sums ? rank->size : 1;
        if (recv[i] != sum) {
            return false;
        }
    }
    return true;
}

static void fill(int32_t *to, int32_t value)
{
    for (size_t i = 0; i < (size_t)RANKS_MAX * COUNT; i++) {
        to[i] = value;
    }
}

/* A rank that gives up: begins, is aborted, and uses its buffers for something else. */
static void give_up(test_rank *rank, late_case *c, const coll_op_desc *desc)
{
    coll_op *op = NULL;
    int32_t *send = (int32_t *)(uintptr_t)desc->send;
    RANK_OK(rank, coll_op_create(coll_context_world(rank->context), desc, &op, &rank->error));
    coll_status status = coll_op_start(op, &rank->error);
    coll_context_abort(rank->context, "the test says so");
    status = status == COLL_OK ? coll_op_wait(op, &rank->error) : status;
    RANK_CHECK(rank, status == COLL_ERR_ABORTED || status == COLL_OK);
    RANK_CHECK(rank, status != COLL_OK || is_right(rank, c->kind, desc->recv));
    coll_op_destroy(op);
    fill(send, 1000);
    (void)atomic_fetch_add(&c->gone, 1);
}

static void come_late(test_rank *rank, late_case *c, const coll_op_desc *desc)
{
    const int64_t deadline_ns = base_deadline_after_ns(20 * BASE_NS_PER_S);
    while (c->after && atomic_load(&c->gone) < rank->size - 1 && base_now_ns() < deadline_ns) {
    }
    const coll_status status = coll_run(coll_context_world(rank->context), desc, &rank->error);
    if (status == COLL_OK) {
        RANK_CHECK(rank, !c->after);
        RANK_CHECK(rank, is_right(rank, c->kind, desc->recv));
    } else {
        RANK_CHECK(rank, status == COLL_ERR_ABORTED || status == COLL_ERR_PEER);
    }
}

static void late_body(test_rank *rank)
{
    late_case *c = rank->user;
    coll_arena *arenas[2] = {NULL};
    int32_t *data[2];
    coll_comm *comm = coll_context_world(rank->context);
    for (int i = 0; i < 2; i++) {
        RANK_OK(rank, coll_arena_create(comm, sizeof(int32_t) * RANKS_MAX * COUNT, &arenas[i],
                                        &rank->error));
        data[i] = coll_arena_data(arenas[i]);
        fill(data[i], i == 0 ? 1 : -1);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    const coll_op_desc desc = desc_of(rank, c, data[0], data[1]);
    if (rank->rank == c->late) {
        come_late(rank, c, &desc);
    } else {
        give_up(rank, c, &desc);
    }
    coll_arena_destroy(arenas[0]);
    coll_arena_destroy(arenas[1]);
}

/* Every kind, with the first and the last rank late, where ranks have processors of their own and
 * where they share them. */
static void on_all(bool after, int rounds)
{
    static const coll_kind kinds[] = {
        COLL_ALL_REDUCE, COLL_BROADCAST, COLL_ALL_GATHER, COLL_REDUCE, COLL_REDUCE_SCATTER,
        COLL_GATHER,     COLL_SCATTER,   COLL_ALL_TO_ALL, COLL_SCAN,   COLL_SEND};
    const size_t cases = sizeof kinds / sizeof kinds[0] * 4 * (size_t)rounds;
    for (size_t i = 0; i < cases; i++) {
        const coll_kind kind = kinds[i / 4 % (sizeof kinds / sizeof kinds[0])];
        const int size = kind == COLL_SEND || i / 2 % 2 == 0 ? 2 : RANKS_MAX;
        for (int processors = 1; processors <= size; processors += size - 1) {
            late_case c = {.kind = kind, .late = i % 2 == 0 ? 0 : size - 1, .after = after};
            test_processors_claim(processors);
            test_ranks_as_threads(
                &(test_ranks_options){.size = size, .transport = COLL_TRANSPORT_SHM, .user = &c},
                late_body);
        }
    }
    test_processors_claim(0);
}

static void reused_before_the_late_rank_comes(void **state)
{
    (void)state;
    on_all(true, 1);
}

static void reused_while_the_late_rank_reads(void **state)
{
    (void)state;
    on_all(false, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reused_before_the_late_rank_comes),
        cmocka_unit_test(reused_while_the_late_rank_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
