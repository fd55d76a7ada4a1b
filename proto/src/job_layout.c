/* The layout of a training: which rank is where, and whether a job's is possible. Called by job.c, and by whoever
 * needs a rank's place. */
#include "job_layout.h"

#include <inttypes.h>

#include "job_tensor.h"

int64_t proto_job_tensor(const proto_job *job)
{
    const bool cut = proto_mode_get(job->job.mode)->pipelined && job->parallel.tensor > 0;
    return cut ? job->parallel.tensor : 1;
}

int64_t proto_job_stages(const proto_job *job)
{
    const int64_t all =
        job->job.world_size / (proto_job_tensor(job) * proto_job_context_ranks(job));
    return !proto_mode_get(job->job.mode)->pipelined ? 1
           : job->parallel.stages > 0                ? job->parallel.stages
           : all > 0                                 ? all
                                                     : 1;
}

int64_t proto_job_context_ranks(const proto_job *job)
{
    const bool shared =
        job->job.mode == PROTO_MODE_DDP_CPU || proto_mode_get(job->job.mode)->pipelined;
    return shared && job->parallel.context_ranks > 0 ? job->parallel.context_ranks : 1;
}

int64_t proto_job_copies(const proto_job *job)
{
    return job->job.world_size / (proto_job_stages(job) * proto_job_tensor(job));
}

int64_t proto_job_replicas(const proto_job *job)
{
    return proto_job_copies(job) / proto_job_context_ranks(job);
}

proto_record_kind proto_job_record(const proto_job *job)
{
    return job->output.directory[0] != '\0' ? proto_mode_get(job->job.mode)->record
                                            : PROTO_RECORD_NONE;
}

bool proto_job_cuts_windows(const proto_job *job)
{
    return job->data.windows || job->data.plain || job->data.tokens;
}

bool proto_job_heldout_has_lines(const proto_job *job)
{
    return !job->data.heldout_plain && !job->data.heldout_tokens;
}

bool proto_job_measures_loss(const proto_job *job)
{
    return job->infer.eval && proto_mode_get(job->job.mode)->trains;
}

proto_pipeline proto_job_pipeline(const proto_job *job)
{
    const int64_t chunks = job->parallel.chunks > 0 ? job->parallel.chunks : 2;
    proto_pipeline pipeline = {.kind = job->parallel.pipeline,
                               .stages = (int)proto_job_stages(job),
                               .chunks = 1,
                               .micro_batches = (int)job->train.micro_batches};
    if (pipeline.kind == PROTO_PIPELINE_INTERLEAVED && pipeline.stages > 1 && chunks > 1) {
        pipeline.chunks = (int)chunks;
    } else if (pipeline.kind == PROTO_PIPELINE_INTERLEAVED ||
               (pipeline.kind == PROTO_PIPELINE_ZB_H1 && pipeline.stages == 1)) {
        pipeline.kind = PROTO_PIPELINE_1F1B;
    }
    return pipeline;
}

proto_place proto_job_place(const proto_job *job, int rank)
{
    const int tensor = (int)proto_job_tensor(job);
    const int stages = (int)proto_job_stages(job);
    const int shared = (int)proto_job_context_ranks(job);
    const int copy = rank / (tensor * stages);
    return (proto_place){.replica = copy / shared,
                         .block = copy % shared,
                         .stage = rank / tensor % stages,
                         .part = rank % tensor};
}

bool proto_job_sums_replicas_first(const proto_job *job)
{
    return job->parallel.zero >= PROTO_ZERO_GRADIENTS || proto_job_expert_ranks(job) > 1;
}

int64_t proto_job_slot_step(const proto_job *job)
{
    return proto_job_sums_replicas_first(job) ? proto_job_replicas(job) : 1;
}

int64_t proto_job_slot(const proto_job *job, int64_t replica, int64_t micro_batch)
{
    const int64_t step = proto_job_slot_step(job);
    const int64_t first = step > 1 ? replica : replica * job->train.micro_batches;
    return first + micro_batch * step;
}

/* Checks that each stage has its layers, and that micro-batches fill the schedule. */
static base_status check_schedule(const proto_job *job, base_error *reterr)
{
    const proto_pipeline pipeline = proto_job_pipeline(job);
    if (job->parallel.chunks > 0 && job->parallel.pipeline != PROTO_PIPELINE_INTERLEAVED) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.chunks %" PRId64
                         " goes with parallel.pipeline interleaved, not with %s",
                         job->parallel.chunks, proto_pipeline_name((int)job->parallel.pipeline));
    }
    if (pipeline.stages > job->model.layers) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s %d: each stage has a layer at least, and the model has %" PRId64
                         ": take fewer, or a larger model.layers%s",
                         job->parallel.stages > 0           ? "parallel.stages"
                         : proto_job_context_ranks(job) > 1 ? "the stages of each pipeline,"
                         : job->parallel.tensor > 1         ? "job.world_size / parallel.tensor"
                                                            : "job.world_size",
                         pipeline.stages, job->model.layers,
                         job->parallel.stages > 0 ? ""
                                                  : ", or several pipelines, by parallel.stages");
    }
    if (pipeline.stages * pipeline.chunks > job->model.layers) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.chunks %d: each chunk of the %d stages has a layer at least, "
                         "and the model has %" PRId64 ": take fewer, or a larger model.layers",
                         pipeline.chunks, pipeline.stages, job->model.layers);
    }
    if (proto_pipeline_splits(&pipeline) && job->train.recompute) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.pipeline %s does not go with train.recompute: its backward is "
                         "in two passes, and both would compute activations again",
                         proto_pipeline_name((int)pipeline.kind));
    }
    if (pipeline.chunks > 1 && pipeline.micro_batches % pipeline.stages != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.pipeline interleaved: train.micro_batches %d must be a multiple "
                         "of the %d stages",
                         pipeline.micro_batches, pipeline.stages);
    }
    return BASE_OK;
}

/* Checks a job whose ranks are the stages of a pipeline. */
static base_status check_stages(const proto_job *job, base_error *reterr)
{
    base_status status = proto_job_check_tensor(job, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (job->job.world_size % proto_job_tensor(job) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.tensor %" PRId64 " does not divide job.world_size %" PRId64,
                         job->parallel.tensor, job->job.world_size);
    }
    if (job->job.world_size % (proto_job_stages(job) * proto_job_tensor(job)) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.stages %" PRId64 "%s does not divide job.world_size %" PRId64,
                         job->parallel.stages,
                         job->parallel.tensor > 1 ? " times parallel.tensor" : "",
                         job->job.world_size);
    }
    status = check_schedule(job, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (job->parallel.timing != PROTO_TIMING_OVERLAPPED) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.timing goes with data-parallel modes: leave it out");
    }
    return job->parallel.algorithm == PROTO_ALGORITHM_AUTO || proto_job_copies(job) > 1
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "parallel.algorithm: all ranks together have one copy of the model, and "
                           "only several copies add up gradients by an all-reduce: leave it out");
}

static base_status check_pipeline(const proto_job *job, base_error *reterr)
{
    const struct {
        const char *what;
        int64_t value;
    } of_pipelines[] = {{"stages", job->parallel.stages},
                        {"chunks", job->parallel.chunks},
                        {"tensor", job->parallel.tensor}};
    if (proto_mode_get(job->job.mode)->pipelined) {
        return check_stages(job, reterr);
    }
    for (size_t i = 0; i < sizeof of_pipelines / sizeof of_pipelines[0]; i++) {
        if (of_pipelines[i].value != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "parallel.%s %" PRId64 " goes with mode pp-cpu, not with %s",
                             of_pipelines[i].what, of_pipelines[i].value,
                             proto_mode_name((int)job->job.mode));
        }
    }
    return job->parallel.pipeline == PROTO_PIPELINE_GPIPE
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "parallel.pipeline %s goes with mode pp-cpu, not with %s",
                           proto_pipeline_name((int)job->parallel.pipeline),
                           proto_mode_name((int)job->job.mode));
}

static base_status check_zero(const proto_job *job, base_error *reterr)
{
    if (job->parallel.zero != PROTO_ZERO_NOTHING && job->job.mode != PROTO_MODE_DDP_CPU) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.zero %" PRId64 " goes with mode ddp-cpu, not with %s",
                         job->parallel.zero, proto_mode_name((int)job->job.mode));
    }
    if (job->parallel.zero >= PROTO_ZERO_GRADIENTS &&
        job->parallel.timing == PROTO_TIMING_BRACKETED) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.zero %" PRId64
                         " reduces gradients during backward: parallel.timing bracketed goes with "
                         "0 and 1",
                         job->parallel.zero);
    }
    return BASE_OK;
}

/* Checks how many ranks share a micro-batch. Of a checkpoint's model the rank knows the heads. */
static base_status check_context_ranks(const proto_job *job, base_error *reterr)
{
    const int64_t ranks = proto_job_context_ranks(job);
    if (job->parallel.context_ranks > ranks) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.context_ranks %" PRId64
                         " goes with modes ddp-cpu and pp-cpu, not with %s",
                         job->parallel.context_ranks, proto_mode_name((int)job->job.mode));
    }
    if (proto_job_copies(job) % ranks != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.context_ranks %" PRId64
                         " does not divide the number of %s, %" PRId64,
                         ranks, proto_mode_get(job->job.mode)->pipelined ? "pipelines" : "ranks",
                         proto_job_copies(job));
    }
    if (job->model.checkpoint[0] == '\0' &&
        job->model.heads % (ranks * proto_job_tensor(job)) != 0) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "parallel.context_ranks %" PRId64 "%s does not divide the model's heads, %" PRId64
            ": these ranks share them in attention",
            ranks, proto_job_tensor(job) > 1 ? " times parallel.tensor" : "", job->model.heads);
    }
    return BASE_OK;
}

base_status proto_job_check_layout(const proto_job *job, base_error *reterr)
{
    base_status status = check_pipeline(job, reterr);
    if (status == BASE_OK) {
        status = check_zero(job, reterr);
    }
    return status == BASE_OK ? check_context_ranks(job, reterr) : status;
}
