/* Makes an engine: weights, cache, work memory, and the tables of its steps. Called by generate.c
 * and benchmarks. */
#include <stdlib.h>

#include "backend/memory_use.h"
#include "generate/engine_parts.h"
#include "model/decoder.h"

static base_status device_bytes(const rank_engine *engine, rank_memory kind, size_t size_bytes,
                                void **memory, base_error *reterr)
{
    const rank_device *device = &engine->run.device;
    return device->backend->alloc(device->queue, kind, size_bytes, memory, reterr);
}

static base_status device_floats(const rank_engine *engine, rank_memory kind, size_t count,
                                 float **floats, base_error *reterr)
{
    void *memory = NULL;
    const base_status status = device_bytes(engine, kind, count * sizeof(float), &memory, reterr);
    *floats = memory;
    return status;
}

static rank_schedule_options schedule_options(const rank_engine_options *options)
{
    const int context = options->context > 0 ? options->context : options->config->context;
    const int per_sequence = (context + options->block_tokens - 1) / options->block_tokens;
    return (rank_schedule_options){
        .sequence_count = options->sequences,
        .context = context,
        .block_count =
            options->cache_tokens > 0
                ? (options->cache_tokens + options->block_tokens - 1) / options->block_tokens
                : options->sequences * per_sequence,
        .block_tokens = options->block_tokens,
        .chunk_tokens = options->chunk_tokens,
        .vocab_size = options->config->vocab_size,
        .shares = options->shares ? 1 : 0,
        .draft_max = options->draft_max,
        .draft_context = options->draft != NULL ? options->draft->config.context : 0,
        .grammar_max = options->tokenizer != NULL ? PROTO_GRAMMAR_STEPS_MAX : 0,
        /* what is computed anew could have other bits on a GPU */
        .grows = options->device->backend->capture == NULL ? 1 : 0,
    };
}

static base_status make_schedule(rank_engine *engine, const rank_engine_options *options,
                                 base_error *reterr)
{
    const rank_schedule_options schedule = schedule_options(options);
    void *storage = calloc(1, rank_schedule_bytes(&schedule));
    if (storage == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a schedule");
    }
    engine->schedule = rank_schedule_init(storage, &schedule);
    engine->sampled_max =
        (size_t)schedule.sequence_count + (size_t)rank_schedule_drafts_max(&schedule);
    engine->record_bytes_max = rank_schedule_record_bytes_max(&schedule);
    engine->table_width =
        (size_t)((schedule.context + schedule.block_tokens - 1) / schedule.block_tokens);
    if (rank_tp_group_tp(engine->group)->rank == 0) {
        void *waiting = calloc(1, rank_requests_bytes(&schedule, options->waiting_max));
        if (waiting == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for requests");
        }
        engine->requests = rank_requests_init(waiting, &schedule, options->waiting_max);
    }
    return BASE_OK;
}

static base_status on_rows(void *user, base_error *reterr)
{
    return rank_alone_tick(user, reterr);
}

static rank_shards_options shards_options(const rank_engine *engine,
                                          const rank_engine_options *options)
{
    return (rank_shards_options){.config = options->config,
                                 .device = &engine->run.device,
                                 .tp = engine->run.shape.tp,
                                 .type = options->type,
                                 .adapters = options->adapters,
                                 .on_rows = on_rows,
                                 .user = options->alone};
}

static rank_step_tables_size tables_size(const rank_engine *engine,
                                         const rank_engine_options *options)
{
    return (rank_step_tables_size){.rows = engine->run.shape.token_count_max,
                                   .sequences = (size_t)options->sequences,
                                   .table_width = engine->table_width};
}

/* Adds up what this engine takes of the device, and refuses what has no room there. What the ranks
 * exchange is there already, and so is the device's queue. */
static base_status check_room(rank_engine *engine, const rank_engine_options *options,
                              base_error *reterr)
{
    const rank_family *family = options->config->family;
    const rank_shape *shape = &engine->run.shape;
    const rank_schedule_options *schedule = rank_schedule_get_options(engine->schedule);
    const rank_shards_options shards = shards_options(engine, options);
    engine->cache = (rank_cache){.block_tokens = (size_t)schedule->block_tokens,
                                 .block_count = (size_t)schedule->block_count};
    const size_t logits_floats = engine->sampled_max * (size_t)shape->tp->vocab_count;
    const rank_step_tables_size tables = tables_size(engine, options);
    rank_memory_use use = {{0}};
    use.bytes[RANK_MEMORY_WEIGHTS] = rank_shards_plan(&shards);
    use.bytes[RANK_MEMORY_ACTIVATIONS] = family->saved_floats(shape) * sizeof(float);
    use.bytes[RANK_MEMORY_WORK] = (family->work_floats(shape) + logits_floats) * sizeof(float);
    use.bytes[RANK_MEMORY_CACHE] = rank_decoder_cache_floats(shape) * engine->cache.block_tokens *
                                   engine->cache.block_count * (size_t)options->config->layers *
                                   rank_type_bytes(shape->cache_type);
    rank_step_tables_plan(shape->backend, &tables, &use);
    const base_status status = rank_memory_check(
        &engine->run.device, "the model", &use,
        rank_tp_plan_collectives(rank_decoder_exchanged_floats(shape), shape->tp->ranks), reterr);
    use.bytes[RANK_MEMORY_EXCHANGED] = rank_decoder_exchanged_floats(shape) * sizeof(float);
    use.bytes[RANK_MEMORY_QUEUES] = engine->run.device.backend->queue_bytes;
    engine->planned = use;
    return status;
}

/* The model that drafts, if there is one. */
static base_status make_drafter(rank_engine *engine, const rank_engine_options *options,
                                base_error *reterr)
{
    return options->draft == NULL
               ? BASE_OK
               : rank_drafter_create(&(rank_drafter_options){.model = options->draft,
                                                             .device = options->device,
                                                             .schedule = engine->schedule,
                                                             .table_width = engine->table_width,
                                                             .alone = options->alone},
                                     &engine->drafter, reterr);
}

static base_status make_grammars(rank_engine *engine, const rank_engine_options *options,
                                 base_error *reterr)
{
    return options->tokenizer == NULL
               ? BASE_OK
               : rank_grammars_create(options->tokenizer, options->config->vocab_size,
                                      options->sequences, &engine->grammars, reterr);
}

static base_status make_run(rank_engine *engine, const rank_engine_options *options,
                            base_error *reterr)
{
    const rank_family *family = options->config->family;
    rank_shape *shape = &engine->run.shape;
    engine->hooks = rank_shards_hooks(engine->shards);
    engine->hooks.trace = engine->timeline;
    engine->run.hooks = &engine->hooks;
    const size_t cache_bytes = engine->planned.bytes[RANK_MEMORY_CACHE];
    const size_t work_floats = family->work_floats(shape);
    const size_t logits_floats = engine->sampled_max * (size_t)shape->tp->vocab_count;
    base_status status = rank_saved_create(shape, &engine->run.device, &engine->saved, reterr);
    if (status == BASE_OK && shape->backend->capture != NULL) {
        status = rank_graphs_create(shape->backend, RANK_STEP_GRAPHS_MAX, &engine->graphs, reterr);
    }
    if (status == BASE_OK) {
        status =
            device_bytes(engine, RANK_MEMORY_CACHE, cache_bytes, &engine->cache.memory, reterr);
    }
    if (status == BASE_OK) {
        status = device_floats(engine, RANK_MEMORY_WORK, work_floats, &engine->run.work, reterr);
    }
    if (status == BASE_OK) {
        status = device_floats(engine, RANK_MEMORY_WORK, logits_floats, &engine->logits, reterr);
    }
    engine->work_bytes = (work_floats + logits_floats) * sizeof(float);
    return status;
}

/* What the device is told of each row that it draws of, and what it has drawn. */
static base_status make_draws(rank_engine *engine, base_error *reterr)
{
    const size_t rows = engine->sampled_max;
    void *host = NULL;
    const base_status status = device_bytes(
        engine, RANK_MEMORY_HOST,
        rows * (sizeof *engine->draw_rows + RANK_SAMPLE_LEAVES * sizeof *engine->masses +
                RANK_KEPT_MAX * sizeof *engine->kept + sizeof *engine->drawn),
        &host, reterr);
    if (status == BASE_OK) {
        engine->draw_rows = host;
        engine->masses = (rank_mass *)(void *)(engine->draw_rows + rows);
        engine->kept = (rank_kept *)(void *)(engine->masses + rows * RANK_SAMPLE_LEAVES);
        engine->drawn = (rank_drawn *)(void *)(engine->kept + rows * RANK_KEPT_MAX);
    }
    return status;
}

static base_status make_tables(rank_engine *engine, const rank_engine_options *options,
                               base_error *reterr)
{
    const size_t sequences = (size_t)options->sequences;
    const size_t rows = engine->run.shape.token_count_max;
    const size_t ranks = (size_t)engine->run.shape.tp->ranks;
    const size_t sampled = engine->sampled_max;
    const size_t message = sizeof(engine_head) + sampled * rank_sample_record_bytes_max((int)ranks);
    const size_t padded = (size_t)engine->vocab.leaf_width * RANK_TP_LEAVES;
    void *host = NULL;
    engine->entries = calloc(sequences, sizeof *engine->entries);
    engine->sampled = calloc(sampled, sizeof *engine->sampled);
    engine->events = calloc(sampled, sizeof *engine->events);
    engine->tokens = calloc(sampled, sizeof *engine->tokens);
    engine->logit_rows = calloc(sampled, sizeof *engine->logit_rows);
    engine->batch_start = calloc(sequences + 1, sizeof *engine->batch_start);
    engine->batch_ids = calloc(rows, sizeof *engine->batch_ids);
    engine->logprobs = calloc(sampled * RANK_LOGPROBS_MAX, sizeof *engine->logprobs);
    engine->adjusted_logits = calloc(padded, sizeof *engine->adjusted_logits);
    engine->marks = calloc(padded, sizeof *engine->marks);
    engine->all_logits = calloc(padded, sizeof *engine->all_logits);
    engine->all_candidates = calloc(padded, sizeof *engine->all_candidates);
    engine->message = calloc(1, message);
    engine->messages = calloc(ranks, message);
    engine->record = calloc(1, engine->record_bytes_max);
    if (engine->entries == NULL || engine->sampled == NULL || engine->events == NULL ||
        engine->tokens == NULL || engine->logit_rows == NULL || engine->batch_start == NULL ||
        engine->batch_ids == NULL || engine->logprobs == NULL || engine->adjusted_logits == NULL ||
        engine->marks == NULL || engine->all_logits == NULL || engine->all_candidates == NULL ||
        engine->message == NULL || engine->messages == NULL || engine->record == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d sequences", options->sequences);
    }
    const rank_device *device = &engine->run.device;
    const rank_step_tables_size tables = tables_size(engine, options);
    base_status status =
        device_bytes(engine, RANK_MEMORY_HOST,
                     sequences * (engine->table_width + 1) * sizeof(int32_t), &host, reterr);
    engine->blocks = host;
    engine->lengths =
        engine->blocks != NULL ? engine->blocks + sequences * engine->table_width : NULL;
    if (status == BASE_OK) {
        status = rank_step_tables_create(&engine->tables, device, &tables, reterr);
    }
    return status == BASE_OK && device->backend->draw != NULL ? make_draws(engine, reterr) : status;
}

static base_status load(rank_engine *engine, const rank_engine_options *options, base_error *reterr)
{
    const rank_shards_options shards = shards_options(engine, options);
    return options->weights != NULL
               ? rank_shards_load(&shards, options->weights, &engine->shards, reterr)
               : rank_shards_create(&shards, options->source, &engine->shards, reterr);
}

/* Refuses what the device's backend cannot do. */
static base_status check_backend(const rank_engine_options *options, base_error *reterr)
{
    const rank_backend *backend = options->device->backend;
    const size_t head_width = rank_decoder_head_width(options->config);
    const bool rounds = backend->cast != NULL && backend->plain_weights;
    if (rank_in_blocks(options->type) && !backend->packs_narrow) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the backend %s has no weights in %s",
                         backend->name, rank_type_name(options->type));
    }
    if ((options->type != RANK_FLOAT32 && !rounds && !backend->packs_narrow) ||
        (options->cache_type != RANK_FLOAT32 && !rounds)) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the backend %s decodes in float32 only",
                         backend->name);
    }
    if (options->cache_type != RANK_FLOAT32 && (head_width % 8 != 0 || head_width > 512)) {
        return base_fail(
            reterr, BASE_ERR_UNSUPPORTED,
            "heads of a cache in bfloat16 have a multiple of 8 elements, up to 512, not %zu",
            head_width);
    }
    if (options->draft_max > 0 && backend->capture != NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the backend %s checks no drafts",
                         backend->name);
    }
    return rank_model_check_device(options->config, options->device, reterr);
}

static base_status make(rank_engine *engine, const rank_engine_options *options, base_error *reterr)
{
    static base_status (*const steps[])(rank_engine *, const rank_engine_options *,
                                        base_error *) = {
        make_schedule, check_room, load, make_run, make_drafter, make_grammars, make_tables};
    const rank_schedule_options schedule = schedule_options(options);
    const int ranks = options->comm != NULL ? coll_comm_size(options->comm) : 1;
    rank_shape *shape = &engine->run.shape;
    engine->run.device = *options->device;
    *shape = (rank_shape){
        .config = options->config,
        .backend = options->device->backend,
        .end_layer = options->config->layers,
        .token_count_max = (size_t)(options->chunk_tokens + options->sequences +
                                    rank_schedule_drafts_max(&schedule)),
        .decode_type = options->type,
        .cache_type = options->cache_type,
    };
    base_status status = check_backend(options, reterr);
    if (status == BASE_OK) {
        status = rank_model_check_world(options->config, ranks, reterr);
    }
    if (status == BASE_OK) {
        status = rank_tp_group_create(options->comm, options->device, options->config->vocab_size,
                                      rank_decoder_exchanged_floats(shape), &engine->group, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    rank_tp_group_log(engine->group, rank_step_trace_log(options->trace));
    rank_tp_group_trace(engine->group, options->timeline);
    shape->tp = rank_tp_group_tp(engine->group);
    engine->vocab = (rank_sample_vocab){
        .vocab_size = options->config->vocab_size,
        .leaf_width = rank_tp_leaf_width(options->config->vocab_size),
        .world_size = ranks,
    };
    for (size_t i = 0; status == BASE_OK && i < sizeof steps / sizeof steps[0]; i++) {
        status = steps[i](engine, options, reterr);
    }
    return status;
}

base_status rank_engine_create(const rank_engine_options *options, rank_engine **engine,
                               base_error *reterr)
{
    *engine = NULL;
    rank_engine *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for an engine");
    }
    made->comm = options->comm;
    made->on_event = options->on_event;
    made->on_begin = options->on_begin;
    made->trace = options->trace;
    made->timeline = options->timeline;
    made->alone = options->alone;
    made->user = options->user;
    const base_status status = make(made, options, reterr);
    if (status != BASE_OK) {
        rank_engine_destroy(made);
        return status;
    }
    *engine = made;
    return BASE_OK;
}

void rank_engine_destroy(rank_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    const rank_device *device = &engine->run.device;
    rank_drafter_destroy(engine->drafter);
    rank_grammars_destroy(engine->grammars);
    rank_graphs_destroy(engine->graphs);
    device->backend->release(device->queue, engine->blocks);
    rank_step_tables_destroy(&engine->tables);
    device->backend->release(device->queue, engine->draw_rows);
    device->backend->release(device->queue, engine->logits);
    device->backend->release(device->queue, engine->cache.memory);
    device->backend->release(device->queue, engine->run.work);
    rank_saved_destroy(&engine->saved);
    rank_shards_destroy(engine->shards);
    rank_tp_group_destroy(engine->group);
    free(engine->schedule);
    free(engine->requests);
    free(engine->entries);
    free(engine->sampled);
    free(engine->events);
    free(engine->tokens);
    free(engine->logit_rows);
    free(engine->batch_start);
    free(engine->batch_ids);
    free(engine->logprobs);
    free(engine->adjusted_logits);
    free(engine->marks);
    free(engine->all_logits);
    free(engine->all_candidates);
    free(engine->message);
    free(engine->messages);
    free(engine->record);
    free(engine);
}

rank_engine_memory rank_engine_get_memory(const rank_engine *engine)
{
    const rank_schedule_options *schedule = rank_schedule_get_options(engine->schedule);
    const rank_memory_use draft = rank_drafter_planned(engine->drafter);
    rank_memory_use planned = engine->planned;
    for (int kind = 0; kind < RANK_MEMORY_KINDS; kind++) {
        planned.bytes[kind] += draft.bytes[kind];
    }
    return (rank_engine_memory){
        .weight_bytes = rank_shards_bytes(engine->shards),
        .weight_elements = rank_shards_elements(engine->shards),
        .uncut_elements = rank_shards_uncut_elements(engine->shards),
        .cache_bytes = engine->planned.bytes[RANK_MEMORY_CACHE],
        .cache_blocks = schedule->block_count,
        .cache_tokens = schedule->block_count * schedule->block_tokens,
        .work_bytes = engine->work_bytes,
        .draft_weight_bytes = draft.bytes[RANK_MEMORY_WEIGHTS],
        .draft_cache_bytes = draft.bytes[RANK_MEMORY_CACHE],
        .planned = planned,
    };
}
