/* Where a rank keeps blocks on their way. Called by the generators. */
#include "plan/generators.h"

coll_space coll_plan_home(const coll_plan *plan, int block, int block_count)
{
    bool here = true;
    switch (plan->kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        here = plan->rank == plan->root;
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER:
        here = block == plan->rank && block_count == 1;
        break;
    default:
        break;
    }
    return here ? COLL_SPACE_OUTPUT : COLL_SPACE_SCRATCH;
}
