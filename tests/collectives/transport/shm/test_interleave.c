/* The protocol between ranks that share memory, as the library has it, in orders of their loads and
 * stores that no machine would show in years (interleave.h): results are right, and nobody sleeps
 * through what concerns it.
 *
 * The search proves its worth: without a fence, a second look, the telling or credit, it must find
 * an error. */
#include <string.h>

#include "interleave.h"
#include "processors.h"
#include "random.h"
#include "ranks.h"
#include "support.h"

enum {
    OPERATIONS = 150,
    ROUNDS = 400,           /* of two to four ranks, with processors of their own and without */
    SEARCHED = 10 * ROUNDS, /* at most, for an error that must be found */
    COUNT_MAX = 2500,
};

/* By flags, by slots, and by what is longer than those copy. */
static const size_t counts[] = {1, 5, 100, COUNT_MAX};

/* Where a rank's operands lie. */
typedef struct operands {
    int64_t *send; /* (COUNT_MAX) */
    int64_t *recv; /* (COUNT_MAX) */
} operands;

static uint64_t seed;
static int wrong; /* results; whoever has the turn counts */

static int64_t value_of(int operation, int rank, size_t i)
{
    return (int64_t)operation * 1000003 + rank * 4099 + (int64_t)i;
}

/* What a rank is to have of element i. */
static int64_t expected_of(coll_kind kind, int operation, int root, const test_rank *rank, size_t i)
{
    const int first = kind == COLL_BROADCAST ? root : 0;
    const int end = kind == COLL_BROADCAST ? root + 1
                    : kind == COLL_SCAN    ? rank->rank + 1
                                           : rank->size;
    int64_t sum = 0;
    for (int r = first; r < end; r++) {
        sum += value_of(operation, r, i);
    }
    return sum;
}

/* One operation of those drawn; false: it has failed. */
static bool operate(test_rank *rank, int operation, const operands *at, uint64_t *random)
{
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_SCAN, COLL_BROADCAST, COLL_BROADCAST};
    const coll_kind kind = kinds[test_random(random) % (sizeof kinds / sizeof kinds[0])];
    const size_t count = counts[test_random(random) % (sizeof counts / sizeof counts[0])];
    const int root = (int)(test_random(random) % (uint32_t)rank->size);
    const bool in_place = kind == COLL_BROADCAST || test_random(random) % 2 == 0;
    int64_t *recv = in_place ? at->send : at->recv;
    for (size_t i = 0; i < count; i++) {
        at->send[i] = value_of(operation, rank->rank, i);
    }
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = kind,
                               .send = at->send,
                               .recv = recv,
                               .count = count,
                               .type = COLL_INT64,
                               .reduce = COLL_SUM,
                               .root = root};
    const coll_status status = coll_run(coll_context_world(rank->context), &desc, &rank->error);
    for (size_t i = 0; status == COLL_OK && i < count; i++) {
        wrong += recv[i] != expected_of(kind, operation, root, rank, i) ? 1 : 0;
    }
    return status == COLL_OK;
}

static void body(test_rank *rank)
{
    int64_t own[2][COUNT_MAX];
    uint64_t random = seed;
    bool good = true;
    coll_arena *arena = NULL;
    RANK_OK(rank,
            coll_arena_create(coll_context_world(rank->context), sizeof own, &arena, &rank->error));
    int64_t *shared = coll_arena_data(arena);
    interleave_enter(rank->rank);
    for (int i = 0; good && i < OPERATIONS; i++) {
        const bool in_arena = test_random(&random) % 2 == 0;
        const operands at = {.send = in_arena ? shared : own[0],
                             .recv = in_arena ? shared + COUNT_MAX : own[1]};
        good = operate(rank, i, &at, &random);
    }
    wrong += good ? 0 : 1;
    interleave_leave();
    coll_arena_destroy(arena);
}

/* Plays one job; whether it went wrong. */
static bool goes_wrong(uint64_t number, interleave_without without, int *stuck)
{
    const int ranks = 2 + (int)(number % 3);
    const test_ranks_options options = {
        .size = ranks, .transport = COLL_TRANSPORT_SHM, .timeout_ns = INT64_C(3600) * 1000000000};
    seed = number;
    wrong = 0;
    test_processors_claim(number % 2 == 0 ? 64 : 1);
    interleave_begin(ranks, number, without);
    test_ranks_as_threads(&options, body);
    test_processors_claim(0);
    *stuck = interleave_stuck();
    return wrong > 0;
}

static void every_order_gives_the_results(void **state)
{
    (void)state;
    for (uint64_t number = 1; number <= ROUNDS; number++) {
        int stuck = 0;
        const bool bad = goes_wrong(number, WITHOUT_NOTHING, &stuck);
        if (bad || stuck > 0) {
            fail_msg("seed %d: %d wrong results, all asleep %d times", (int)number, wrong, stuck);
        }
    }
}

static void a_mutation_is_found(void **state)
{
    const interleave_without without = *(const interleave_without *)*state;
    for (uint64_t number = 1; number <= SEARCHED; number++) {
        int stuck = 0;
        const bool bad = goes_wrong(number, without, &stuck);
        if (without == WITHOUT_CREDIT ? bad : stuck > 0) {
            print_message("found with seed %d\n", (int)number);
            return;
        }
    }
    fail_msg("mutation %d goes unnoticed", (int)without);
}

int main(void)
{
    static interleave_without without[] = {WITHOUT_NOTHING, WITHOUT_FENCES, WITHOUT_SECOND_LOOK,
                                           WITHOUT_NOTIFYING, WITHOUT_CREDIT};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_gives_the_results),
        {"without fences", a_mutation_is_found, NULL, NULL, &without[1]},
        {"without a second look", a_mutation_is_found, NULL, NULL, &without[2]},
        {"without telling", a_mutation_is_found, NULL, NULL, &without[3]},
        {"without credit", a_mutation_is_found, NULL, NULL, &without[4]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
