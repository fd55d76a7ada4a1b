/* Operations that are made once and started often, while where ranks' buffers lie changes from one
 * start to the next: a rank has one operation of each kind and length for every pair of buffers, in
 * memory of its own and in arenas, and starts whichever it likes, or calls the same blocking. Now
 * and then an arena goes and another comes, often at the same address, while operations that lie
 * elsewhere stay. Ranks are threads. */
#include <stdlib.h>
#include <string.h>

#include "integers.h"
#include "random.h"
#include "ranks.h"
#include "support.h"

enum {
    ROUNDS = TEST_HAS_SANITIZER ? 1500 : 6000,
    RANKS_MAX = 4,
    PHASE = 16,
    RENEWAL = 60, /* rounds that an arena lives, about */
    KINDS = COLL_ALL_TO_ALL,
    COUNTS = 3,
    ARENAS = 2,
    BUFFERS = 1 + 2 * ARENAS, /* own memory, and two in each arena */
    COUNT_MAX = 5000,
    BUFFER_BYTES = COUNT_MAX * RANKS_MAX * 4,
    OPERATIONS = KINDS * COUNTS * BUFFERS * BUFFERS,
};

static const size_t counts[COUNTS] = {3, 700, COUNT_MAX};

typedef struct pair {
    uint32_t from;
    uint32_t to;
} pair;

typedef struct scene {
    test_rank *rank;
    coll_comm *comm;
    uint64_t common; /* random states: the same on all ranks, */
    uint64_t own;    /* and this one's */
    uint32_t kind;
    uint32_t length;
    pair pairs[2];
    coll_arena *arenas[ARENAS];
    uint8_t *memory[BUFFERS]; /* send buffer, then recv */
    coll_op *ops[KINDS][COUNTS][BUFFERS][BUFFERS];
} scene;

/* The operation that was made for it earlier, started; or the same blocking, recalled. */
static coll_status start(scene *s, coll_op **op, const coll_op_desc *desc)
{
    coll_error *error = &s->rank->error;
    if (test_random_below(&s->own, 3) == 0) {
        return coll_run(s->comm, desc, error);
    }
    coll_status status = *op != NULL ? COLL_OK : coll_op_create(s->comm, desc, op, error);
    status = status == COLL_OK ? coll_op_start(*op, error) : status;
    return status == COLL_OK ? coll_op_wait(*op, error) : status;
}

/* The buffer at the same offset in the other arena. */
static uint32_t opposite(uint32_t buffer)
{
    return buffer == 0 ? 0 : 1 + (buffer - 1 + 2) % (2 * ARENAS);
}

/* The other buffer in the same arena. */
static uint32_t beside(uint32_t buffer)
{
    return buffer == 0 ? 0 : 1 + ((buffer - 1) ^ 1);
}

/* For a while: one kind and length, and two pairs of buffers of this rank's own that are alike, so
 * that what was remembered of them comes back after something else. */
static void draw_phase(scene *s)
{
    s->kind = test_random_below(&s->common, KINDS);
    s->length = test_random_below(&s->common, COUNTS);
    const uint32_t from = 1 + test_random_below(&s->own, BUFFERS - 1);
    const uint32_t to =
        test_random_below(&s->own, 2) == 0 ? 0 : 1 + test_random_below(&s->own, BUFFERS - 1);
    const pair others[] = {
        {0, to}, {from, opposite(to)}, {opposite(from), to}, {from, beside(to)}, {beside(from), to},
    };
    s->pairs[0] = (pair){from, to};
    s->pairs[1] = others[test_random_below(&s->own, sizeof others / sizeof others[0])];
}

static bool one(scene *s, unsigned round)
{
    const int size = s->rank->size;
    const int me = s->rank->rank;
    const pair *chosen = &s->pairs[test_random_below(&s->own, 3) == 0];
    const uint32_t from = chosen->from;
    const uint32_t to = chosen->to;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = (coll_kind)(COLL_ALL_REDUCE + (int)s->kind),
                               .send = s->memory[from],
                               .recv = s->memory[to] + BUFFER_BYTES,
                               .count = counts[s->length],
                               .type = COLL_INT32,
                               .reduce = COLL_SUM,
                               .root = (int)s->kind % size};
    integers_give(&desc, round, me, size);
    memset(s->memory[to] + BUFFER_BYTES, 0xee, BUFFER_BYTES);
    if (start(s, &s->ops[s->kind][s->length][from][to], &desc) != COLL_OK) {
        test_rank_fail(s->rank, "round %u: %s", round, s->rank->error.message);
        return false;
    }
    if (integers_wrong(&desc, round, me, size) >= 0) {
        test_rank_fail(s->rank, "round %u: %s × %zu from %u to %u is wrong", round,
                       coll_kind_name(desc.kind), desc.count, from, to);
        return false;
    }
    return true;
}

/* An arena goes, with the operations that lie in it, and another comes. */
static bool renew(scene *s, uint32_t arena)
{
    coll_op **const ops = &s->ops[0][0][0][0];
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        const uint32_t from = i / BUFFERS % BUFFERS;
        const uint32_t to = i % BUFFERS;
        if ((from > 0 && (from - 1) / 2 == arena) || (to > 0 && (to - 1) / 2 == arena)) {
            coll_op_destroy(ops[i]);
            ops[i] = NULL;
        }
    }
    coll_arena_destroy(s->arenas[arena]);
    s->arenas[arena] = NULL;
    if (coll_arena_create(s->comm, (size_t)4 * BUFFER_BYTES, &s->arenas[arena], &s->rank->error) !=
        COLL_OK) {
        test_rank_fail(s->rank, "an arena: %s", s->rank->error.message);
        return false;
    }
    s->memory[1 + 2 * arena] = coll_arena_data(s->arenas[arena]);
    s->memory[2 + 2 * arena] = s->memory[1 + 2 * arena] + 2 * BUFFER_BYTES;
    return true;
}

static void body(test_rank *rank)
{
    scene *s = calloc(1, sizeof *s);
    RANK_CHECK(rank, s != NULL);
    s->rank = rank;
    s->comm = coll_context_world(rank->context);
    s->common = 5;
    s->own = 100 + (uint32_t)rank->rank;
    s->memory[0] = malloc((size_t)2 * BUFFER_BYTES);
    bool good = s->memory[0] != NULL && renew(s, 0) && renew(s, 1);
    for (unsigned round = 0; good && round < ROUNDS; round++) {
        if (round % PHASE == 0) {
            draw_phase(s);
        }
        if (test_random_below(&s->common, RENEWAL) == 0) {
            good = renew(s, test_random_below(&s->common, ARENAS));
        }
        good = good && one(s, round);
    }
    for (int i = 0; i < OPERATIONS; i++) {
        coll_op_destroy((&s->ops[0][0][0][0])[i]);
    }
    coll_arena_destroy(s->arenas[0]);
    coll_arena_destroy(s->arenas[1]);
    free(s->memory[0]);
    free(s);
}

static void places_change_between_starts(void **state)
{
    (void)state;
    for (int size = 2; size <= RANKS_MAX; size++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size, .transport = COLL_TRANSPORT_SHM},
                              body);
    }
}

/* Rank 0 starts an operation whose buffer lay in an arena that is no more: rank 1 remembers where
 * that was, and must not look there. */
static void stale_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    coll_op *op = NULL;
    int32_t *own = calloc(COUNT_MAX, sizeof *own);
    RANK_CHECK(rank, own != NULL);
    RANK_OK(rank, coll_arena_create(comm, COUNT_MAX * sizeof *own, &arena, &rank->error));
    int32_t *data = rank->rank == 0 ? coll_arena_data(arena) : own;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_BROADCAST,
                               .send = data,
                               .recv = data,
                               .count = COUNT_MAX,
                               .type = COLL_INT32};
    RANK_OK(rank, coll_op_create(comm, &desc, &op, &rank->error));
    for (int i = 0; i < 3; i++) {
        data[COUNT_MAX - 1] = rank->rank == 0 ? i : -1;
        RANK_OK(rank, coll_op_start(op, &rank->error));
        RANK_OK(rank, coll_op_wait(op, &rank->error));
        RANK_CHECK(rank, data[COUNT_MAX - 1] == i);
    }
    coll_arena_destroy(arena);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    coll_status status = coll_op_start(op, &rank->error);
    if (status == COLL_OK) {
        status = coll_op_wait(op, &rank->error);
    }
    RANK_CHECK(rank, status == COLL_ERR_PEER);
    RANK_CHECK(rank, strstr(rank->error.message, "rank 0 posted a buffer") != NULL);
    coll_op_destroy(op);
    free(own);
}

static void places_in_arenas_that_went_are_refused(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          stale_body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_change_between_starts),
        cmocka_unit_test(places_in_arenas_that_went_are_refused),
    };
    return cmocka_run_group_tests_name("coll-buffers", tests, NULL, NULL);
}
