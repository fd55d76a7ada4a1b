/* Makes and frees a stage: its layers, its memory. Called by train/prepare.c. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

_Static_assert(PROTO_PIPELINE_CHUNKS_MAX + 1 <= RANK_HELD_RANGES_MAX,
               "a stage holds a range of each chunk, and the tied matrix");

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
    if (pipeline->schedule.stages > 1 || pipeline->sums.started > 0) {
        pipeline_progress(pipeline, NULL);
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

static base_status make_place(rank_pipeline *pipeline, const pipeline_chunk *chunk,
                              pipeline_place *place, base_error *reterr)
{
    const size_t floats = pipeline->shape.token_count_max * (size_t)pipeline->config.width;
    base_status status =
        rank_saved_create(&chunk->run.shape, &pipeline->device, &place->saved, reterr);
    if (status == BASE_OK && !pipeline_chunk_is_first(chunk)) {
        place->din = pipeline_cut_sent(&pipeline->sent.backward, floats);
        status = alloc(pipeline, RANK_MEMORY_ACTIVATIONS, floats, &place->in, reterr);
    }
    if (status == BASE_OK && !pipeline_chunk_is_last(pipeline, chunk)) {
        place->out = pipeline_cut_sent(&pipeline->sent.forward, floats);
        status = alloc(pipeline, RANK_MEMORY_ACTIVATIONS, floats, &place->dout, reterr);
    }
    return status;
}

static base_status make_places(rank_pipeline *pipeline, pipeline_chunk *chunk, base_error *reterr)
{
    base_status status = BASE_OK;
    chunk->places = calloc((size_t)chunk->place_count, sizeof *chunk->places);
    if (chunk->places == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for micro-batches");
    }
    for (int i = 0; status == BASE_OK && i < chunk->place_count; i++) {
        status = make_place(pipeline, chunk, &chunk->places[i], reterr);
    }
    return status;
}

/* Says what a chunk is; it has no memory yet. */
static pipeline_chunk describe_chunk(rank_pipeline *pipeline, int number)
{
    const proto_pipeline *schedule = &pipeline->schedule;
    const int virtual_stage = number * schedule->stages + pipeline->stage;
    return (pipeline_chunk){
        .virtual_stage = virtual_stage,
        .run = {.shape = pipeline_shape_of(pipeline, &pipeline->config, virtual_stage),
                .device = pipeline->device,
                .hooks = &pipeline->hooks},
        .place_count = proto_pipeline_held_of(schedule, pipeline->stage, number)};
}

size_t pipeline_work_floats(const rank_pipeline *pipeline)
{
    size_t most = 0;
    for (int i = 0; i < pipeline->schedule.chunks; i++) {
        const rank_shape *shape = &pipeline->chunks[i].run.shape;
        most = base_max_size(most, pipeline->config.family->work_floats(shape));
    }
    return most;
}

static base_status make_chunks(rank_pipeline *pipeline, base_error *reterr)
{
    base_status status =
        alloc(pipeline, RANK_MEMORY_WORK, pipeline_work_floats(pipeline), &pipeline->work, reterr);
    for (int i = 0; status == BASE_OK && i < pipeline->schedule.chunks; i++) {
        pipeline->chunks[i].run.work = pipeline->work;
        status = make_places(pipeline, &pipeline->chunks[i], reterr);
    }
    return status;
}

static base_status make_gradients(rank_pipeline *pipeline, base_error *reterr)
{
    const int levels = rank_leaf_plan_levels(pipeline->schedule.micro_batches);
    const bool last = pipeline_is_last(pipeline) && !pipeline_is_first(pipeline);
    base_status status = pipeline_make_sums(pipeline, reterr);
    for (int i = 0; status == BASE_OK && i < levels; i++) {
        if (pipeline->levels[i] == NULL) {
            status = alloc(pipeline, RANK_MEMORY_WORK, pipeline->held.count, &pipeline->levels[i],
                           reterr);
        }
    }
    for (int i = 0; last && pipeline->held.tied_count > 0 && i < pipeline->schedule.stages; i++) {
        pipeline->tied[i].at = pipeline_cut_sent(&pipeline->sent.tied, pipeline->held.tied_count);
    }
    return status == BASE_OK ? pipeline_make_norm(pipeline, reterr) : status;
}

/* The rest of what a schedule must be is what the job's check promises. */
static base_status check(const rank_pipeline *pipeline, base_error *reterr)
{
    const proto_pipeline *schedule = &pipeline->schedule;
    BASE_ASSERT(schedule->stages > 1 || schedule->chunks == 1);
    BASE_ASSERT(schedule->micro_batches <= RANK_DDP_MICRO_BATCHES_MAX);
    if (schedule->stages * schedule->chunks > pipeline->config.layers) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%d layers are too few for %d stages of %d chunks",
                         pipeline->config.layers, schedule->stages, schedule->chunks);
    }
    if (schedule->stages > 1 && rank_model_experts(&pipeline->config).count > 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "a model with experts cannot be cut into %d stages: the router's loss is "
                         "over all layers",
                         schedule->stages);
    }
    return proto_pipeline_check(schedule, reterr);
}

base_status pipeline_begin(rank_pipeline *made, const rank_pipeline_options *options,
                           base_error *reterr)
{
    made->context = options->context;
    made->device = *options->device;
    made->config = *options->config;
    made->algorithm = options->algorithm;
    made->bucket_elements = options->bucket_bytes / sizeof(float);
    made->schedule = options->schedule;
    made->cp = options->cp;
    made->trace = options->trace;
    made->loads = options->loads;
    const base_status status = check(made, reterr);
    return status == BASE_OK ? rank_model_check_tensor_ranks(&made->config, options->tensor, reterr)
                             : status;
}

void pipeline_describe(rank_pipeline *made, const rank_pipeline_options *options)
{
    const rank_cp *cp = options->cp != NULL ? rank_cp_group_cp(options->cp) : NULL;
    const size_t tokens = (size_t)options->token_count_max;
    made->shape =
        (rank_shape){.config = &made->config,
                     .backend = made->device.backend,
                     .token_count_max = cp != NULL ? rank_cp_block(tokens, cp->ranks) : tokens,
                     .training = true,
                     .recompute = options->recompute,
                     .split = proto_pipeline_splits(&made->schedule),
                     .tp = options->tensor > 1 ? &made->tp : NULL,
                     .cp = cp};
    BASE_ASSERT(!made->shape.split || !made->shape.recompute);
    made->held = pipeline_held_of(made, &made->config, made->stage);
    made->hooks = (rank_hooks){.need = need,
                               .done = done,
                               .weights = made,
                               .ready = pipeline_ready,
                               .ready_user = made,
                               .trace = options->trace};
    for (int i = 0; i < made->schedule.chunks; i++) {
        made->chunks[i] = describe_chunk(made, i);
    }
}

static base_status fill(rank_pipeline *made, base_error *reterr)
{
    base_status status = pipeline_make_sent(made, reterr);
    if (status == BASE_OK) {
        status = make_chunks(made, reterr);
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
    base_status status = pipeline_begin(made, options, reterr);
    if (status == BASE_OK) {
        pipeline_find_place(made, options->tensor,
                            coll_comm_rank(coll_context_world(made->context)));
        status = pipeline_make_layout(made, options->tensor, reterr);
    }
    if (status == BASE_OK && made->cp != NULL) {
        status = rank_model_check_context_ranks(&made->config, rank_cp_group_cp(made->cp)->ranks,
                                                reterr);
    }
    if (status == BASE_OK) {
        pipeline_describe(made, options);
        status = fill(made, reterr);
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

static void free_places(const rank_pipeline *pipeline, pipeline_chunk *chunk)
{
    for (int i = 0; chunk->places != NULL && i < chunk->place_count; i++) {
        pipeline_place *place = &chunk->places[i];
        coll_op_destroy(place->out_sent); /* before its buffer goes */
        coll_op_destroy(place->din_sent);
        rank_saved_destroy(&place->saved);
        release(pipeline, place->in);
        release(pipeline, place->dout);
    }
    free(chunk->places);
}

void rank_pipeline_destroy(rank_pipeline *pipeline)
{
    if (pipeline == NULL) {
        return;
    }
    for (int i = 0; i < PROTO_PIPELINE_CHUNKS_MAX; i++) {
        free_places(pipeline, &pipeline->chunks[i]);
    }
    for (int i = pipeline->arena != NULL ? 1 : 0; i < RANK_DDP_LEVELS_MAX; i++) {
        release(pipeline, pipeline->levels[i]);
    }
    for (int i = 0; i < PROTO_PIPELINE_STAGES_MAX; i++) {
        coll_op_destroy(pipeline->tied[i].sent);
    }
    release(pipeline, pipeline->work);
    pipeline_free_sent(pipeline);
    pipeline_free_sums(pipeline);
    pipeline_free_layout(pipeline);
    free(pipeline->counted);
    free(pipeline);
}

const rank_model_config *rank_pipeline_config(const rank_pipeline *pipeline)
{
    return &pipeline->config;
}

coll_comm *rank_pipeline_tensor_ranks(const rank_pipeline *pipeline)
{
    return pipeline->tensor;
}

const rank_held *rank_pipeline_held(const rank_pipeline *pipeline)
{
    return &pipeline->held;
}
