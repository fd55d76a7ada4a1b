#include "rank/ddp.h"

#include <string.h>

#include "support.h"

enum { COUNT_MAX = RANK_DDP_MICRO_BATCHES_MAX };

/* A combination that is neither commutative nor associative, so that any other order shows. */
static uint64_t combine(uint64_t left, uint64_t right)
{
    const uint64_t mixed = left * UINT64_C(0x9e3779b97f4a7c15) + (right ^ (right >> 29));
    return (mixed ^ (mixed >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* The balanced tree over leaves [first, first + count), written down as it is defined. */
static uint64_t tree(uint64_t first, int count)
{
    if (count == 1) {
        return first + 1;
    }
    const int left = (count + 1) / 2;
    return combine(tree(first, left), tree(first + (uint64_t)left, count - left));
}

static void leaves_merge_in_tree_order(void **state)
{
    (void)state;
    for (int count = 1; count <= COUNT_MAX; count++) {
        uint64_t levels[RANK_DDP_LEVELS_MAX] = {0};
        for (int leaf = 0; leaf < count; leaf++) {
            const rank_leaf_plan plan = rank_leaf_plan_make(count, leaf);
            assert_in_range(plan.level, 0, RANK_DDP_LEVELS_MAX - 1);
            assert_in_range(plan.merges, 0, plan.level);
            levels[plan.level] = (uint64_t)leaf + 1;
            for (int merge = 0; merge < plan.merges; merge++) {
                const int from = plan.level - merge;
                levels[from - 1] = combine(levels[from - 1], levels[from]);
            }
        }
        assert_true(levels[0] == tree(0, count));
    }
}

/* ranks × micro-batches: the tree over a rank's leaves, then over the ranks, is the tree over all
 * slots. */
static void powers_of_two_nest(void **state)
{
    (void)state;
    for (int slots = 1; slots <= 64; slots *= 2) {
        for (int micro = 1; micro <= slots; micro *= 2) {
            uint64_t sums[64];
            int ranks = slots / micro;
            for (int rank = 0; rank < ranks; rank++) {
                sums[rank] = tree((uint64_t)rank * (uint64_t)micro, micro);
            }
            for (; ranks > 1; ranks /= 2) {
                for (int rank = 0; rank < ranks / 2; rank++) {
                    sums[rank] = combine(sums[2 * rank], sums[2 * rank + 1]);
                }
            }
            assert_true(sums[0] == tree(0, slots));
        }
    }
}

static void shards_cover_without_overlap(void **state)
{
    (void)state;
    for (int world = 1; world <= 9; world++) {
        for (uint64_t total = 0; total <= 40; total++) {
            int owners[40] = {0};
            uint64_t covered = 0;
            for (int rank = 0; rank < world; rank++) {
                const rank_shard shard = rank_shard_make(total, rank, world);
                covered += shard.count;
                for (uint64_t i = 0; i < shard.count; i++) {
                    const uint64_t index = shard.first + i * shard.stride;
                    assert_true(index < total);
                    assert_int_equal(index % (uint64_t)world, rank);
                    owners[index]++;
                }
            }
            assert_int_equal(covered, total);
            for (uint64_t index = 0; index < total; index++) {
                assert_int_equal(owners[index], 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_merge_in_tree_order),
        cmocka_unit_test(powers_of_two_nest),
        cmocka_unit_test(shards_cover_without_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
