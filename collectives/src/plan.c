#include "plan.h"

/* A tree has nothing to gather with: every byte must reach everybody anyway. */
static coll_algorithm effective(const coll_plan *plan)
{
    if (plan->algorithm == COLL_ALGORITHM_TREE && plan->kind == COLL_ALL_GATHER) {
        return COLL_ALGORITHM_RING;
    }
    return plan->algorithm;
}

int coll_plan_track_count(const coll_plan *plan)
{
    if (plan->ranks == 1) {
        return 0;
    }
    switch (effective(plan)) {
    case COLL_ALGORITHM_RING:
        return coll_ring_track_count(plan);
    case COLL_ALGORITHM_TREE:
        return coll_binomial_track_count(plan);
    case COLL_ALGORITHM_DIRECT:
        return coll_direct_track_count(plan);
    default:
        break;
    }
    return 0;
}

bool coll_plan_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (plan->ranks == 1) {
        return false;
    }
    *step = (coll_step){.after_track = -1};
    switch (effective(plan)) {
    case COLL_ALGORITHM_RING:
        return coll_ring_step(plan, track, index, step);
    case COLL_ALGORITHM_TREE:
        return coll_binomial_step(plan, track, index, step);
    case COLL_ALGORITHM_DIRECT:
        return coll_direct_step(plan, track, index, step);
    default:
        break;
    }
    return false;
}

int coll_plan_block_count(const coll_plan *plan)
{
    if (plan->kind == COLL_ALL_GATHER) {
        return plan->ranks;
    }
    if (plan->kind == COLL_ALL_REDUCE && plan->algorithm != COLL_ALGORITHM_TREE) {
        return plan->ranks;
    }
    return 1;
}
