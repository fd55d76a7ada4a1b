/* The norm of all gradients of a replica, of which each rank counts its own. Called by make.c and run.c. */
#include <stdlib.h>

#include "pipeline/parts.h"

/* Whether another rank counts the tensor: the tied matrix is the first stage's, and what is not cut
 * between the ranks of a stage is that of the first of them. */
static bool is_counted_elsewhere(const rank_pipeline *pipeline, const rank_tensor *tensor)
{
    const size_t place = rank_held_place(&pipeline->held, tensor->offset);
    return place < pipeline_own_place(pipeline) ||
           (pipeline->part > 0 && tensor->cut.kind == RANK_CUT_NONE);
}

base_status pipeline_make_norm(rank_pipeline *pipeline, base_error *reterr)
{
    const rank_model_config *config = &pipeline->config;
    const int tensors = rank_model_tensor_count(config);
    pipeline->counted = calloc((size_t)tensors, sizeof *pipeline->counted);
    if (pipeline->counted == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a norm");
    }
    for (int i = 0; i < tensors; i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        if (rank_held_has(&pipeline->held, tensor.offset) &&
            !is_counted_elsewhere(pipeline, &tensor)) {
            const size_t place = rank_held_place(&pipeline->held, tensor.offset);
            pipeline->counted[pipeline->counted_ranges++] =
                (rank_norm_range){pipeline->levels[0] + place, tensor.count};
        }
    }
    return BASE_OK;
}

base_status pipeline_sum_squares(const rank_pipeline *pipeline, double *sum, base_error *reterr)
{
    return rank_norm_sum_squares(pipeline->copy, &pipeline->device, pipeline->counted,
                                 pipeline->counted_ranges, sum, reterr);
}
