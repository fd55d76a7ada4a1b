/* Where a rank keeps a block on its way. Called by the generators. */
#include "plan/generators.h"

coll_space coll_plan_home(const coll_plan *plan, int block)
{
    bool here = true;
    switch (plan->kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        here = plan->rank == plan->root;
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER:
        here = block == plan->rank;
        break;
    default:
        break;
    }
    return here ? COLL_SPACE_OUTPUT : COLL_SPACE_SCRATCH;
}
