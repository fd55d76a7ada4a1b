/* Adapters of a model whose own parameters are frozen (LoRA, Hu et al. 2021), as --lora of a training has them:
 * which layers they are of, and what they weigh. docs/TRAINING.md says what they are. Pure. */
#ifndef LAUNCH_PLAN_ADAPTERS_H
#define LAUNCH_PLAN_ADAPTERS_H

#include "plan/model.h"

/* Beside a layer of `in` and `out` columns stand (rank, in) and (out, rank). */
typedef struct launch_adapters {
    int64_t rank;                      /* 0: there are none, and the model is trained */
    int64_t columns;                   /* in + out of all adapted layers of a block together */
    bool adapted[LAUNCH_MATRICES_MAX]; /* which of launch_model_matrices they are */
} launch_adapters;

/* Finds the layers of a block that a list means, as --lora-targets: "q_proj,v_proj", "mlp.c_proj", "all-linear";
 * "": what PEFT takes. BASE_ERR_INVALID names one that the model does not have, and those that it has. */
BASE_MUST_CHECK base_status launch_adapters_choose(const launch_model *model, int64_t rank,
                                                   const char *targets, launch_adapters *adapters,
                                                   base_error *reterr);

/* Parameters of the layers of a part, and of the model. */
double launch_adapters_params(const launch_adapters *adapters, const launch_stage *part);
int64_t launch_adapters_of_model(const launch_adapters *adapters, const launch_model *model);

/* Operations of a part going forward with `tokens`, beside the frozen model's. Backward does three times as
 * many: the small product in the middle again, and a product for the gradients of A, of B, of each's input. */
double launch_adapters_flops(const launch_adapters *adapters, const launch_stage *part,
                             double tokens);

#endif
