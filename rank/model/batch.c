#include "model/state.h"

static base_status check_segments(const rank_model *model, const rank_batch *batch,
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
        /* An end beyond the batch shows up as a later segment that falls. */
        if (start[i + 1] < start[i] || start[i + 1] > batch->token_count) {
            return base_fail(reterr, BASE_ERR_INVALID, "batch: segment %d is %d … %d", i,
                             (int)start[i], (int)start[i + 1]);
        }
        if (start[i + 1] - start[i] > model->config.context) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "batch: segment %d has %d tokens, the context is %d", i,
                             (int)(start[i + 1] - start[i]), model->config.context);
        }
    }
    return BASE_OK;
}

base_status rank_batch_check(const rank_model *model, const rank_batch *batch, base_error *reterr)
{
    if (batch->token_count < 0 || (size_t)batch->token_count > model->token_count_max) {
        return base_fail(reterr, BASE_ERR_INVALID, "batch: %d tokens, the model takes 0 … %zu",
                         batch->token_count, model->token_count_max);
    }
    const int32_t vocab_size = (int32_t)model->config.vocab_size;
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
    return check_segments(model, batch, reterr);
}

bool rank_next_segments(const rank_model *model, segment_chunk *chunk)
{
    const rank_batch *batch = model->batch;
    const size_t first = chunk->first + chunk->count;
    size_t end = first;
    if (first == (size_t)batch->segment_count) {
        return false;
    }
    const int32_t row = batch->segment_start[first];
    while (end < (size_t)batch->segment_count &&
           (end == first || batch->segment_start[end + 1] - row <= ROW_CHUNK)) {
        end++;
    }
    chunk->first = first;
    chunk->count = end - first;
    chunk->rows = (row_chunk){(size_t)row, (size_t)(batch->segment_start[end] - row)};
    return true;
}

size_t rank_model_set_active(rank_model *model, const int32_t *also, size_t also_count)
{
    const rank_batch *batch = model->batch;
    size_t count = 0;
    size_t target_count = 0;
    for (int32_t t = 0; t < batch->token_count; t++) {
        const int32_t target = batch->targets != NULL ? batch->targets[t] : -1;
        const int asked = also_count > 0 && *also == t;
        if (asked) {
            also++;
            also_count--;
        }
        if (asked || target >= 0) {
            model->active[count] = t;
            model->active_targets[count] = target;
            count++;
        }
        target_count += target >= 0;
    }
    model->active_count = count;
    return target_count;
}
