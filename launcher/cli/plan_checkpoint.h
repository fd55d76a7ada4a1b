/* A checkpoint's shape, for a plan. */
#ifndef LAUNCH_PLAN_CHECKPOINT_H
#define LAUNCH_PLAN_CHECKPOINT_H

#include "base/status.h"
#include "plan/plan.h"

/* Reads config.json in that directory: a GPT-2's, or a Llama's, with experts or without, which has at most
 * LAUNCH_MODEL_CONTEXT tokens of context in a plan. Numbers are not checked for their ranges,
 * nor what does not change a plan, as the activation: preflight.h has more.
 * BASE_ERR_UNSUPPORTED: another family, a Llama with biases, or one of which only some blocks have experts. */
BASE_MUST_CHECK base_status launch_plan_checkpoint(const char *directory, launch_model *model,
                                                   base_error *reterr);

#endif
