/* Makes padded batches. Called by model.c. */
#include "model/padded.h"

size_t rank_model_padded(size_t token_count_max, size_t count)
{
    size_t size = 0;
    for (size_t eighth = 1; eighth <= RANK_MODEL_SIZES_MAX && (size == 0 || size < count);
         eighth++) {
        size = (eighth * token_count_max + RANK_MODEL_SIZES_MAX - 1) / RANK_MODEL_SIZES_MAX;
        size = (size + RANK_MODEL_SIZE_STEP - 1) / RANK_MODEL_SIZE_STEP * RANK_MODEL_SIZE_STEP;
    }
    return size;
}

static size_t table_ints(size_t tokens)
{
    return 4 * tokens + 1;
}

void rank_padded_plan(const rank_shape *shape, rank_memory_use *use)
{
    use->bytes[RANK_MEMORY_WORK] +=
        table_ints(shape->token_count_max) * sizeof(int32_t) + sizeof(double);
}

base_status rank_padded_create(rank_padded *padded, const rank_shape *shape,
                               const rank_device *device, int batches_max, base_error *reterr)
{
    void *staged = NULL;
    void *table = NULL;
    void *loss = NULL;
    *padded = (rank_padded){
        .device = *device,
        .table_ints = table_ints(shape->token_count_max),
        .stage_count = batches_max < RANK_PADDED_STAGES_MAX ? batches_max : RANK_PADDED_STAGES_MAX};
    const rank_backend *backend = device->backend;
    const size_t table_bytes = padded->table_ints * sizeof *padded->table;
    base_status status = backend->alloc(device->queue, RANK_MEMORY_HOST,
                                        (size_t)padded->stage_count * table_bytes, &staged, reterr);
    if (status == BASE_OK) {
        status = backend->alloc(device->queue, RANK_MEMORY_WORK, table_bytes, &table, reterr);
    }
    if (status == BASE_OK) {
        status =
            backend->alloc(device->queue, RANK_MEMORY_WORK, sizeof *padded->loss, &loss, reterr);
    }
    padded->staged = staged;
    padded->table = table;
    padded->loss = loss;
    return status;
}

void rank_padded_destroy(rank_padded *padded)
{
    if (padded->device.backend != NULL) {
        padded->device.backend->release(padded->device.queue, padded->staged);
        padded->device.backend->release(padded->device.queue, padded->table);
        padded->device.backend->release(padded->device.queue, padded->loss);
    }
    *padded = (rank_padded){.staged = NULL};
}

void rank_padded_waited(rank_padded *padded)
{
    padded->next_stage = 0;
}

/* Where the four tables of a batch with T rows begin. */
static rank_rows point_into(int32_t *table, size_t tokens)
{
    return (rank_rows){.count = tokens,
                       .padded = true,
                       .segment_count = tokens,
                       .active_count = tokens,
                       .target_count = tokens,
                       .ids = table,
                       .positions = table + tokens,
                       .active_targets = table + 2 * tokens,
                       .segment_start = table + 3 * tokens};
}

/* The batch's own rows and segments, without the empty ones. Returns how many segments. */
static size_t fill_batch(const rank_rows *rows, const rank_batch *batch)
{
    size_t segments = 0;
    for (int s = 0; s < batch->segment_count; s++) {
        const int32_t first = batch->segment_start[s];
        const int32_t end = batch->segment_start[s + 1];
        for (int32_t t = first; t < end; t++) {
            rows->ids[t] = batch->ids[t];
            rows->positions[t] = t - first;
            rows->active_targets[t] = batch->targets != NULL ? batch->targets[t] : -1;
        }
        if (end > first) {
            rows->segment_start[segments++] = first;
        }
    }
    return segments;
}

/* Rows from `first` on in segments of at most `longest`, then empty segments. */
static void fill_padding(const rank_rows *rows, size_t first, size_t segments, size_t longest)
{
    for (size_t t = first; t < rows->count; t++) {
        const size_t position = (t - first) % longest;
        rows->ids[t] = 0;
        rows->positions[t] = (int32_t)position;
        rows->active_targets[t] = -1;
        if (position == 0) {
            rows->segment_start[segments++] = (int32_t)t;
        }
    }
    for (; segments <= rows->segment_count; segments++) {
        rows->segment_start[segments] = (int32_t)rows->count;
    }
}

base_status rank_padded_place(rank_padded *padded, rank_saved *saved, const rank_batch *batch,
                              base_error *reterr)
{
    const rank_backend *backend = padded->device.backend;
    base_status status = rank_batch_check(saved->shape, batch, reterr);
    if (status == BASE_OK && padded->next_stage == padded->stage_count) {
        status = backend->sync(padded->device.queue, reterr);
        padded->next_stage = 0;
    }
    if (status != BASE_OK) {
        return status;
    }
    const size_t tokens =
        rank_model_padded(saved->shape->token_count_max, (size_t)batch->token_count);
    const size_t segment_max = saved->rows.segment_max;
    int32_t *stage = padded->staged + (size_t)padded->next_stage++ * padded->table_ints;
    const rank_rows filled = point_into(stage, tokens);
    const size_t segments = fill_batch(&filled, batch);
    fill_padding(&filled, (size_t)batch->token_count, segments, segment_max);
    backend->copy(padded->device.queue, padded->table, stage, table_ints(tokens) * sizeof *stage);
    saved->rows = point_into(padded->table, tokens);
    saved->rows.segment_max = segment_max;
    saved->loss = padded->loss;
    return BASE_OK;
}
