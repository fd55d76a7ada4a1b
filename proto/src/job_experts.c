/* A job's fields about models with experts: what goes with what. Called by job.c. */
#include <inttypes.h>

#include "job_layout.h"
#include "proto/mode.h"

enum { CHOSEN = 2, WIDENING = 2 };

int64_t proto_job_experts_per_token(const proto_job_model *model)
{
    return model->experts_per_token > 0 ? model->experts_per_token : CHOSEN;
}

int64_t proto_job_expert_width(const proto_job_model *model)
{
    return WIDENING * model->width;
}

/* Of a job that makes no new model with experts. */
static base_status check_none(const proto_job_model *model, base_error *reterr)
{
    if (model->experts_per_token > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model.experts_per_token goes with model.experts");
    }
    return model->router_loss == 0.0 || model->checkpoint[0] != '\0'
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "model.router_loss goes with model.experts, or with a checkpoint whose "
                           "model has experts");
}

base_status proto_job_check_experts(const proto_job *job, base_error *reterr)
{
    const proto_job_model *model = &job->model;
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    if (!mode->trains && (model->experts > 0 || model->router_loss != 0.0)) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "model.experts and model.router_loss go with modes that train, not with %s",
            mode->name);
    }
    if (model->router_loss < 0.0 && model->router_loss != -1.0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model.router_loss %g: it is -1, for none, or not negative",
                         model->router_loss);
    }
    if (model->experts == 0) {
        return check_none(model, reterr);
    }
    if (model->checkpoint[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model.experts %" PRId64
                         " makes a new model, and model.checkpoint names one",
                         model->experts);
    }
    return proto_job_experts_per_token(model) <= model->experts
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "model.experts_per_token %" PRId64
                           " is more than model.experts %" PRId64,
                           proto_job_experts_per_token(model), model->experts);
}
