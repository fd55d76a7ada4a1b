/* Computes where a leaf of the canonical summation tree is merged. Pure arithmetic. Called by ddp.c
 * for gradients and by train/step.c for losses. */
#include "rank/ddp.h"

#include "base/assert.h"

/* The largest power of two below count. Neighbours pair up level by level, and the odd one
 * waits. */
static int left_half(int count)
{
    int left = 1;
    while (left * 2 < count) {
        left *= 2;
    }
    return left;
}

/* Walks from the root of the tree to the leaf. A step to the right needs one more buffer: the left
 * half waits in the current one, and is merged when the right half is complete. After a step to the
 * left, the merges above wait for other leaves first. */
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
    BASE_ASSERT(plan.merges <= plan.level);
    return plan;
}

int rank_leaf_plan_levels(int count)
{
    int levels = 1;
    for (int leaf = 0; leaf < count; leaf++) {
        const int level = rank_leaf_plan_make(count, leaf).level;
        levels = level + 1 > levels ? level + 1 : levels;
    }
    BASE_ASSERT(levels <= RANK_DDP_LEVELS_MAX);
    return levels;
}
