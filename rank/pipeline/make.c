/* Makes and frees a stage: its layers, its memory. Called by train/prepare.c. */
#include <stdlib.h>

#include "base/assert.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

size_t pipeline_own_place(const rank_pipeline *pipeline)
{
    return pipeline_is_first(pipeline) ? 0 : pipeline->held.tied_count;
}

/* hooks.need: this stage's parameters. */
static const float *need(void *user, size_t offset, size_t count)
{
    const rank_pipeline *pipeline = user;
    const size_t at = rank_held_place(&pipeline->held, offset);
    BASE_ASSERT(at + count <= pipeline->held.count);
    return pipeline->params + at;
}

/* hooks.done, behind each layer: messages under way move on. An error is that of the next wait. */
static void done(void *user, size_t offset, size_t count)
{
    const rank_pipeline *pipeline = user;
    (void)offset;
    (void)count;
    if (pipeline->schedule.stages > 1 || pipeline->reductions.started > 0) {
        (void)!coll_context_progress(pipeline->context, NULL);
    }
}

static base_status alloc(const rank_pipeline *pipeline, rank_memory kind, size_t floats,
                         float **memory, base_error *reterr)
{
    void *made = NULL;
    const base_status status = pipeline->device.backend->alloc(
        pipeline->device.queue, kind, floats * sizeof(float), &made, reterr);
    *memory = made;
    return status;
}

static base_status make_place(rank_pipeline *pipeline, pipeline_place *place, base_error *reterr)
{
    const size_t floats = pipeline->shape.token_count_max * (size_t)pipeline->config.width;
    base_status status =
        rank_saved_create(&pipeline->shape, &pipeline->device, &place->saved, reterr);
    float **const below[] = {&place->in, &place->din};
    float **const above[] = {&place->out, &place->dout};
    for (int i = 0; i < 2; i++) {
        if (status == BASE_OK && !pipeline_is_first(pipeline)) {
            status = alloc(pipeline, RANK_MEMORY_ACTIVATIONS, floats, below[i], reterr);
        }
        if (status == BASE_OK && !pipeline_is_last(pipeline)) {
            status = alloc(pipeline, RANK_MEMORY_ACTIVATIONS, floats, above[i], reterr);
        }
    }
    return status;
}

static base_status make_places(rank_pipeline *pipeline, base_error *reterr)
{
    base_status status = BASE_OK;
    pipeline->place_count = proto_pipeline_held(&pipeline->schedule, pipeline->stage);
    pipeline->places = calloc((size_t)pipeline->place_count, sizeof *pipeline->places);
    if (pipeline->places == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for micro-batches");
    }
    for (int i = 0; status == BASE_OK && i < pipeline->place_count; i++) {
        status = make_place(pipeline, &pipeline->places[i], reterr);
    }
    return status;
}

static base_status make_gradients(rank_pipeline *pipeline, base_error *reterr)
{
    const int levels = rank_leaf_plan_levels(pipeline->schedule.micro_batches);
    const bool last = pipeline_is_last(pipeline) && !pipeline_is_first(pipeline);
    base_status status = BASE_OK;
    if (pipeline->replicas != NULL) {
        status = pipeline_make_arena(pipeline, reterr);
    }
    for (int i = 0; status == BASE_OK && i < levels; i++) {
        if (pipeline->levels[i] == NULL) {
            status = alloc(pipeline, RANK_MEMORY_WORK, pipeline->held.count, &pipeline->levels[i],
                           reterr);
        }
    }
    for (int i = 0; status == BASE_OK && last && i < pipeline->schedule.stages; i++) {
        status = alloc(pipeline, RANK_MEMORY_WORK, pipeline->held.tied_count, &pipeline->tied[i].at,
                       reterr);
    }
    if (status == BASE_OK) {
        status = pipeline_make_reductions(pipeline, reterr);
    }
    return status == BASE_OK ? pipeline_make_norm(pipeline, reterr) : status;
}

static base_status check(const rank_pipeline *pipeline, base_error *reterr)
{
    const proto_pipeline *schedule = &pipeline->schedule;
    if (pipeline->config.family->held == NULL || pipeline->config.family->backward == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the family %s is not trained in a pipeline",
                         pipeline->config.family->model_types[0]);
    }
    if (schedule->stages > pipeline->config.layers) {
        return base_fail(reterr, BASE_ERR_INVALID, "%d layers are too few for %d stages",
                         pipeline->config.layers, schedule->stages);
    }
    if (schedule->micro_batches > RANK_DDP_MICRO_BATCHES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%d micro-batches: 1 to %d are possible",
                         schedule->micro_batches, RANK_DDP_MICRO_BATCHES_MAX);
    }
    return proto_pipeline_check(schedule, reterr);
}

static base_status fill(rank_pipeline *made, const rank_pipeline_options *options,
                        base_error *reterr)
{
    made->shape = (rank_shape){.config = &made->config,
                               .backend = made->device.backend,
                               .token_count_max = (size_t)options->token_count_max,
                               .training = true,
                               .recompute = options->recompute,
                               .tp = made->tensor != NULL ? &made->tp : NULL};
    made->shape = pipeline_shape_of(made, &made->config, made->stage);
    made->config.family->held(&made->shape, &made->held);
    made->hooks = (rank_hooks){.need = need, .done = done, .weights = made};
    made->run = (rank_run){.shape = made->shape, .device = made->device, .hooks = &made->hooks};
    base_status status =
        alloc(made, RANK_MEMORY_WORK, made->config.family->work_floats(&made->shape),
              &made->run.work, reterr);
    if (status == BASE_OK) {
        status = make_places(made, reterr);
    }
    return status == BASE_OK ? make_gradients(made, reterr) : status;
}

base_status rank_pipeline_create(const rank_pipeline_options *options, rank_pipeline **pipeline,
                                 base_error *reterr)
{
    *pipeline = NULL;
    rank_pipeline *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a pipeline");
    }
    made->context = options->context;
    made->device = *options->device;
    made->config = *options->config;
    made->algorithm = options->algorithm;
    made->bucket_elements = options->bucket_bytes / sizeof(float);
    made->schedule = (proto_pipeline){.kind = options->kind,
                                      .stages = options->stages,
                                      .chunks = 1,
                                      .micro_batches = options->micro_batches};
    base_status status = check(made, reterr);
    if (status == BASE_OK) {
        status = rank_model_check_tensor_ranks(&made->config, options->tensor, reterr);
    }
    if (status == BASE_OK) {
        status = pipeline_make_layout(made, options->stages, options->tensor, reterr);
    }
    if (status == BASE_OK) {
        status = fill(made, options, reterr);
    }
    if (status != BASE_OK) {
        rank_pipeline_destroy(made);
        return status;
    }
    *pipeline = made;
    return BASE_OK;
}

static void release(const rank_pipeline *pipeline, void *memory)
{
    pipeline->device.backend->release(pipeline->device.queue, memory);
}

void rank_pipeline_destroy(rank_pipeline *pipeline)
{
    if (pipeline == NULL) {
        return;
    }
    for (int i = 0; pipeline->places != NULL && i < pipeline->place_count; i++) {
        pipeline_place *place = &pipeline->places[i];
        coll_op_destroy(place->out_sent); /* before its buffer goes */
        coll_op_destroy(place->din_sent);
        rank_saved_destroy(&place->saved);
        release(pipeline, place->in);
        release(pipeline, place->din);
        release(pipeline, place->out);
        release(pipeline, place->dout);
    }
    for (int i = pipeline->arena != NULL ? 1 : 0; i < RANK_DDP_LEVELS_MAX; i++) {
        release(pipeline, pipeline->levels[i]);
    }
    for (int i = 0; i < PROTO_PIPELINE_STAGES_MAX; i++) {
        coll_op_destroy(pipeline->tied[i].sent);
        release(pipeline, pipeline->tied[i].at);
    }
    release(pipeline, pipeline->run.work);
    pipeline_free_reductions(pipeline);
    pipeline_free_layout(pipeline);
    free(pipeline->places);
    free(pipeline->counted);
    free(pipeline);
}

const rank_model_config *rank_pipeline_config(const rank_pipeline *pipeline)
{
    return &pipeline->config;
}

const rank_held *rank_pipeline_held(const rank_pipeline *pipeline)
{
    return &pipeline->held;
}
