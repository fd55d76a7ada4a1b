/* A job's fields about steps that ranks take alone: what goes with what. Called by job.c. */
#include <inttypes.h>

#include "job_layout.h"
#include "proto/mode.h"

bool proto_job_is_local(const proto_job *job)
{
    return job->train.local_steps > 1;
}

int64_t proto_job_local_steps(const proto_job *job)
{
    return proto_job_is_local(job) ? job->train.local_steps : 1;
}

/* What must find the ranks equal comes at the end of a round. */
static base_status check_multiples(const proto_job *job, base_error *reterr)
{
    const int64_t local = job->train.local_steps;
    const struct {
        const char *what;
        int64_t steps;
    } counts[] = {{"train.steps", job->train.steps},
                  {"train.save_every", job->train.save_every},
                  {"infer.eval_every", job->infer.eval_every}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i].steps % local != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "%s %" PRId64 " is no multiple of train.local_steps %" PRId64,
                             counts[i].what, counts[i].steps, local);
        }
    }
    return BASE_OK;
}

base_status proto_job_check_local(const proto_job *job, base_error *reterr)
{
    const proto_job_train *train = &job->train;
    if (!proto_job_is_local(job)) {
        return train->outer_learning_rate == 0.0 && train->outer_momentum == 0.0
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID,
                               "train.outer_%s goes with train.local_steps of 2 or more",
                               train->outer_learning_rate != 0.0 ? "learning_rate" : "momentum");
    }
    if (job->job.mode != PROTO_MODE_DDP_CPU) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.local_steps %" PRId64 " goes with mode ddp-cpu, not with %s",
                         train->local_steps, proto_mode_name((int)job->job.mode));
    }
    if (job->parallel.zero != PROTO_ZERO_NOTHING) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.local_steps %" PRId64
                         " goes with parallel.zero 0: each rank updates all parameters",
                         train->local_steps);
    }
    if (proto_job_context_ranks(job) > 1) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.local_steps %" PRId64
                         " goes with parallel.context_ranks 1: ranks that share a batch exchange "
                         "in each step",
                         train->local_steps);
    }
    if (train->outer_learning_rate == 0.0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "train.local_steps %" PRId64 " needs a train.outer_learning_rate above 0",
                         train->local_steps);
    }
    return check_multiples(job, reterr);
}
