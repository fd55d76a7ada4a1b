/* What a plan's steps cost. Called by print.c and json.c. */
#include <math.h>

#include "budget/claims.h"
#include "budget/money.h"
#include "plan/plan.h"

enum { HUNDREDTH_HOUR_S = 36, AUTHORIZED_S_MAX = 365 * 24 * 3600 };

static double whole_seconds(const launch_plan *plan)
{
    return ceil(plan->found->estimates[0].step_s * (double)plan->steps);
}

bool launch_plan_cost(const launch_plan *plan, int64_t *micro)
{
    const launch_layout *layout = &plan->found->estimates[0].layout;
    const double seconds = whole_seconds(plan);
    return plan->price_micro_per_hour > 0 && plan->steps > 0 && seconds < 9e15 &&
           budget_money_cost(plan->price_micro_per_hour, launch_layout_ranks(layout),
                             (int64_t)seconds, micro);
}

bool launch_plan_reserve(const launch_plan *plan, launch_reserve *reserve)
{
    const int64_t ranks = launch_layout_ranks(&plan->found->estimates[0].layout);
    const int64_t host_ranks = plan->ask->device.host_ranks;
    const double seconds = whole_seconds(plan);
    int64_t micro = 0;
    if (!launch_plan_cost(plan, &micro) || seconds > AUTHORIZED_S_MAX) {
        return false;
    }
    *reserve = (launch_reserve){
        .instances = (ranks + host_ranks - 1) / host_ranks,
        .gpus = ranks < host_ranks ? ranks : host_ranks,
        .seconds = ((int64_t)seconds + HUNDREDTH_HOUR_S - 1) / HUNDREDTH_HOUR_S * HUNDREDTH_HOUR_S,
    };
    return reserve->instances <= BUDGET_INSTANCES_MAX && reserve->seconds <= AUTHORIZED_S_MAX &&
           !__builtin_mul_overflow(plan->price_micro_per_hour, reserve->gpus,
                                   &reserve->price_micro_per_hour) &&
           reserve->price_micro_per_hour <= BUDGET_MONEY_MICRO_MAX &&
           budget_money_cost(reserve->price_micro_per_hour, reserve->instances,
                             reserve->seconds + plan->granularity_s, &reserve->usd_micro);
}
