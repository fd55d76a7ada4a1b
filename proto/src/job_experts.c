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

int64_t proto_job_expert_ranks(const proto_job *job)
{
    const bool shared = job->job.mode == PROTO_MODE_DDP_CPU && job->parallel.expert_ranks > 1;
    return shared ? job->parallel.expert_ranks : 1;
}

/* Groups of ranks are nodes of the canonical tree, and so are the ranks where each has several slots. */
static base_status check_groups(const proto_job *job, base_error *reterr)
{
    const int64_t ranks = job->parallel.expert_ranks;
    const int64_t world = job->job.world_size;
    if (world % ranks != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.expert_ranks %" PRId64
                         " does not divide the number of ranks, %" PRId64,
                         ranks, world);
    }
    if (!proto_is_power_of_two(ranks)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.expert_ranks %" PRId64
                         " is no power of two: their gradients are added up in pairs",
                         ranks);
    }
    return job->train.micro_batches == 1 || proto_is_power_of_two(world)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "parallel.expert_ranks with train.micro_batches %" PRId64
                           ": the number of ranks is no power of two, %" PRId64,
                           job->train.micro_batches, world);
}

/* What expert ranks do not go with. */
static base_status check_apart(const proto_job *job, base_error *reterr)
{
    const struct {
        bool given;
        const char *what;
    } others[] = {
        {job->parallel.zero >= PROTO_ZERO_GRADIENTS, "parallel.zero 2 and 3"},
        {proto_job_context_ranks(job) > 1, "parallel.context_ranks"},
        {proto_job_is_local(job), "train.local_steps"},
        {job->lora.rank > 0, "lora.rank"},
        {job->parallel.timing == PROTO_TIMING_BRACKETED, "parallel.timing bracketed"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].given) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "parallel.expert_ranks %" PRId64 " does not go with %s",
                             job->parallel.expert_ranks, others[i].what);
        }
    }
    return BASE_OK;
}

static base_status check_expert_ranks(const proto_job *job, base_error *reterr)
{
    const int64_t ranks = job->parallel.expert_ranks;
    const proto_job_model *model = &job->model;
    if (ranks <= 1) {
        return BASE_OK;
    }
    if (job->job.mode != PROTO_MODE_DDP_CPU) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.expert_ranks %" PRId64 " goes with mode ddp-cpu, not with %s",
                         ranks, proto_mode_name((int)job->job.mode));
    }
    base_status status = check_groups(job, reterr);
    if (status == BASE_OK) {
        status = check_apart(job, reterr);
    }
    if (status != BASE_OK || model->checkpoint[0] != '\0') {
        return status; /* the rank knows the experts of a checkpoint */
    }
    if (model->experts == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.expert_ranks %" PRId64
                         " goes with model.experts, or with a checkpoint whose model has experts",
                         ranks);
    }
    return model->experts % ranks == 0 ? BASE_OK
                                       : base_fail(reterr, BASE_ERR_INVALID,
                                                   "parallel.expert_ranks %" PRId64
                                                   " does not divide model.experts %" PRId64,
                                                   ranks, model->experts);
}

static base_status check_model(const proto_job *job, base_error *reterr)
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

base_status proto_job_check_experts(const proto_job *job, base_error *reterr)
{
    const base_status status = check_model(job, reterr);
    return status == BASE_OK ? check_expert_ranks(job, reterr) : status;
}
