/* The passes of a model that drafts: what it has not seen, then a token of each text after the other.
 * Called by engine.c before each step. */
#include "generate/drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "checkpoint/shards.h"
#include "generate/sample.h"
#include "model/decoder.h"

/* A text that drafts. */
typedef struct drafting {
    int32_t sequence;
    int32_t left; /* tokens to draft */
} drafting;

struct rank_drafter {
    rank_schedule *schedule;
    rank_tp_group *group;
    rank_shards *shards;
    rank_hooks hooks;
    rank_run run;
    rank_saved saved;
    rank_cache cache;
    rank_sample_vocab vocab;
    size_t table_width;
    uint64_t *
        contents; /* (blocks): a digest of the tokens up to the end of each; 0: they are not all there */
    rank_memory_use planned;
    drafting *drafting; /* (sequences) */
    int drafting_count;
    /* of a pass */
    int segment_count;
    int logit_count;
    int32_t *sequences;   /* (sequences): of its segments, as are the next three */
    int32_t *counts;      /* tokens of each */
    int32_t *batch_start; /* (sequences + 1) */
    int32_t *lengths;
    int32_t *blocks;    /* (sequences, table_width) */
    int32_t *batch_ids; /* (rows) */
    int32_t *logit_rows;
    float *logits; /* (texts that draft, padded vocabulary) */
    /* of a row */
    uint32_t *marks;
    rank_sample_candidate *candidates;
    uint8_t *record;
};

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* ---- making it ---- */

static size_t sequences_of(const rank_drafter *drafter)
{
    return (size_t)rank_schedule_get_options(drafter->schedule)->sequence_count;
}

/* A text whose logits are needed drafts at least one of the step's tokens. */
static size_t logit_rows_of(const rank_drafter *drafter)
{
    const size_t drafts =
        (size_t)rank_schedule_drafts_max(rank_schedule_get_options(drafter->schedule));
    return base_min_size(sequences_of(drafter), drafts);
}

static base_status on_rows(void *user, base_error *reterr)
{
    return rank_alone_tick(user, reterr);
}

static base_status load(rank_drafter *drafter, const rank_drafter_options *options,
                        base_error *reterr)
{
    const rank_draft_model *model = options->model;
    const rank_shards_options shards = {.config = &model->config,
                                        .device = &drafter->run.device,
                                        .tp = drafter->run.shape.tp,
                                        .type = model->type,
                                        .on_rows = on_rows,
                                        .user = options->alone};
    const base_status status =
        model->weights != NULL
            ? rank_shards_load(&shards, model->weights, &drafter->shards, reterr)
            : rank_shards_create(&shards, model->source, &drafter->shards, reterr);
    if (status == BASE_OK) {
        drafter->hooks = rank_shards_hooks(drafter->shards);
        drafter->run.hooks = &drafter->hooks;
        drafter->planned.bytes[RANK_MEMORY_WEIGHTS] = rank_shards_bytes(drafter->shards);
    }
    return status;
}

static base_status alloc(const rank_drafter *drafter, rank_memory kind, size_t size_bytes,
                         void **memory, base_error *reterr)
{
    const rank_device *device = &drafter->run.device;
    return device->backend->alloc(device->queue, kind, size_bytes, memory, reterr);
}

static base_status make_run(rank_drafter *drafter, base_error *reterr)
{
    const rank_shape *shape = &drafter->run.shape;
    const rank_family *family = shape->config->family;
    const size_t logits = logit_rows_of(drafter) * (size_t)shape->tp->vocab_count;
    const size_t work = family->work_floats(shape);
    void *memory[2] = {NULL, NULL};
    drafter->planned.bytes[RANK_MEMORY_CACHE] =
        rank_decoder_cache_floats(shape) * drafter->cache.block_tokens *
        drafter->cache.block_count * (size_t)shape->config->layers *
        rank_type_bytes(shape->cache_type);
    drafter->planned.bytes[RANK_MEMORY_ACTIVATIONS] = family->saved_floats(shape) * sizeof(float);
    drafter->planned.bytes[RANK_MEMORY_WORK] =
        (work + logits + rank_decoder_exchanged_floats(shape)) * sizeof(float);
    base_status status = rank_saved_create(shape, &drafter->run.device, &drafter->saved, reterr);
    if (status == BASE_OK) {
        status = alloc(drafter, RANK_MEMORY_CACHE, drafter->planned.bytes[RANK_MEMORY_CACHE],
                       &drafter->cache.memory, reterr);
    }
    if (status == BASE_OK) {
        status = alloc(drafter, RANK_MEMORY_WORK, work * sizeof(float), &memory[0], reterr);
        drafter->run.work = memory[0];
    }
    if (status == BASE_OK) {
        status = alloc(drafter, RANK_MEMORY_WORK, logits * sizeof(float), &memory[1], reterr);
        drafter->logits = memory[1];
    }
    return status;
}

static base_status make_tables(rank_drafter *drafter, base_error *reterr)
{
    const size_t sequences = sequences_of(drafter);
    const size_t padded = (size_t)drafter->run.shape.tp->vocab_count;
    drafter->contents = calloc(drafter->cache.block_count, sizeof *drafter->contents);
    drafter->drafting = calloc(sequences, sizeof *drafter->drafting);
    drafter->sequences = calloc(sequences, sizeof *drafter->sequences);
    drafter->counts = calloc(sequences, sizeof *drafter->counts);
    drafter->batch_start = calloc(sequences + 1, sizeof *drafter->batch_start);
    drafter->lengths = calloc(sequences, sizeof *drafter->lengths);
    drafter->blocks = calloc(sequences * drafter->table_width, sizeof *drafter->blocks);
    drafter->batch_ids = calloc(drafter->run.shape.token_count_max, sizeof *drafter->batch_ids);
    drafter->logit_rows = calloc(logit_rows_of(drafter), sizeof *drafter->logit_rows);
    drafter->marks = calloc(padded, sizeof *drafter->marks);
    drafter->candidates = calloc(padded, sizeof *drafter->candidates);
    drafter->record = calloc(1, rank_sample_record_bytes_max(1));
    return drafter->contents != NULL && drafter->drafting != NULL && drafter->sequences != NULL &&
                   drafter->counts != NULL && drafter->batch_start != NULL &&
                   drafter->lengths != NULL && drafter->blocks != NULL &&
                   drafter->batch_ids != NULL && drafter->logit_rows != NULL &&
                   drafter->marks != NULL && drafter->candidates != NULL && drafter->record != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu sequences", sequences);
}

static base_status make(rank_drafter *drafter, const rank_drafter_options *options,
                        base_error *reterr)
{
    const rank_schedule_options *schedule = rank_schedule_get_options(options->schedule);
    const rank_model_config *config = &options->model->config;
    rank_shape *shape = &drafter->run.shape;
    drafter->schedule = options->schedule;
    drafter->table_width = options->table_width;
    drafter->run.device = *options->device;
    drafter->cache = (rank_cache){.block_tokens = (size_t)schedule->block_tokens,
                                  .block_count = (size_t)schedule->block_count};
    drafter->vocab =
        (rank_sample_vocab){.vocab_size = smaller(config->vocab_size, schedule->vocab_size),
                            .leaf_width = rank_tp_leaf_width(config->vocab_size),
                            .world_size = 1};
    *shape = (rank_shape){
        .config = config,
        .backend = options->device->backend,
        .end_layer = config->layers,
        .token_count_max = (size_t)(schedule->chunk_tokens + schedule->sequence_count),
        .decode_type = options->model->type,
    };
    base_status status = rank_model_check_device(config, options->device, reterr);
    if (status == BASE_OK) {
        status =
            rank_tp_group_create(NULL, options->device, config->vocab_size,
                                 rank_decoder_exchanged_floats(shape), &drafter->group, reterr);
    }
    if (status == BASE_OK) {
        shape->tp = rank_tp_group_tp(drafter->group);
        status = load(drafter, options, reterr);
    }
    if (status == BASE_OK) {
        status = make_run(drafter, reterr);
    }
    return status == BASE_OK ? make_tables(drafter, reterr) : status;
}

base_status rank_drafter_create(const rank_drafter_options *options, rank_drafter **drafter,
                                base_error *reterr)
{
    rank_drafter *made = calloc(1, sizeof *made);
    *drafter = NULL;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a model that drafts");
    }
    const base_status status = make(made, options, reterr);
    if (status != BASE_OK) {
        rank_drafter_destroy(made);
        return base_error_prepend(reterr, status, "the model that drafts");
    }
    *drafter = made;
    return BASE_OK;
}

void rank_drafter_destroy(rank_drafter *drafter)
{
    if (drafter == NULL) {
        return;
    }
    const rank_device *device = &drafter->run.device;
    device->backend->release(device->queue, drafter->logits);
    device->backend->release(device->queue, drafter->run.work);
    device->backend->release(device->queue, drafter->cache.memory);
    rank_saved_destroy(&drafter->saved);
    rank_shards_destroy(drafter->shards);
    rank_tp_group_destroy(drafter->group);
    free(drafter->contents);
    free(drafter->drafting);
    free(drafter->sequences);
    free(drafter->counts);
    free(drafter->batch_start);
    free(drafter->lengths);
    free(drafter->blocks);
    free(drafter->batch_ids);
    free(drafter->logit_rows);
    free(drafter->marks);
    free(drafter->candidates);
    free(drafter->record);
    free(drafter);
}

rank_memory_use rank_drafter_planned(const rank_drafter *drafter)
{
    return drafter != NULL ? drafter->planned : (rank_memory_use){{0}};
}

/* ---- beginnings that are cached ---- */

/* FNV-1a of a block's tokens, behind those before it; never 0. */
static uint64_t digest_block(uint64_t before, const int32_t *tokens, int32_t count)
{
    uint64_t digest = before ^ UINT64_C(0xcbf29ce484222325);
    for (int32_t i = 0; i < count; i++) {
        digest = (digest ^ (uint32_t)tokens[i]) * UINT64_C(0x100000001b3);
    }
    return digest != 0 ? digest : 1;
}

static const int32_t *table_of(const rank_drafter *drafter, int32_t sequence)
{
    return rank_blocks_table(rank_schedule_blocks(drafter->schedule), sequence);
}

/* Follows what the blocks of a new sequence already have of its prompt. */
static void take_cached(rank_drafter *drafter, int32_t sequence)
{
    const int32_t each = (int32_t)drafter->cache.block_tokens;
    const int32_t shared = rank_schedule_shared(drafter->schedule, sequence) / each;
    const int32_t *table = table_of(drafter, sequence);
    int32_t known = 0;
    const int32_t *tokens = rank_schedule_tokens(drafter->schedule, sequence, &known);
    uint64_t digest = 0;
    int32_t cached = 0;
    for (; cached < shared; cached++) {
        digest = digest_block(digest, tokens + (size_t)cached * (size_t)each, each);
        if (drafter->contents[table[cached]] != digest) {
            break;
        }
    }
    rank_schedule_follow(drafter->schedule, sequence, cached * each);
}

/* The blocks that rows from `first` on are written to have no known content. */
static void forget_blocks(rank_drafter *drafter, int32_t sequence, int32_t first, int32_t count)
{
    const int32_t each = (int32_t)drafter->cache.block_tokens;
    const int32_t *table = table_of(drafter, sequence);
    for (int32_t i = first / each; i <= (first + count - 1) / each; i++) {
        drafter->contents[table[i]] = 0;
    }
}

/* Notes the blocks that known tokens have filled, once for each. */
static void note_blocks(rank_drafter *drafter, int32_t sequence)
{
    const int32_t each = (int32_t)drafter->cache.block_tokens;
    const int32_t full = rank_schedule_drafting(drafter->schedule, sequence).followed / each;
    const int32_t *table = table_of(drafter, sequence);
    int32_t known = 0;
    const int32_t *tokens = rank_schedule_tokens(drafter->schedule, sequence, &known);
    uint64_t digest = 0;
    BASE_ASSERT(full * each <= known);
    for (int32_t i = 0; full > 0 && drafter->contents[table[full - 1]] == 0 && i < full; i++) {
        digest = digest_block(digest, tokens + (size_t)i * (size_t)each, each);
        drafter->contents[table[i]] = digest;
    }
}

/* ---- a pass ---- */

static void begin_pass(rank_drafter *drafter)
{
    drafter->segment_count = 0;
    drafter->logit_count = 0;
    drafter->batch_start[0] = 0;
}

/* Adds the next `count` tokens of the sequence. draws: the last one's logits are needed. */
static void add_rows(rank_drafter *drafter, int32_t sequence, int32_t count, bool draws)
{
    int32_t known = 0;
    const int32_t vocab_size = drafter->run.shape.config->vocab_size;
    const int segment = drafter->segment_count++;
    const int32_t start = drafter->batch_start[segment];
    const int32_t *tokens = rank_schedule_tokens(drafter->schedule, sequence, &known);
    const int32_t first = rank_schedule_drafting(drafter->schedule, sequence).followed;
    const int32_t *table = table_of(drafter, sequence);
    forget_blocks(drafter, sequence, first, count);
    for (int32_t i = 0; i < count; i++) { /* an id of padding means nothing: any may stand there */
        const int32_t token = tokens[first + i];
        drafter->batch_ids[start + i] = token < vocab_size ? token : 0;
    }
    memcpy(drafter->blocks + (size_t)segment * drafter->table_width, table,
           drafter->table_width * sizeof *table);
    drafter->sequences[segment] = sequence;
    drafter->counts[segment] = count;
    drafter->lengths[segment] = first;
    drafter->batch_start[segment + 1] = start + count;
    if (draws) {
        drafter->logit_rows[drafter->logit_count++] = start + count - 1;
    }
}

/* Computes the rows of the pass. */
static base_status compute(rank_drafter *drafter, base_error *reterr)
{
    const rank_run *run = &drafter->run;
    const rank_batch batch = {.token_count = drafter->batch_start[drafter->segment_count],
                              .ids = drafter->batch_ids,
                              .segment_count = drafter->segment_count,
                              .segment_start = drafter->batch_start};
    const rank_logits wanted = {.rows = drafter->logit_rows, .count = drafter->logit_count};
    const rank_decode_args args = {.saved = &drafter->saved,
                                   .cache = &drafter->cache,
                                   .lengths = drafter->lengths,
                                   .block_table = drafter->blocks,
                                   .table_width = drafter->table_width,
                                   .exchanged = rank_tp_group_memory(drafter->group),
                                   .logits = drafter->logits};
    base_status status =
        rank_rows_place_step(&drafter->saved, &batch, drafter->lengths, &wanted, reterr);
    if (status == BASE_OK) {
        run->shape.config->family->decode(run, &args);
        status = rank_tp_group_check(drafter->group, reterr);
    }
    if (status == BASE_OK) {
        status = run->device.backend->sync(run->device.queue, reterr);
    }
    for (int i = 0; status == BASE_OK && i < drafter->segment_count; i++) {
        rank_schedule_follow(drafter->schedule, drafter->sequences[i], drafter->counts[i]);
    }
    return status;
}

/* Draws of a row's logits, which it may change, what stands behind the sequence's tokens and its draft. */
static base_status draw(rank_drafter *drafter, int32_t sequence, float *logits, int32_t *token,
                        base_error *reterr)
{
    const rank_request *request = rank_schedule_request(drafter->schedule, sequence);
    const rank_adjustment how = rank_request_adjustment(request);
    const rank_schedule_draft at = rank_schedule_drafting(drafter->schedule, sequence);
    const rank_sample_records records = {drafter->record,
                                         rank_sample_record_bytes(&request->sample, 1)};
    const rank_sample_all all = {.logits = logits, .scratch = drafter->candidates};
    const uint64_t position = (uint64_t)at.followed; /* all before it are in the cache */
    rank_sample_result result = {.token = -1};
    int32_t known = 0;
    const int32_t *tokens = rank_schedule_tokens(drafter->schedule, sequence, &known);
    if (rank_adjust_any(&how)) {
        rank_adjust(&how, &(rank_adjust_text){tokens, request->prompt_count, at.followed},
                    &(rank_adjust_row){logits, 0, drafter->vocab.vocab_size, drafter->marks});
    }
    rank_sample_make(&drafter->vocab, &request->sample, position, 0, logits, drafter->record);
    base_status status =
        rank_sample_combine(&drafter->vocab, &request->sample, position, &records, &result, reterr);
    if (status == BASE_OK && result.needs_all_logits) {
        status = rank_sample_top_p_of_all(&drafter->vocab, &request->sample, position, &all,
                                          &result.token, reterr);
    }
    *token = result.token;
    return status;
}

/* Draws a token of each text that drafts. Those that go on come to the front. */
static base_status draw_all(rank_drafter *drafter, base_error *reterr)
{
    const size_t row_floats = (size_t)drafter->run.shape.tp->vocab_count;
    const rank_device *device = &drafter->run.device;
    void *host = NULL;
    int left = 0;
    if (drafter->drafting_count == 0) {
        return BASE_OK;
    }
    base_status status = device->backend->map(
        device->queue, drafter->logits,
        (size_t)drafter->drafting_count * row_floats * sizeof(float), true, &host, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (int i = 0; status == BASE_OK && i < drafter->drafting_count; i++) {
        drafting *one = &drafter->drafting[i];
        int32_t token = -1;
        status =
            draw(drafter, one->sequence, (float *)host + (size_t)i * row_floats, &token, reterr);
        if (status == BASE_OK) {
            rank_schedule_add_draft(drafter->schedule, one->sequence, token);
            one->left--;
        }
        if (one->left > 0) {
            drafter->drafting[left++] = *one;
        }
    }
    device->backend->unmap(device->queue, host);
    drafter->drafting_count = left;
    return status;
}

/* ---- a step ---- */

/* Adds what the model has not seen of the texts that may draft, or of the others. */
static void catch_up(rank_drafter *drafter, bool drafts, int32_t *rows, int32_t *tokens)
{
    const int placed = rank_schedule_placed(drafter->schedule);
    for (int i = 0; i<placed && * rows> 0; i++) {
        const int32_t sequence = rank_schedule_at(drafter->schedule, i);
        rank_schedule_draft of = rank_schedule_drafting(drafter->schedule, sequence);
        if (of.followed == 0 && of.behind > 0) {
            take_cached(drafter, sequence);
            of = rank_schedule_drafting(drafter->schedule, sequence);
        }
        const int32_t count = smaller(of.behind, *rows);
        if (count == 0 || (of.wanted > 0) != drafts) {
            continue;
        }
        const int32_t left = count == of.behind ? smaller(of.wanted, *tokens) : 0;
        add_rows(drafter, sequence, count, left > 0);
        *rows -= count;
        *tokens -= left;
        if (left > 0) {
            drafter->drafting[drafter->drafting_count++] = (drafting){sequence, left};
        }
    }
}

base_status rank_drafter_run(rank_drafter *drafter, base_error *reterr)
{
    int32_t rows = (int32_t)drafter->run.shape.token_count_max;
    int32_t tokens = rank_schedule_drafts_max(rank_schedule_get_options(drafter->schedule));
    base_status status = BASE_OK;
    drafter->drafting_count = 0;
    begin_pass(drafter);
    catch_up(drafter, true, &rows, &tokens);
    catch_up(drafter, false, &rows, &tokens);
    for (bool known = true; status == BASE_OK && drafter->segment_count > 0; known = false) {
        status = compute(drafter, reterr);
        for (int i = 0; status == BASE_OK && known && i < drafter->segment_count; i++) {
            note_blocks(drafter, drafter->sequences[i]);
        }
        if (status == BASE_OK) {
            status = draw_all(drafter, reterr);
        }
        begin_pass(drafter);
        for (int i = 0; i < drafter->drafting_count; i++) {
            add_rows(drafter, drafter->drafting[i].sequence, 1, true);
        }
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "the model that drafts");
}
