/* A job's fields about training: what goes with what. Called by job.c. */
#include <inttypes.h>

#include "job_layout.h"
#include "proto/limits.h"
#include "proto/mode.h"

/* Of a training that ends with the best model it has found. */
static base_status check_best(const proto_job *job, base_error *reterr)
{
    const int64_t every = job->infer.eval_every;
    if (!job->train.keep_best) {
        return job->train.patience == 0
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID, "train.patience without train.keep_best");
    }
    if (every == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s needs infer.eval_every: it compares the evaluations every so many "
                         "steps",
                         job->train.patience > 0 ? "train.patience" : "train.keep_best");
    }
    return every <= job->train.steps
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "train.keep_best finds no evaluation: infer.eval_every %" PRId64
                           " is above train.steps %" PRId64,
                           every, job->train.steps);
}

static base_status check_dropout(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    return job->train.dropout == 0.0 || !mode->on_gpus
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "train.dropout %g goes with modes that train on CPUs (ddp-cpu, pp-cpu), "
                           "not with %s",
                           job->train.dropout, mode->name);
}

double proto_job_muon_momentum(const proto_job *job)
{
    const double given = job->train.muon_momentum;
    return given > 0.0 ? given : PROTO_MUON_MOMENTUM;
}

/* Muon has no kernels for GPUs. */
static base_status check_optimizer(const proto_job *job, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    if (job->train.optimizer != PROTO_OPTIMIZER_MUON) {
        return job->train.muon_momentum == 0.0
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID,
                               "train.muon_momentum goes with train.optimizer muon");
    }
    return !mode->on_gpus
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "train.optimizer muon goes with modes that train on CPUs (ddp-cpu, "
                           "pp-cpu), not with %s",
                           mode->name);
}

base_status proto_job_check_training(const proto_job *job, base_error *reterr)
{
    if (job->model.checkpoint[0] == '\0' && job->model.width % job->model.heads != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model.width %" PRId64 " is not a multiple of model.heads %" PRId64,
                         job->model.width, job->model.heads);
    }
    if (job->train.batch * job->model.context > PROTO_BATCH_TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.batch %" PRId64 " × model.context %" PRId64
                         " is more than %d tokens",
                         job->train.batch, job->model.context, PROTO_BATCH_TOKENS_MAX);
    }
    if (job->train.warmup_steps > job->train.steps) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.warmup_steps %" PRId64 " is above train.steps %" PRId64,
                         job->train.warmup_steps, job->train.steps);
    }
    base_status status = check_dropout(job, reterr);
    status = status == BASE_OK ? check_optimizer(job, reterr) : status;
    return status == BASE_OK ? check_best(job, reterr) : status;
}
