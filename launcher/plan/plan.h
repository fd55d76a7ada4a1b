/* Shows a plan: as text, as JSON. */
#ifndef LAUNCH_PLAN_PLAN_H
#define LAUNCH_PLAN_PLAN_H

#include <stdio.h>

#include "base/buffer.h"
#include "plan/estimate.h"

/* Where a job on CPUs would have the model from. */
typedef enum launch_plan_source {
    LAUNCH_PLAN_SHAPE,      /* flags say its shape: a GPT-2, which is begun anew */
    LAUNCH_PLAN_CHECKPOINT, /* of that shape, and ranks know it */
    LAUNCH_PLAN_NOWHERE,    /* ranks would refuse the checkpoint, or flags have changed its shape */
} launch_plan_source;

/* What was asked, and the layouts found, of which the first one is shown whole. */
typedef struct launch_plan {
    const launch_ask *ask;
    const char *model_name;
    const char *device_name;
    launch_plan_source source;
    const char *checkpoint;       /* a directory */
    const char *lora_targets;     /* of adapters; empty: as PEFT has it */
    const launch_found *found;    /* at least one layout */
    int64_t price_micro_per_hour; /* of one rank; 0: not known */
    int64_t steps;
    int64_t granularity_s; /* what the vendor bills at least */
} launch_plan;

/* What budget-service assumes of a vendor that its policy does not name, and a plan if nobody says
 * otherwise. */
enum { LAUNCH_PLAN_GRANULARITY_S = 3600 };

/* What `steps` steps cost, rounded up. False: no price is known, or it is beyond all bounds. */
bool launch_plan_cost(const launch_plan *plan, int64_t *micro);

/* What to ask the budget for, so that those steps are paid for: instances are hosts, and hours are
 * rounded up to hundredths. */
typedef struct launch_reserve {
    int64_t instances;
    int64_t gpus;                 /* in each */
    int64_t price_micro_per_hour; /* of each */
    int64_t seconds;
    int64_t usd_micro; /* instances × price × (seconds + granularity) */
} launch_reserve;

/* False: as above, or no single authorization is for so many instances, or for so long. */
bool launch_plan_reserve(const launch_plan *plan, launch_reserve *reserve);

/* Puts the command that trains in this layout on CPUs: "launcher --mode pp-cpu …". False: no mode does, or
 * the launcher would refuse it; nothing is put then. */
bool launch_plan_on_cpus(const launch_plan *plan, const launch_layout *layout, base_buffer *text);

void launch_plan_print(const launch_plan *plan, FILE *stream);
BASE_MUST_CHECK base_status launch_plan_print_json(const launch_plan *plan, FILE *stream,
                                                   base_error *reterr);

#endif
