/* What a plan's steps cost. Called by print.c and json.c. */
#include <math.h>

#include "budget/money.h"
#include "plan/plan.h"

bool launch_plan_cost(const launch_plan *plan, int64_t *micro)
{
    const launch_estimate *best = &plan->found->estimates[0];
    const launch_layout *layout = &best->layout;
    const double seconds = ceil(best->step_s * (double)plan->steps);
    return plan->price_micro_per_hour > 0 && plan->steps > 0 && seconds < 9e15 &&
           budget_money_cost(plan->price_micro_per_hour, launch_layout_ranks(layout),
                             (int64_t)seconds, micro);
}
