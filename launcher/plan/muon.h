/* What --optimizer muon changes of a training's plan: rank/optim/muon.c and rank/train/muon.c once more. An estimate;
 * docs/PARALLELISM.md, "Muon in a plan", has the formulas, and `ctest -R training-muon` compares with a job's
 * record. Pure. */
#ifndef LAUNCH_PLAN_MUON_H
#define LAUNCH_PLAN_MUON_H

#include "plan/estimate.h"

bool launch_plans_muon(const launch_ask *ask);

/* What the iterations work in, besides the moments. 0 of AdamW. */
double launch_muon_room_bytes(const launch_ask *ask);

/* Of ranks with so many layers, once the update's time is AdamW's: makes it that of both, and adds the exchange of
 * what each has updated. Nothing of AdamW. */
void launch_muon_bill(const launch_ask *ask, launch_estimate *made, int64_t layers);

#endif
