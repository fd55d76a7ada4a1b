/* Checks the adapters of a job: those that it trains, and those that it loads. Called by job.c. */
#include <inttypes.h>
#include <stdio.h>

#include "job_layout.h"

/* Of a job without lora.rank: what goes with it alone. */
static base_status check_none(const proto_job_lora *lora, base_error *reterr)
{
    const char *given = lora->alpha != 0.0         ? "lora.alpha"
                        : lora->targets[0] != '\0' ? "lora.targets"
                        : lora->merge              ? "lora.merge"
                                                   : NULL;
    return given == NULL ? BASE_OK
                         : base_fail(reterr, BASE_ERR_INVALID, "%s goes with lora.rank", given);
}

double proto_job_lora_alpha(const proto_job_lora *lora)
{
    return lora->alpha > 0.0 ? lora->alpha : 2.0 * (double)lora->rank;
}

base_status proto_job_check_lora(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const int64_t rank = job->lora.rank;
    const bool loads = job->model.adapter[0] != '\0';
    const bool adapts = job->job.mode == PROTO_MODE_DDP_CPU;
    if (loads && !adapts && (!mode->answers || mode->on_gpus)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model.adapter goes with modes that answer on CPUs (generate, tp-cpu), "
                         "and with ddp-cpu, not with %s",
                         mode->name);
    }
    if (loads && adapts && rank == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model.adapter is trained further in %s: lora.rank must be its rank",
                         mode->name);
    }
    if (rank == 0) {
        return check_none(&job->lora, reterr);
    }
    if (!adapts) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "lora.rank %" PRId64 " goes with mode ddp-cpu, not with %s", rank,
                         mode->name);
    }
    if (job->model.checkpoint[0] == '\0') {
        char what[32] = "model.adapter";
        if (job->model.adapter[0] == '\0') {
            (void)snprintf(what, sizeof what, "lora.rank %" PRId64, rank);
        }
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s adapts a model that is trained already: model.checkpoint names it",
                         what);
    }
    if (job->train.save_dtype != PROTO_SAVE_FLOAT32 && !job->lora.merge) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.save_dtype %s is of a model, and adapters are written as float32: "
                         "with lora.merge the model is written, too",
                         proto_save_dtype_name((int)job->train.save_dtype));
    }
    return job->parallel.zero < PROTO_ZERO_GRADIENTS
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "lora.rank %" PRId64 " goes with parallel.zero 0 and 1: adapters' "
                           "gradients are small",
                           rank);
}
