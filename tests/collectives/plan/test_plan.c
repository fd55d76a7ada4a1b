/* Every plan for 1 to 64 ranks (34 under AddressSanitizer), every kind, algorithm and root, in place and not, played out on
 * symbols (plan_world.h): each rank ends with the right operands, combined in the promised order,
 * the same one everywhere. */
#include <stdbool.h>
#include <string.h>

#include "common/kinds.h"
#include "plan_world.h"
#include "support.h"

/* Plans are integers in arrays, and those of more ranks only more of them: 34 ranks have a remainder
 * beside each power of two up to 32. */
enum {
    RANKS_MAX = TEST_HAS_ASAN ? 34 : WORLD_RANKS_MAX,
    BOTH_RANKS_MAX = TEST_HAS_ASAN ? 16 : 24,
};

/* Whether OUTPUT has the block in the end. */
static bool receives(const coll_plan *plan, int rank, int block)
{
    switch (plan->kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        return rank == plan->root;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER:
        return block == rank;
    default:
        return true;
    }
}

/* A rank's prefix. */
static uint32_t prefix(const coll_plan *plan, int rank)
{
    const int count = plan->kind == COLL_SCAN ? rank + 1 : rank;
    uint32_t sum = count == 0 ? WORLD_EXPR_NEUTRAL : world_leaf(0);
    if (count > 0 && coll_plan_is_canonical(plan)) {
        return world_canonical(0, count);
    }
    for (int i = 1; i < count; i++) {
        sum = world_combine(sum, world_leaf(i));
    }
    return sum;
}

/* The order that the algorithm's file promises for a block. */
static uint32_t promised(const coll_plan *plan, int block)
{
    const int n = plan->ranks;
    if (coll_plan_is_canonical(plan)) {
        return world_canonical(0, n);
    }
    if (plan->algorithm == COLL_ALGORITHM_RING) {
        const int first = plan->kind == COLL_REDUCE ? plan->root + 1 : block + 1;
        uint32_t sum = world_leaf(first % n);
        for (int i = 1; i < n; i++) {
            sum = world_combine(sum, world_leaf((first + i) % n));
        }
        return sum;
    }
    return WORLD_EXPR_NONE; /* any, but the same everywhere */
}

/* Who the value at (rank, block) of OUTPUT comes from, where nothing is combined, and which block
 * of its input it is. */
static world_value moved(const coll_plan *plan, int rank, int block)
{
    const int from =
        plan->kind == COLL_BROADCAST || plan->kind == COLL_SCATTER ? plan->root : block;
    return (world_value){.expr = world_leaf(from),
                         .block = (uint16_t)(plan->kind == COLL_ALL_TO_ALL ? rank : block)};
}

static const char *check_outputs(const coll_plan *plan)
{
    const int blocks = coll_plan_block_count(plan);
    for (int block = 0; block < blocks; block++) {
        uint32_t order = coll_kind_reduces(plan->kind) ? promised(plan, block) : WORLD_EXPR_NONE;
        for (int i = 0; i < plan->ranks * WORLD_CELLS; i++) {
            const int rank = i / WORLD_CELLS;
            const int cell = i % WORLD_CELLS;
            if (!receives(plan, rank, block)) {
                continue;
            }
            const world_value got = world_output(rank, block, cell);
            world_value want = moved(plan, rank, block);
            if (coll_kind_reduces(plan->kind)) {
                order = order == WORLD_EXPR_NONE ? got.expr : order;
                want = (world_value){.expr = order, .block = (uint16_t)block};
            }
            if (coll_kind_is_scan(plan->kind)) {
                want.expr = prefix(plan, rank);
                if (want.expr == WORLD_EXPR_NEUTRAL && got.expr == want.expr) {
                    continue;
                }
            }
            if (got.expr != want.expr) {
                return coll_kind_reduces(plan->kind) ? "combines in another order"
                                                     : "moves a wrong part";
            }
            if (got.block != want.block || got.cell != cell) {
                return "puts a block in a wrong place";
            }
            if (coll_kind_reduces(plan->kind) && !coll_kind_is_scan(plan->kind) && !got.final) {
                return "ends with a value that is not final";
            }
        }
    }
    return NULL;
}

static void check(const world_case *c)
{
    const char *wrong = world_play(c);
    wrong = wrong == NULL && c->plan.ranks > 1 ? check_outputs(&c->plan) : wrong;
    if (wrong != NULL) {
        fail_msg("%s, %s, %d ranks, root %d, %s: %s", coll_algorithm_name(c->plan.algorithm),
                 coll_kind_name(c->plan.kind), c->plan.ranks, c->plan.root,
                 c->in_place ? "in place" : "out of place", wrong);
    }
}

/* Each rank is the root once, where there is one. Each is the slow one once, at every distance from the
 * root. */
static void check_kind(coll_kind kind)
{
    for (int a = COLL_ALGORITHM_RING; a <= COLL_ALGORITHM_LAST; a++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            for (int turn = 0; turn < ranks; turn++) {
                world_case c = {.plan = {.algorithm = (coll_algorithm)a,
                                         .kind = kind,
                                         .ranks = ranks,
                                         .root = coll_kind_has_root(kind) ? turn : 0}};
                /* With many ranks, roots take turns at being in place. */
                c.in_place = (turn + ranks) % 2 == 0;
                if (turn == 0 || coll_kind_has_root(kind)) {
                    check(&c);
                }
                c.in_place = !c.in_place;
                c.slow = 1 + (2 * turn + 1) % ranks;
                if (ranks <= BOTH_RANKS_MAX || (turn == 0 && !coll_kind_has_root(kind))) {
                    check(&c);
                }
            }
        }
    }
}

typedef int (*host_map)(int rank, int ranks);

static int in_fours(int rank, int ranks)
{
    (void)ranks;
    return rank / 4;
}

static int one_each(int rank, int ranks)
{
    (void)ranks;
    return rank;
}

static int in_threes(int rank, int ranks)
{
    (void)ranks;
    return rank / 3;
}

static int dealt_out(int rank, int ranks)
{
    return rank % (ranks / 8 + 2);
}

static int uneven(int rank, int ranks)
{
    return rank < ranks / 2 ? 0 : 1 + rank * rank % 3;
}

static void check_hosts(coll_kind kind, host_map map, int ranks)
{
    uint16_t host_of[WORLD_RANKS_MAX];
    uint16_t words[COLL_HOSTS_WORDS(WORLD_RANKS_MAX)];
    coll_hosts hosts;
    for (int rank = 0; rank < ranks; rank++) {
        host_of[rank] = (uint16_t)map(rank, ranks);
    }
    coll_hosts_make(&hosts, host_of, ranks, words);
    for (int root = 0; root < (coll_kind_has_root(kind) ? ranks : 1); root++) {
        world_case c = {.plan = {.algorithm = COLL_ALGORITHM_TWO_LEVEL,
                                 .kind = kind,
                                 .ranks = ranks,
                                 .root = root,
                                 .hosts = &hosts}};
        const bool aligned = map == in_fours || map == one_each || hosts.count == 1;
        assert_true(coll_plan_is_canonical(&c.plan) || !aligned || !coll_kind_reduces(kind));
        check(&c);
        c.in_place = true;
        check(&c);
    }
}

static void test_two_level_hosts(void **state)
{
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_REDUCE, COLL_BROADCAST};
    static const host_map maps[] = {in_fours, one_each, in_threes, dealt_out, uneven};
    (void)state;
    for (int k = 0; k < 3; k++) {
        for (int m = 0; m < 5; m++) {
            for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
                check_hosts(kinds[k], maps[m], ranks);
            }
        }
    }
}

/* Ranks strewn over hosts, in threes, or unequal in the middle cannot have the canonical order. */
static void test_aligned_hosts(void **state)
{
    static const uint16_t good[][6] = {
        {0, 0, 0, 0, 0, 0}, {4, 4, 1, 1, 2, 2}, {0, 0, 0, 0, 1, 1}, {0, 0, 1, 1, 2, 2}};
    static const uint16_t bad[][6] = {
        {0, 1, 0, 1, 0, 1}, {0, 0, 0, 1, 1, 1}, {0, 0, 1, 2, 2, 2}, {0, 0, 1, 1, 1, 1}};
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint16_t words[COLL_HOSTS_WORDS(6)];
        coll_hosts hosts;
        coll_hosts_make(&hosts, good[i], 6, words);
        assert_true(coll_hosts_are_aligned(&hosts));
        coll_hosts_make(&hosts, bad[i], 6, words);
        assert_false(coll_hosts_are_aligned(&hosts));
    }
}

static void test_all_reduce(void **state)
{
    (void)state;
    check_kind(COLL_ALL_REDUCE);
}

static void test_reduce(void **state)
{
    (void)state;
    check_kind(COLL_REDUCE);
}

static void test_reduce_scatter(void **state)
{
    (void)state;
    check_kind(COLL_REDUCE_SCATTER);
}

static void test_all_gather(void **state)
{
    (void)state;
    check_kind(COLL_ALL_GATHER);
}

static void test_broadcast(void **state)
{
    (void)state;
    check_kind(COLL_BROADCAST);
}

static void test_gather(void **state)
{
    (void)state;
    check_kind(COLL_GATHER);
}

static void test_scatter(void **state)
{
    (void)state;
    check_kind(COLL_SCATTER);
}

static void test_all_to_all(void **state)
{
    (void)state;
    check_kind(COLL_ALL_TO_ALL);
}

static void test_scans(void **state)
{
    (void)state;
    check_kind(COLL_SCAN);
    check_kind(COLL_EXSCAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce),      cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_reduce_scatter),  cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_broadcast),       cmocka_unit_test(test_gather),
        cmocka_unit_test(test_scatter),         cmocka_unit_test(test_all_to_all),
        cmocka_unit_test(test_two_level_hosts), cmocka_unit_test(test_aligned_hosts),
        cmocka_unit_test(test_scans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
