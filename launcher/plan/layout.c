/* Says whether a model can be laid out so. Called by estimate.c. */
#include <inttypes.h>

#include "plan/estimate.h"

int64_t launch_layout_ranks(const launch_layout *layout)
{
    return launch_layout_copies(layout) * layout->tensor * layout->pipeline;
}

int64_t launch_layout_copies(const launch_layout *layout)
{
    return layout->data * layout->context_ranks;
}

int64_t launch_layout_expert_ranks(const launch_layout *layout)
{
    return layout->expert_ranks > 1 ? layout->expert_ranks : 1;
}

int64_t launch_layout_zero(const launch_ask *ask, const launch_layout *layout)
{
    return launch_layout_copies(layout) > 1 ? ask->zero : 0;
}

int64_t launch_ask_local_steps(const launch_ask *ask)
{
    return ask->local_steps > 1 ? ask->local_steps : 1;
}

int64_t launch_layout_zero_most(const launch_ask *ask, const launch_layout *layout)
{
    const bool moments_alone =
        layout->pipeline > 1 || ask->adapters.rank > 0 || launch_layout_expert_ranks(layout) > 1;
    const bool whole = launch_layout_copies(layout) == 1 || launch_ask_local_steps(ask) > 1;
    return whole ? 0 : moments_alone ? 1 : PROTO_ZERO_PARAMETERS;
}

/* Refuses a number of ranks that cannot share so many parts, with one that can. */
static base_status refuse_tensor(int64_t tensor, const char *parts, int64_t count,
                                 base_error *reterr)
{
    int64_t fits = tensor;
    while (count % fits != 0 || tensor % fits != 0) { /* 1 does */
        fits--;
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "--tensor %" PRId64 " does not divide the model's %s, %" PRId64
                     ": take one that does, as --tensor %" PRId64,
                     tensor, parts, count, fits);
}

/* What ranks share, and in which parts. */
static base_status check_tensor(const launch_ask *ask, const launch_layout *layout,
                                base_error *reterr)
{
    const launch_model *model = &ask->model;
    const bool shares =
        ask->decode && layout->tensor % model->kv_heads == 0 && model->heads % layout->tensor == 0;
    if (model->kv_heads % layout->tensor != 0 && !shares) {
        return refuse_tensor(layout->tensor,
                             model->kv_heads < model->heads ? "heads of keys and values" : "heads",
                             model->kv_heads, reterr);
    }
    if (model->hidden % layout->tensor != 0) {
        return refuse_tensor(layout->tensor,
                             model->experts > 0 ? "columns of an expert" : "columns of the MLP",
                             model->hidden, reterr);
    }
    return BASE_OK;
}

/* As proto_job_check and the ranks have it of --expert-ranks. */
static base_status check_expert_ranks(const launch_ask *ask, const launch_layout *layout,
                                      base_error *reterr)
{
    const int64_t ranks = launch_layout_expert_ranks(layout);
    const int64_t experts = ask->model.experts;
    if (experts == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--expert-ranks %" PRId64 ": the model has no experts", ranks);
    }
    if (launch_layout_ranks(layout) > layout->data || ask->zero > PROTO_ZERO_MOMENTS ||
        launch_ask_local_steps(ask) > 1) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--expert-ranks goes without --tensor, --pipeline, --context-ranks, "
                         "--zero 2 and 3, and --local-steps");
    }
    if (experts % ranks != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--expert-ranks %" PRId64 " does not divide the model's experts, %" PRId64,
                         ranks, experts);
    }
    if (layout->data % ranks != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--expert-ranks %" PRId64 " does not divide %" PRId64 " replicas", ranks,
                         layout->data);
    }
    if (!proto_is_power_of_two(ranks)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--expert-ranks %" PRId64
                         " is no power of two: gradients are added up in pairs",
                         ranks);
    }
    return ask->global_batch == layout->data * ask->batch || proto_is_power_of_two(layout->data)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--expert-ranks with several micro-batches goes with a power of two of "
                           "replicas, not with %" PRId64,
                           layout->data);
}

/* What models with experts are trained without: the router's loss is over all layers, and all tokens. */
static base_status check_experts(const launch_ask *ask, const launch_layout *layout,
                                 base_error *reterr)
{
    if (ask->model.experts > 0 && (layout->pipeline > 1 || layout->context_ranks > 1)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a model with experts goes without --pipeline and --context-ranks: its "
                         "router's loss is over all layers and tokens");
    }
    return launch_layout_expert_ranks(layout) > 1 ? check_expert_ranks(ask, layout, reterr)
                                                  : BASE_OK;
}

base_status launch_layout_check(const launch_ask *ask, const launch_layout *layout,
                                base_error *reterr)
{
    const launch_model *model = &ask->model;
    base_status status = check_tensor(ask, layout, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (ask->decode) {
        return layout->pipeline == 1
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID, "--decode goes without --pipeline");
    }
    status = check_experts(ask, layout, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (ask->adapters.rank > 0 && (layout->tensor > 1 || layout->pipeline > 1)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--lora goes without --tensor and --pipeline: each rank has the whole "
                         "model, which is frozen");
    }
    if (launch_ask_local_steps(ask) > 1 &&
        launch_layout_ranks(layout) > layout->data) { /* there are other ranks than replicas */
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--local-steps goes without --tensor, --pipeline and --context-ranks: "
                         "each rank takes its steps alone");
    }
    if (model->heads % (layout->tensor * layout->context_ranks) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--context-ranks %" PRId64 "%s does not divide the model's heads, %" PRId64
                         ": these ranks share them in attention",
                         layout->context_ranks, layout->tensor > 1 ? " times --tensor" : "",
                         model->heads);
    }
    if (layout->pipeline > 1 && layout->pipeline * ask->chunks > model->layers) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "%" PRId64 " layers are too few for %" PRId64 " stages, with %" PRId64 " %s each",
            model->layers, layout->pipeline, ask->chunks, ask->chunks == 1 ? "chunk" : "chunks");
    }
    if (launch_layout_zero(ask, layout) > launch_layout_zero_most(ask, layout)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--zero %" PRId64 " goes without stages of layers: --pipeline 1, or "
                         "--zero 1",
                         ask->zero);
    }
    if (ask->global_batch % (layout->data * ask->batch) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%" PRId64 " sequences of a step are no multiple of %" PRId64
                         " replicas × %" PRId64 " of a micro-batch",
                         ask->global_batch, layout->data, ask->batch);
    }
    return BASE_OK;
}
