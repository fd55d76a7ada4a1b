/* Random sequences of all kinds over shared memory, exact to the element: ordinary memory, arenas
 * and mixtures of both, in place or not, blocking on one rank while another has several under way,
 * so that ranks run ahead of each other as far as credit goes. The same seed gives the same
 * operations on every rank; what each rank decides for itself comes from a seed of its own. */
#include <stdlib.h>
#include <string.h>

#include "integers.h"
#include "random.h"
#include "ranks.h"
#include "support.h"

enum {
    REGIONS = 4, /* operations that a rank has under way at most, each with memory of its own */
    BUFFER_BYTES = 96 * 1024,
    REGION_BYTES = 2 * BUFFER_BYTES,
    ROUNDS = 10000,
    ROUNDS_RACED = 1000, /* where a race detector makes everything slow */
};

typedef struct flight {
    coll_request *request;
    coll_op_desc desc;
    uint32_t salt;
    bool busy;
} flight;

typedef struct sequence {
    test_rank *rank;
    coll_comm *comm;
    coll_arena *arena;
    uint8_t *heap;
    uint64_t common; /* states of the generators */
    uint64_t own;
    flight flights[REGIONS];
} sequence;

static bool by_rank(coll_kind kind)
{
    return kind != COLL_ALL_REDUCE && kind != COLL_REDUCE && kind != COLL_BROADCAST;
}

static bool land(sequence *s, flight *f)
{
    if (!f->busy) {
        return true;
    }
    f->busy = false;
    if (f->request != NULL && coll_request_wait(&f->request, &s->rank->error) != COLL_OK) {
        test_rank_fail(s->rank, "%s: %s", coll_kind_name(f->desc.kind), s->rank->error.message);
        return false;
    }
    const ptrdiff_t wrong = integers_wrong(&f->desc, f->salt, s->rank->rank, s->rank->size);
    if (wrong >= 0) {
        test_rank_fail(s->rank, "%s × %zu root %d: element %td", coll_kind_name(f->desc.kind),
                       f->desc.count, f->desc.root, wrong);
    }
    return wrong < 0;
}

/* What all ranks agree on. */
static coll_op_desc draw(sequence *s)
{
    static const size_t counts[] = {0, 1, 2, 7, 14, 15, 100, 256, 600, 1500, 3000, 4097, 4800};
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = (coll_kind)(COLL_ALL_REDUCE + test_random(&s->common) % 9),
                         .type = COLL_INT32,
                         .reduce = COLL_SUM};
    desc.count = counts[test_random(&s->common) % (sizeof counts / sizeof counts[0])];
    desc.root = (int)(test_random(&s->common) % (uint32_t)s->rank->size);
    const size_t blocks = by_rank(desc.kind) ? (size_t)s->rank->size : 1;
    while (desc.count * blocks * sizeof(uint32_t) > BUFFER_BYTES) {
        desc.count /= 2;
    }
    return desc;
}

/* Where this rank's buffers lie is its own matter. */
static void place(sequence *s, coll_op_desc *desc, int region)
{
    const uint32_t choice = test_random(&s->own);
    const bool in_place = (choice & 4) != 0;
    const int rank = s->rank->rank;
    const size_t own = desc->count * (size_t)rank;
    uint8_t *const arena = coll_arena_data(s->arena);
    uint8_t *send = ((choice & 1) != 0 ? arena : s->heap) + (size_t)region * REGION_BYTES;
    uint8_t *recv = ((choice & 2) != 0 ? arena : s->heap) + (size_t)region * REGION_BYTES;
    recv += BUFFER_BYTES;
    desc->send = send;
    desc->recv = recv;
    if (!in_place) {
        return;
    }
    switch (desc->kind) {
    case COLL_ALL_GATHER:
        desc->send = (uint32_t *)(void *)recv + own;
        return;
    case COLL_GATHER:
        desc->send = rank == desc->root ? (void *)((uint32_t *)(void *)recv + own) : send;
        return;
    case COLL_REDUCE_SCATTER:
        desc->recv = (uint32_t *)(void *)send + own;
        return;
    case COLL_SCATTER:
        desc->recv = rank == desc->root ? (void *)((uint32_t *)(void *)send + own) : recv;
        return;
    default:
        desc->recv = send;
        return;
    }
}

static bool fly(sequence *s, int round)
{
    flight *f = &s->flights[round % REGIONS];
    if (!land(s, f)) {
        return false;
    }
    f->desc = draw(s);
    f->salt = test_random(&s->common);
    place(s, &f->desc, round % REGIONS);
    integers_give(&f->desc, f->salt, s->rank->rank, s->rank->size);
    f->busy = true;
    const coll_status status = test_random(&s->own) % 3 == 0
                                   ? coll_start(s->comm, &f->desc, &f->request, &s->rank->error)
                                   : coll_run(s->comm, &f->desc, &s->rank->error);
    if (status != COLL_OK) {
        test_rank_fail(s->rank, "%s × %zu: %s", coll_kind_name(f->desc.kind), f->desc.count,
                       s->rank->error.message);
        f->busy = false;
        return false;
    }
    return f->request != NULL || land(s, f);
}

static void body(test_rank *rank)
{
    const int rounds = *(const int *)rank->user;
    sequence s = {.rank = rank, .comm = coll_context_world(rank->context), .common = 77};
    s.own = 1000 + (uint64_t)rank->rank;
    RANK_OK(rank,
            coll_arena_create(s.comm, (size_t)REGIONS * REGION_BYTES, &s.arena, &rank->error));
    s.heap = malloc((size_t)REGIONS * REGION_BYTES);
    bool good = s.heap != NULL;
    for (int round = 0; good && round < rounds; round++) {
        good = fly(&s, round);
    }
    for (int region = 0; good && region < REGIONS; region++) {
        good = land(&s, &s.flights[region]);
    }
    coll_request *left[REGIONS];
    for (int region = 0; region < REGIONS; region++) {
        left[region] = s.flights[region].request;
    }
    good = coll_request_wait_all(left, REGIONS, NULL) == COLL_OK && good;
    if (good && coll_barrier(s.comm, &rank->error) != COLL_OK) {
        test_rank_fail(rank, "the last barrier: %s", rank->error.message);
    }
    free(s.heap);
    coll_arena_destroy(s.arena);
}

static void sequences(int size)
{
    int rounds = TEST_HAS_SANITIZER ? ROUNDS_RACED : ROUNDS;
    test_ranks_as_threads(
        &(test_ranks_options){.size = size, .transport = COLL_TRANSPORT_SHM, .user = &rounds},
        body);
}

static void test_one(void **state)
{
    (void)state;
    sequences(1);
}

static void test_two(void **state)
{
    (void)state;
    sequences(2);
}

static void test_three(void **state)
{
    (void)state;
    sequences(3);
}

static void test_five(void **state)
{
    (void)state;
    sequences(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_five),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
