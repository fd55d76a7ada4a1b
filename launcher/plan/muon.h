/* What --optimizer muon changes of a training's plan: rank/optim/muon.c and rank/train/muon.c once more. An estimate;
 * docs/PARALLELISM.md, "Muon in a plan", has the formulas, and `ctest -R training-muon` compares with a job's
 * record. Pure. */
#ifndef LAUNCH_PLAN_MUON_H
#define LAUNCH_PLAN_MUON_H

#include "plan/estimate.h"

bool launch_plans_muon(const launch_ask *ask);

/* BASE_ERR_INVALID: ranks of this layout have no whole matrices, or other gradients than those of the model. In the
 * words of the launcher, which refuses the job. Of AdamW all is fine. */
BASE_MUST_CHECK base_status launch_muon_check(const launch_ask *ask, const launch_layout *layout,
                                              base_error *reterr);

/* What the iterations work in, besides the moments. 0 of AdamW. */
double launch_muon_room_bytes(const launch_ask *ask);

/* Of ranks with so many layers, once the update's time is AdamW's: makes it that of both, and adds the exchange of
 * what each has updated. Nothing of AdamW. */
void launch_muon_bill(const launch_ask *ask, launch_estimate *made, int64_t layers);

#endif
