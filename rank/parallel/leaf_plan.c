#include "rank/ddp.h"

#include "base/assert.h"

rank_shard rank_shard_make(uint64_t total, int rank, int world_size)
{
    BASE_ASSERT(world_size > 0);
    BASE_ASSERT(rank >= 0);
    BASE_ASSERT(rank < world_size);
    const uint64_t first = (uint64_t)rank;
    const uint64_t stride = (uint64_t)world_size;
    return (rank_shard){
        .first = first,
        .stride = stride,
        .count = total > first ? (total - first - 1) / stride + 1 : 0,
    };
}

/* The largest power of two below count: neighbours pair up level by level, and the odd one waits.
 */
static int left_half(int count)
{
    int left = 1;
    while (left * 2 < count) {
        left *= 2;
    }
    return left;
}

/* Walks from the root of the tree to the leaf. A step to the right needs one more buffer, since the
 * left half waits in this one, and will be merged when the right half is complete; a step to the
 * left means that whatever was to be merged above waits for other leaves first. */
rank_leaf_plan rank_leaf_plan_make(int count, int leaf)
{
    BASE_ASSERT(leaf >= 0);
    BASE_ASSERT(leaf < count);
    rank_leaf_plan plan = {0, 0};
    while (count > 1) {
        const int left = left_half(count);
        if (leaf < left) {
            count = left;
            plan.merges = 0;
        } else {
            leaf -= left;
            count -= left;
            plan.level++;
            plan.merges++;
        }
    }
    return plan;
}
