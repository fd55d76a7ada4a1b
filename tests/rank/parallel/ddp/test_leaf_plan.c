/* The order in which leaf_plan merges, against a recursive tree. */
#include "rank/ddp.h"

#include "support.h"

enum { COUNT_MAX = RANK_DDP_MICRO_BATCHES_MAX };

/* A combination that is neither commutative nor associative, so that any other order shows. */
static uint64_t combine(uint64_t left, uint64_t right)
{
    const uint64_t mixed = left * UINT64_C(0x9e3779b97f4a7c15) + (right ^ (right >> 29));
    return (mixed ^ (mixed >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* The canonical tree over leaves [first, first + count), from its root: the left half is the
 * largest power of two. */
static uint64_t tree(uint64_t first, int count)
{
    if (count == 1) {
        return first + 1;
    }
    int left = 1;
    while (left * 2 < count) {
        left *= 2;
    }
    return combine(tree(first, left), tree(first + (uint64_t)left, count - left));
}

/* The same, merged leaf by leaf in the levels' buffers, as the plan has it. */
static uint64_t merged(uint64_t first, int count)
{
    uint64_t levels[RANK_DDP_LEVELS_MAX] = {0};
    int used = 1;
    for (int leaf = 0; leaf < count; leaf++) {
        const rank_leaf_plan plan = rank_leaf_plan_make(count, leaf);
        assert_in_range(plan.level, 0, RANK_DDP_LEVELS_MAX - 1);
        assert_in_range(plan.merges, 0, plan.level);
        used = plan.level >= used ? plan.level + 1 : used;
        levels[plan.level] = first + (uint64_t)leaf + 1;
        for (int merge = 0; merge < plan.merges; merge++) {
            const int from = plan.level - merge;
            levels[from - 1] = combine(levels[from - 1], levels[from]);
        }
    }
    assert_int_equal(used, rank_leaf_plan_levels(count));
    return levels[0];
}

static void leaves_merge_in_tree_order(void **state)
{
    (void)state;
    for (int count = 1; count <= COUNT_MAX; count++) {
        assert_true(merged(0, count) == tree(0, count));
    }
}

/* Values in place: neighbours pair up level by level, the odd one waits. As coll.h defines it. */
static uint64_t pair_up(uint64_t *values, int count)
{
    for (; count > 1; count = (count + 1) / 2) {
        for (int i = 0; i < count / 2; i++) {
            values[i] = combine(values[2 * i], values[2 * i + 1]);
        }
        if (count % 2 == 1) {
            values[count / 2] = values[count - 1];
        }
    }
    return values[0];
}

/* The tree over a rank's leaves, then over the ranks, is the tree over all slots. */
static void ranks_and_micro_batches_nest(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 33; ranks++) {
        for (int micro = 1; micro <= 8; micro *= 2) {
            uint64_t sums[33];
            uint64_t slots[33 * 8];
            for (int rank = 0; rank < ranks; rank++) {
                sums[rank] = merged((uint64_t)(rank * micro), micro);
            }
            for (int slot = 0; slot < ranks * micro; slot++) {
                slots[slot] = (uint64_t)slot + 1;
            }
            const uint64_t nested = pair_up(sums, ranks);
            assert_true(nested == pair_up(slots, ranks * micro));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_merge_in_tree_order),
        cmocka_unit_test(ranks_and_micro_batches_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
