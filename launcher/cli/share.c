/* Finds the ranks and micro-batches with which a training goes on on fewer hosts. Called by attempts.c and
 * options.c. */
#include "cli/share.h"

#include <inttypes.h>

#include "proto/limits.h"
#include "proto/mode.h"

/* Whether so many ranks add up the slots in the order of the canonical tree over all of them. Contiguous slots of a
 * rank are a subtree if they are a power of two, or all. Where the ranks are added up first, for each micro-batch,
 * those are the subtree. */
static bool is_canonical(int64_t ranks, int64_t micro_batches, bool replicas_first)
{
    return replicas_first ? micro_batches == 1 || proto_is_power_of_two(ranks)
                          : ranks == 1 || proto_is_power_of_two(micro_batches);
}

/* The most of the job's expert ranks that so many ranks can have. Any number of them has the same bits. */
static int64_t expert_ranks_of(const proto_job *job, int64_t ranks, int64_t micro_batches)
{
    int64_t experts = job->parallel.expert_ranks;
    while (experts > 1 && ranks % experts != 0) {
        experts /= 2;
    }
    return experts > 1 && micro_batches > 1 && !proto_is_power_of_two(ranks) ? 1 : experts;
}

bool launch_share_find(const proto_job *job, int nodes, int present, launch_share *share)
{
    const int64_t slots = job->job.world_size * job->train.micro_batches;
    const int each = (int)(job->job.world_size / nodes);
    *share = (launch_share){.hosts = 0};
    for (int hosts = present; hosts > 0; hosts--) {
        for (int ranks = hosts * each; ranks > share->ranks; ranks -= hosts) {
            const int64_t micro_batches = slots / ranks;
            const int64_t experts = expert_ranks_of(job, ranks, micro_batches);
            const bool replicas_first = job->parallel.zero >= PROTO_ZERO_GRADIENTS || experts > 1;
            if (slots % ranks == 0 && micro_batches <= PROTO_MICRO_BATCHES_MAX &&
                is_canonical(ranks, micro_batches, replicas_first)) {
                *share = (launch_share){hosts, ranks, micro_batches, experts};
            }
        }
    }
    return share->ranks > 0;
}

base_status launch_share_check(const proto_job *job, int nodes, int least, base_error *reterr)
{
    launch_share share;
    const char *why =
        job->job.mode != PROTO_MODE_DDP_CPU
            ? "goes with --mode ddp-cpu: other modes do not train on another number of ranks, or a "
              "token says how many there are"
        : proto_job_is_local(job)
            ? "does not go with --local-steps: each rank has parameters and moments of its own"
        : proto_job_context_ranks(job) > 1
            ? "does not go with --context-ranks, which share each batch out among the ranks"
        : job->parallel.algorithm == PROTO_ALGORITHM_RING ||
                job->parallel.algorithm == PROTO_ALGORITHM_TREE ||
                job->parallel.algorithm == PROTO_ALGORITHM_TWO_LEVEL
            ? "needs --algorithm auto, direct, recursive_doubling or halving_doubling: with others "
              "another number of ranks has other bits"
            : NULL;
    if (why != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "--min-nodes %s", why);
    }
    const bool replicas_first = proto_job_sums_replicas_first(job);
    if (!is_canonical(job->job.world_size, job->train.micro_batches, replicas_first)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--min-nodes needs a power of two of %s, else another number of ranks has "
                         "other bits: here are %" PRId64 " ranks with %" PRId64
                         " micro-batches each",
                         replicas_first ? "ranks" : "--micro-batches", job->job.world_size,
                         job->train.micro_batches);
    }
    return launch_share_find(job, nodes, least, &share)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--min-nodes %d: no number of ranks there shares out %" PRId64
                           " ranks × %" PRId64 " micro-batches with at most %d micro-batches each",
                           least, job->job.world_size, job->train.micro_batches,
                           PROTO_MICRO_BATCHES_MAX);
}
