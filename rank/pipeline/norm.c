/* The norm of all stages' gradients: a tied matrix is counted by the stage that has it in its own
 * range. Called by run.c. */
#include "parallel/ddp/norm.h"
#include "pipeline/parts.h"

base_status pipeline_sum_squares(const rank_pipeline *pipeline, double *sum, base_error *reterr)
{
    const size_t before = pipeline_own_place(pipeline);
    const rank_norm_range own = {pipeline->levels[0] + before, pipeline->held.count - before};
    return rank_norm_sum_squares(pipeline->comm, &pipeline->device, &own, 1, sum, reterr);
}
