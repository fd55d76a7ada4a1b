/* What a stage takes of memory, before it is made. Called by train/stage.c. */
#include "pipeline/parts.h"

static void add(rank_memory_use *use, rank_memory kind, size_t floats)
{
    use->bytes[kind] += floats * sizeof(float);
}

/* A chunk's micro-batches in progress. Of an arena only what this stage cuts from it is ever touched. */
static void plan_places(const rank_pipeline *pipeline, const pipeline_chunk *chunk,
                        rank_memory_use *use)
{
    const size_t places = (size_t)chunk->place_count;
    const size_t stream = places * pipeline->shape.token_count_max * (size_t)pipeline->config.width;
    const size_t saved = pipeline->config.family->saved_floats(&chunk->run.shape);
    add(use, RANK_MEMORY_ACTIVATIONS, places * saved);
    if (!pipeline_chunk_is_first(chunk)) {
        add(use, RANK_MEMORY_ACTIVATIONS, stream);
        add(use, RANK_MEMORY_EXCHANGED, stream);
    }
    if (!pipeline_chunk_is_last(pipeline, chunk)) {
        add(use, RANK_MEMORY_ACTIVATIONS, stream);
        add(use, RANK_MEMORY_EXCHANGED, stream);
    }
}

/* The sums of the tree over micro-batches; replicas read each other's first one. */
static void plan_gradients(const rank_pipeline *pipeline, bool replicas, rank_memory_use *use)
{
    const size_t levels = (size_t)rank_leaf_plan_levels(pipeline->schedule.micro_batches);
    const size_t count = pipeline->held.count;
    const bool last = pipeline_is_last(pipeline) && !pipeline_is_first(pipeline);
    add(use, RANK_MEMORY_WORK, (levels - (replicas ? 1 : 0)) * count);
    add(use, RANK_MEMORY_EXCHANGED, replicas ? count : 0);
    if (last) {
        add(use, RANK_MEMORY_EXCHANGED,
            (size_t)pipeline->schedule.stages * pipeline->held.tied_count);
    }
}

base_status rank_pipeline_plan(const rank_pipeline_options *options, int rank, int ranks,
                               size_t *held_count, rank_memory_use *use, base_error *reterr)
{
    rank_pipeline planned = {.stage = 0};
    const base_status status = pipeline_begin(&planned, options, reterr);
    if (status != BASE_OK) {
        return status;
    }
    pipeline_find_place(&planned, options->tensor, rank);
    pipeline_describe(&planned, options);
    add(use, RANK_MEMORY_WORK, pipeline_work_floats(&planned));
    for (int i = 0; i < planned.schedule.chunks; i++) {
        plan_places(&planned, &planned.chunks[i], use);
    }
    plan_gradients(&planned, ranks > options->schedule.stages * options->tensor, use);
    *held_count = planned.held.count;
    return BASE_OK;
}
