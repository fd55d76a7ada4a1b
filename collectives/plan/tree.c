/* The double binary tree: log2(n) messages deep, with both directions of every link busy. Called
 * through the table of plan.c.
 *
 * In one binary tree half of the ranks are leaves, whose links are idle half of the time. So there
 * are two trees over the same ranks. Each reduces one half of the vector (blocks 0 and 1). A rank
 * that is inside one tree is a leaf of the other. All-reduce goes up both trees, combining, and
 * then down again, copying. It does so chunk by chunk, so that all levels work at the same time.
 *
 *     tree 0 over 8 positions            the same numbers in order: 0 1 2 3 4 5 6 7
 *            0
 *             `---4            To find a position's parent, clear its lowest set bit and set the
 *               /   \          next higher one. If that is outside the tree, only clear the bit.
 *              2     6         Odd positions are leaves. All positions in the left subtree have
 *             / \   / \        lower numbers, all in the right subtree higher ones.
 *            1   3 5   7
 *
 * In tree 0 rank r has position r. In tree 1 it has position n-1-r, or (r-1) modulo n if n is odd.
 * So odd ranks are inside there. A position combines (left + own) + right. For 4 ranks tree 0 gives
 * r0 + ((r1 + r2) + r3). This order is fixed and the same on every rank, but it is not the
 * canonical one.
 *
 * Broadcast and reduce: the two trees span the n-1 other ranks, counted from the one after the
 * root. The root exchanges with the top of each tree. Reduce adds the root's operand last.
 *
 * P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan. Parallel Computing 35 (2009). */
#include "plan/generators.h"

enum {
    TREES = 2,
    /* tracks of one tree */
    UP_LEFT = 0,
    UP_RIGHT,
    UP_PARENT,
    DOWN_PARENT,
    DOWN_LEFT,
    DOWN_RIGHT,
    TREE_TRACKS,
};

/* One rank's position in one tree, its neighbours as ranks; -1: none. */
typedef struct node {
    int left;
    int right;
    int parent; /* of the top: the root of a rooted kind */
} node;

static bool has_root(const coll_plan *plan)
{
    return plan->kind != COLL_ALL_REDUCE;
}

/* Ranks in the trees. */
static int span_of(const coll_plan *plan)
{
    return has_root(plan) ? plan->ranks - 1 : plan->ranks;
}

static int position_of(int index, int tree, int span)
{
    if (tree == 0) {
        return index;
    }
    return span % 2 == 0 ? span - 1 - index : (index + span - 1) % span;
}

static int rank_at(const coll_plan *plan, int position, int tree)
{
    const int span = span_of(plan);
    int index = position;
    if (tree == 1) {
        index = span % 2 == 0 ? span - 1 - position : (position + 1) % span;
    }
    return has_root(plan) ? (plan->root + 1 + index) % plan->ranks : index;
}

static int parent_position(int position, int span)
{
    const int bit = position & -position;
    const int above = (position ^ bit) | bit << 1;
    return above < span ? above : position ^ bit;
}

static int left_position(int position)
{
    const int bit = position & -position;
    return bit > 1 ? position - bit / 2 : -1;
}

static int right_position(int position, int span)
{
    int step = position == 0 ? coll_plan_top_power(span) : (position & -position) / 2;
    while (step > 0 && position + step >= span) {
        step /= 2;
    }
    return step > 0 ? position + step : -1;
}

static node node_of(const coll_plan *plan, int tree)
{
    const int span = span_of(plan);
    const int index =
        has_root(plan) ? (plan->rank - plan->root - 1 + plan->ranks) % plan->ranks : plan->rank;
    const int position = position_of(index, tree, span);
    const int left = left_position(position);
    const int right = right_position(position, span);
    node found = {.left = left < 0 ? -1 : rank_at(plan, left, tree),
                  .right = right < 0 ? -1 : rank_at(plan, right, tree),
                  .parent = has_root(plan) ? plan->root : -1};
    if (position > 0) {
        found.parent = rank_at(plan, parent_position(position, span), tree);
    }
    return found;
}

int coll_tree_track_count(const coll_plan *plan)
{
    const bool outside = has_root(plan) && plan->rank == plan->root;
    return outside ? TREES + 1 : TREES * TREE_TRACKS;
}

/* The root of a rooted kind: one track to the top of each tree, one for the own copy. */
static bool root_step(const coll_plan *plan, int track, coll_step *step)
{
    const bool reduces = plan->kind == COLL_REDUCE;
    step->source = COLL_SPACE_INPUT;
    if (track == TREES) {
        step->action = COLL_ACTION_MOVE;
        step->block_count = TREES;
        return !reduces;
    }
    step->action = reduces ? COLL_ACTION_COMBINE : COLL_ACTION_SEND;
    step->peer = rank_at(plan, 0, track);
    step->channel = track;
    step->block = track;
    step->incoming_left = true;
    step->final = reduces;
    return true;
}

static bool up_step(const coll_plan *plan, int part, const node *at, coll_step *step)
{
    const bool leaf = at->left < 0 && at->right < 0;
    const int own = step->block * TREE_TRACKS;
    step->target = coll_plan_home(plan, 0);
    step->source = leaf || part == UP_LEFT || (part == UP_RIGHT && at->left < 0) ? COLL_SPACE_INPUT
                                                                                 : step->target;
    if (part == UP_PARENT) {
        step->action = COLL_ACTION_SEND;
        step->peer = at->parent;
        step->after_track = leaf ? -1 : own + (at->right < 0 ? UP_LEFT : UP_RIGHT);
        return at->parent >= 0;
    }
    step->action = COLL_ACTION_COMBINE;
    step->peer = part == UP_LEFT ? at->left : at->right;
    step->incoming_left = part == UP_LEFT;
    step->after_track = part == UP_RIGHT && at->left >= 0 ? own + UP_LEFT : -1;
    step->final = at->parent < 0; /* the top has a right child only */
    return step->peer >= 0;
}

static bool down_step(int part, const node *at, coll_step *step)
{
    const int own = step->block * TREE_TRACKS;
    if (part == DOWN_PARENT) {
        step->action = COLL_ACTION_COPY;
        step->peer = at->parent;
        return at->parent >= 0;
    }
    step->action = COLL_ACTION_SEND;
    step->peer = part == DOWN_LEFT ? at->left : at->right;
    step->after_track = own + (at->parent >= 0 ? DOWN_PARENT : UP_RIGHT);
    return step->peer >= 0;
}

bool coll_tree_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (index > 0) {
        return false;
    }
    if (has_root(plan) && plan->rank == plan->root) {
        return root_step(plan, track, step);
    }
    const int part = track % TREE_TRACKS;
    step->block = track / TREE_TRACKS;
    step->channel = step->block;
    const node at = node_of(plan, step->block);
    if (part <= UP_PARENT) {
        return plan->kind != COLL_BROADCAST && up_step(plan, part, &at, step);
    }
    return plan->kind != COLL_REDUCE && down_step(part, &at, step);
}
