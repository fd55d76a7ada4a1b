/* Shows a plan: as text, as JSON. */
#ifndef LAUNCH_PLAN_PLAN_H
#define LAUNCH_PLAN_PLAN_H

#include <stdio.h>

#include "plan/estimate.h"

/* What was asked, and the layouts found, of which the first one is shown whole. */
typedef struct launch_plan {
    const launch_ask *ask;
    const char *model_name;
    const char *device_name;
    const launch_estimate *estimates; /* (count), at least 1 */
    int count;
    int64_t price_micro_per_hour; /* of one rank; 0: not known */
    int64_t steps;
} launch_plan;

/* What `steps` steps cost, rounded up. False: no price is known, or it is beyond all bounds. */
bool launch_plan_cost(const launch_plan *plan, int64_t *micro);

void launch_plan_print(const launch_plan *plan, FILE *stream);
BASE_MUST_CHECK base_status launch_plan_print_json(const launch_plan *plan, FILE *stream,
                                                   base_error *reterr);

#endif
