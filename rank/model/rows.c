/* Checks a batch and makes the tables that the device reads. Called by model.c and by
 * generate/engine.c. */
#include <string.h>

#include "model/family.h"

enum { LOSSES = 2 };

static base_status check_segments(const rank_shape *shape, const rank_batch *batch,
                                  base_error *reterr)
{
    const int32_t *start = batch->segment_start;
    if (batch->segment_count < 0 || (batch->token_count > 0 && batch->segment_count == 0)) {
        return base_fail(reterr, BASE_ERR_INVALID, "batch: %d tokens in %d segments",
                         batch->token_count, batch->segment_count);
    }
    if (batch->segment_count == 0) {
        return BASE_OK;
    }
    if (start[0] != 0 || start[batch->segment_count] != batch->token_count) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "batch: segments cover %d … %d, not the tokens 0 … %d", (int)start[0],
                         (int)start[batch->segment_count], batch->token_count);
    }
    for (int i = 0; i < batch->segment_count; i++) {
        /* An end beyond the batch shows as a later segment that falls. */
        if (start[i + 1] < start[i] || start[i + 1] > batch->token_count) {
            return base_fail(reterr, BASE_ERR_INVALID, "batch: segment %d is %d … %d", i,
                             (int)start[i], (int)start[i + 1]);
        }
        if (start[i + 1] - start[i] > shape->config->context) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "batch: segment %d has %d tokens, the context is %d", i,
                             (int)(start[i + 1] - start[i]), shape->config->context);
        }
    }
    return BASE_OK;
}

/* Tokens of a batch, also where ranks share it. */
static size_t whole_count_max(const rank_shape *shape)
{
    return shape->cp != NULL ? shape->cp->tokens_max : shape->token_count_max;
}

/* The rank's tokens of the batch. */
static rank_cp_tokens tokens_here(const rank_shape *shape, const rank_batch *batch)
{
    const size_t tokens = (size_t)batch->token_count;
    return shape->cp != NULL ? rank_cp_tokens_of(tokens, shape->cp->ranks, shape->cp->rank)
                             : (rank_cp_tokens){.count = tokens};
}

base_status rank_batch_check(const rank_shape *shape, const rank_batch *batch, base_error *reterr)
{
    const size_t most = whole_count_max(shape);
    if (batch->token_count < 0 || (size_t)batch->token_count > most) {
        return base_fail(reterr, BASE_ERR_INVALID, "batch: %d tokens, the model takes 0 … %zu",
                         batch->token_count, most);
    }
    const int32_t vocab_size = (int32_t)shape->config->vocab_size;
    for (int t = 0; t < batch->token_count; t++) {
        if (batch->ids[t] < 0 || batch->ids[t] >= vocab_size) {
            return base_fail(reterr, BASE_ERR_INVALID, "batch: token %d is %d, the vocabulary %d",
                             t, (int)batch->ids[t], (int)vocab_size);
        }
        if (batch->targets != NULL && (batch->targets[t] < -1 || batch->targets[t] >= vocab_size)) {
            return base_fail(reterr, BASE_ERR_INVALID, "batch: target %d is %d, the vocabulary %d",
                             t, (int)batch->targets[t], (int)vocab_size);
        }
    }
    return check_segments(shape, batch, reterr);
}

static base_status check_logits(const rank_shape *shape, const rank_batch *batch,
                                const rank_logits *logits, base_error *reterr)
{
    const int32_t tokens = (int32_t)tokens_here(shape, batch).count;
    for (int i = 0; logits != NULL && i < logits->count; i++) {
        const int32_t least = i > 0 ? logits->rows[i - 1] + 1 : 0;
        if (logits->rows[i] < least || logits->rows[i] >= tokens) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "logits: row %d is %d; rows ascend, below %d tokens", i,
                             (int)logits->rows[i], (int)tokens);
        }
    }
    return BASE_OK;
}

/* Empty segments are left out. Positions begin at 0, or at the sequence's length. */
static void place_segments(rank_rows *rows, const rank_batch *batch, rank_cp_tokens here,
                           const int32_t *lengths)
{
    const int32_t here_first = (int32_t)here.first;
    const int32_t here_end = (int32_t)(here.first + here.count);
    size_t count = 0;
    for (int s = 0; s < batch->segment_count; s++) {
        const int32_t first = batch->segment_start[s];
        const int32_t end = batch->segment_start[s + 1];
        for (int32_t t = first > here_first ? first : here_first; t < end && t < here_end; t++) {
            rows->positions[t - here_first] = t - first + (lengths != NULL ? lengths[s] : 0);
        }
        if (end > first) {
            rows->segment_start[count++] = first;
        }
    }
    rows->segment_start[count] = batch->token_count;
    rows->segment_count = count;
}

static void place_active(rank_rows *rows, const int32_t *targets, const rank_logits *also)
{
    int next = 0;
    rows->active_count = 0;
    rows->target_count = 0;
    for (size_t t = 0; t < rows->count; t++) {
        const int32_t target = targets != NULL ? targets[t] : -1;
        const bool asked = also != NULL && next < also->count && (size_t)also->rows[next] == t;
        next += asked;
        if (asked || target >= 0) {
            rows->active[rows->active_count] = (int32_t)t;
            rows->active_targets[rows->active_count] = target;
            rows->active_count++;
        }
        rows->target_count += target >= 0;
    }
}

/* The losses, the loads, then the five tables. */
static void point_at_tables(rank_saved *saved)
{
    const size_t tokens = saved->shape->token_count_max;
    saved->loss = saved->tables;
    saved->router_loss = saved->loss + 1;
    rank_load *loads = (rank_load *)(saved->loss + LOSSES);
    saved->loads = saved->load_count > 0 ? loads : NULL;
    int32_t *table = (int32_t *)(loads + saved->load_count);
    saved->rows.padded = false;
    saved->rows.ids = table;
    saved->rows.positions = table + tokens;
    saved->rows.active = table + 2 * tokens;
    saved->rows.active_targets = table + 3 * tokens;
    saved->rows.segment_start = table + 4 * tokens;
}

static void count_whole(rank_rows *rows, const rank_batch *batch, const int32_t *targets)
{
    rows->whole_count = (size_t)batch->token_count;
    rows->whole_target_count = 0;
    for (int t = 0; targets != NULL && t < batch->token_count; t++) {
        rows->whole_target_count += targets[t] >= 0;
    }
}

static void fill_tables(rank_saved *saved, const rank_batch *batch, const int32_t *lengths,
                        const int32_t *targets, const rank_logits *also)
{
    const rank_cp_tokens here = tokens_here(saved->shape, batch);
    rank_rows *rows = &saved->rows;
    point_at_tables(saved);
    rows->count = here.count;
    rows->first = here.first;
    rows->draw = batch->draw;
    if (rows->count > 0) {
        memcpy(rows->ids, batch->ids + here.first, rows->count * sizeof *rows->ids);
    }
    place_segments(rows, batch, here, lengths);
    place_active(rows, targets != NULL ? targets + here.first : NULL, also);
    count_whole(rows, batch, targets);
}

base_status rank_rows_place(rank_saved *saved, const rank_batch *batch, const rank_logits *also,
                            base_error *reterr)
{
    base_status status = rank_batch_check(saved->shape, batch, reterr);
    if (status == BASE_OK) {
        status = check_logits(saved->shape, batch, also, reterr);
    }
    if (status == BASE_OK) {
        fill_tables(saved, batch, NULL, batch->targets, also);
    }
    return status;
}

static base_status check_lengths(const rank_shape *shape, const rank_batch *batch,
                                 const int32_t *lengths, base_error *reterr)
{
    for (int s = 0; s < batch->segment_count; s++) {
        const int32_t added = batch->segment_start[s + 1] - batch->segment_start[s];
        if (added < 1 || lengths[s] < 0 || lengths[s] > shape->config->context - added) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "step: sequence %d has %d tokens and gets %d, the context is %d", s,
                             (int)lengths[s], (int)added, shape->config->context);
        }
    }
    return BASE_OK;
}

base_status rank_rows_place_step(rank_saved *saved, const rank_batch *batch, const int32_t *lengths,
                                 const rank_logits *also, base_error *reterr)
{
    base_status status = rank_batch_check(saved->shape, batch, reterr);
    if (status == BASE_OK) {
        status = check_lengths(saved->shape, batch, lengths, reterr);
    }
    if (status == BASE_OK) {
        status = check_logits(saved->shape, batch, also, reterr);
    }
    if (status == BASE_OK) {
        fill_tables(saved, batch, lengths, NULL, also);
    }
    return status;
}

bool rank_next_segments(const rank_rows *rows, size_t rows_at_once, rank_segments *segments)
{
    const int32_t *start = rows->segment_start;
    const size_t first = segments->first + segments->count;
    size_t end = first;
    if (first == rows->segment_count) {
        return false;
    }
    if (rows->padded) {
        *segments = (rank_segments){.count = rows->segment_count, .row_count = rows->count};
        return true;
    }
    const int32_t row = start[first];
    while (end < rows->segment_count &&
           (end == first || (size_t)(start[end + 1] - row) <= rows_at_once)) {
        end++;
    }
    *segments = (rank_segments){.first = first,
                                .count = end - first,
                                .first_row = (size_t)row,
                                .row_count = (size_t)(start[end] - row)};
    return true;
}

static base_status make_tables(rank_saved *saved, base_error *reterr)
{
    const size_t tokens = saved->shape->token_count_max;
    const size_t segments = whole_count_max(saved->shape);
    const size_t size_bytes = LOSSES * sizeof(double) + saved->load_count * sizeof(rank_load) +
                              (4 * tokens + segments + 1) * sizeof(int32_t);
    const base_status status = saved->device.backend->alloc(saved->device.queue, RANK_MEMORY_HOST,
                                                            size_bytes, &saved->tables, reterr);
    if (status == BASE_OK) {
        point_at_tables(saved);
    }
    return status;
}

base_status rank_saved_create(const rank_shape *shape, const rank_device *device, rank_saved *saved,
                              base_error *reterr)
{
    const size_t context = (size_t)shape->config->context;
    const size_t tokens = shape->token_count_max;
    const size_t size_bytes = shape->config->family->saved_floats(shape) * sizeof(float);
    void *activations = NULL;
    *saved = (rank_saved){
        .device = *device,
        .shape = shape,
        .load_count = (size_t)(shape->end_layer - shape->first_layer) *
                      (size_t)rank_model_experts(shape->config).count,
    };
    const size_t whole = whole_count_max(shape);
    saved->rows.segment_max = context < whole ? context : whole;
    base_status status = make_tables(saved, reterr);
    if (status == BASE_OK && size_bytes > 0) {
        status = device->backend->alloc(device->queue, RANK_MEMORY_ACTIVATIONS, size_bytes,
                                        &activations, reterr);
        saved->activations = activations;
    }
    if (status != BASE_OK) {
        rank_saved_destroy(saved);
        return base_error_prepend(reterr, status, "model: activations of %zu tokens", tokens);
    }
    return BASE_OK;
}

void rank_saved_add_loads(const rank_saved *saved, double *loads)
{
    const bool routed = saved->loads != NULL && saved->rows.target_count > 0;
    for (size_t i = 0; routed && loads != NULL && i < saved->load_count; i++) {
        loads[i] += saved->loads[i].rows;
    }
}

void rank_saved_destroy(rank_saved *saved)
{
    if (saved->device.backend != NULL) {
        saved->device.backend->release(saved->device.queue, saved->tables);
        saved->device.backend->release(saved->device.queue, saved->activations);
    }
    *saved = (rank_saved){.loss = NULL};
}
