/* Names the command that trains in a layout on CPUs. Called by print.c and json.c. */
#include <inttypes.h>

#include "plan/plan.h"

enum { HIDDEN_UNIT = 16 /* columns of an MLP that are never split between ranks */ };

/* A GPT-2 of any shape can be begun anew. */
static bool is_gpt2(const launch_model *model)
{
    return !model->gated && !model->rms && !model->rotated;
}

/* So can a Mixtral of a GPT-2's sizes, whose heads rope turns by pairs of elements. */
static bool is_new_mixtral(const launch_model *model)
{
    const launch_model fresh = launch_model_mixtral(model);
    return model->experts > 0 && model->gated && model->rms && model->rotated && model->tied &&
           !model->biased && !model->head_norms && model->kv_heads == fresh.kv_heads &&
           model->head_width == fresh.head_width && model->hidden == fresh.hidden &&
           model->head_width % 2 == 0;
}

/* Whether the ranks of the layout could train the model, but for what a job says of itself. */
static bool suits(const launch_plan *plan, const launch_layout *layout)
{
    const launch_model *model = &plan->ask->model;
    return plan->source != LAUNCH_PLAN_NOWHERE && !plan->ask->decode &&
           (plan->source == LAUNCH_PLAN_CHECKPOINT || is_gpt2(model) || is_new_mixtral(model)) &&
           model->context <= model->context_max &&
           (layout->tensor == 1 || model->hidden % (HIDDEN_UNIT * layout->tensor) == 0);
}

/* The job that the command would make. The vocabulary of a new model is its tokenizer's. */
static proto_job job_of(const launch_plan *plan, const launch_layout *layout)
{
    const launch_ask *ask = plan->ask;
    proto_job job;
    proto_job_defaults(&job);
    job.job.world_size = launch_layout_ranks(layout);
    job.model.layers = ask->model.layers;
    job.model.width = ask->model.width;
    job.model.heads = ask->model.heads;
    job.model.context = ask->model.context;
    if (plan->source == LAUNCH_PLAN_CHECKPOINT) {
        job.model.vocab_size = ask->model.vocab_size;
        (void)snprintf(job.model.checkpoint, sizeof job.model.checkpoint, "%s", plan->checkpoint);
    } else {
        job.model.experts = ask->model.experts;
        job.model.experts_per_token = ask->model.chosen;
    }
    job.train.batch = ask->batch;
    job.train.micro_batches = ask->global_batch / (layout->data * ask->batch);
    job.train.recompute = ask->recompute;
    job.train.optimizer = ask->optimizer;
    job.lora.rank = ask->adapters.rank;
    (void)snprintf(job.lora.targets, sizeof job.lora.targets, "%s", plan->lora_targets);
    job.parallel.zero = launch_layout_zero(ask, layout);
    job.parallel.context_ranks = layout->context_ranks;
    job.parallel.expert_ranks = launch_layout_expert_ranks(layout);
    job.train.steps = plan->steps > 0 ? plan->steps : job.train.steps;
    if (launch_ask_local_steps(ask) > 1) {
        job.train.local_steps = ask->local_steps;
        job.train.outer_learning_rate = PROTO_OUTER_LEARNING_RATE;
        job.train.steps = plan->steps > 0 ? plan->steps : ask->local_steps;
    }
    if (layout->tensor > 1 || layout->pipeline > 1) {
        job.job.mode = PROTO_MODE_PP_CPU;
        job.parallel.stages = layout->pipeline;
        job.parallel.tensor = layout->tensor;
    }
    if (layout->pipeline > 1) {
        job.parallel.pipeline = ask->schedule;
        job.parallel.chunks = ask->schedule == PROTO_PIPELINE_INTERLEAVED ? ask->chunks : 0;
    }
    return job;
}

static void put_model(const launch_plan *plan, base_buffer *text)
{
    const launch_model *model = &plan->ask->model;
    if (plan->source == LAUNCH_PLAN_CHECKPOINT) {
        base_buffer_put(text, " --checkpoint ");
        base_buffer_shell(text, plan->checkpoint);
    } else {
        base_buffer_printf(text, " --layers %" PRId64 " --width %" PRId64 " --heads %" PRId64,
                           model->layers, model->width, model->heads);
        if (model->experts > 0) {
            base_buffer_printf(text, " --experts %" PRId64 " --experts-per-token %" PRId64,
                               model->experts, model->chosen);
        }
    }
    if (plan->source != LAUNCH_PLAN_CHECKPOINT || !is_gpt2(model)) { /* a GPT-2 has one context */
        base_buffer_printf(text, " --context %" PRId64, model->context);
    }
}

bool launch_plan_on_cpus(const launch_plan *plan, const launch_layout *layout, base_buffer *text)
{
    if (!suits(plan, layout)) {
        return false;
    }
    const proto_job job = job_of(plan, layout);
    if (proto_job_check(&job, NULL) != BASE_OK) {
        return false;
    }
    base_buffer_printf(text, "launcher --mode %s --ranks %" PRId64,
                       proto_mode_get(job.job.mode)->name, job.job.world_size);
    if (job.job.mode == PROTO_MODE_PP_CPU) {
        base_buffer_printf(text, " --stages %" PRId64, layout->pipeline);
    }
    if (layout->context_ranks > 1) {
        base_buffer_printf(text, " --context-ranks %" PRId64, layout->context_ranks);
    }
    if (launch_layout_expert_ranks(layout) > 1) {
        base_buffer_printf(text, " --expert-ranks %" PRId64, layout->expert_ranks);
    }
    if (layout->tensor > 1) {
        base_buffer_printf(text, " --tensor %" PRId64, layout->tensor);
    }
    if (layout->pipeline > 1) {
        base_buffer_printf(text, " --pipeline %s", proto_pipeline_name((int)plan->ask->schedule));
    }
    if (job.parallel.chunks > 0) {
        base_buffer_printf(text, " --chunks %" PRId64, job.parallel.chunks);
    }
    put_model(plan, text);
    base_buffer_printf(text, " --batch %" PRId64 " --micro-batches %" PRId64, job.train.batch,
                       job.train.micro_batches);
    if (job.train.optimizer != PROTO_OPTIMIZER_ADAMW) {
        base_buffer_printf(text, " --optimizer %s", proto_optimizer_name((int)job.train.optimizer));
    }
    if (job.parallel.zero > 0) {
        base_buffer_printf(text, " --zero %" PRId64, launch_layout_zero(plan->ask, layout));
    }
    if (job.train.local_steps > 0) {
        base_buffer_printf(text, " --local-steps %" PRId64, job.train.local_steps);
    }
    if (job.train.recompute) {
        base_buffer_put(text, " --recompute");
    }
    if (job.lora.rank > 0) {
        base_buffer_printf(text, " --lora %" PRId64, job.lora.rank);
    }
    if (job.lora.targets[0] != '\0') {
        base_buffer_put(text, " --lora-targets ");
        base_buffer_shell(text, job.lora.targets);
    }
    if (plan->steps > 0) {
        base_buffer_printf(text, " --steps %" PRId64, plan->steps);
    }
    return true;
}
