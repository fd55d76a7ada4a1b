/* Cuts a slot's sentences into batches of tokens. Called by train/ for training and for the held-out
 * loss. */
#include <stddef.h>

#include "base/assert.h"
#include "data_parts.h"
#include "token_file.h"

/* The tokens of a sentence, and the one behind it, until the next call. */
static base_status find_ids(const rank_data *data, const sentence *one, const int32_t **ids,
                            base_error *reterr)
{
    if (data->tokens == NULL) {
        *ids = data->ids + one->offset;
        return BASE_OK;
    }
    *ids = data->batch.window;
    return rank_token_file_read(data->tokens, one->offset, (size_t)one->count + 1,
                                rank_tokenizer_vocab_size(data->options.tokenizer),
                                data->batch.window, reterr);
}

/* Copies a sentence to the batch's end, if it fits there. */
static base_status place(rank_data *data, const sentence *one, bool *fits, base_error *reterr)
{
    data_batch *batch = &data->batch;
    const size_t at = (size_t)batch->segment_start[batch->segments];
    const int32_t *ids = NULL;
    *fits = one->count <= (size_t)data->options.batch * (size_t)data->options.context - at;
    const base_status status = *fits ? find_ids(data, one, &ids, reterr) : BASE_OK;
    if (status != BASE_OK || !*fits) {
        return status;
    }
    for (size_t i = 0; i < one->count; i++) {
        batch->ids[at + i] = ids[i] < 0 ? ~ids[i] : ids[i];
        batch->targets[at + i] = ids[i + 1] < 0 ? -1 : ids[i + 1];
    }
    batch->segment_start[++batch->segments] = (int32_t)(at + one->count);
    return BASE_OK;
}

base_status rank_data_next_batch(rank_data *data, int slot_index, rank_batch *batch,
                                 base_error *reterr)
{
    BASE_ASSERT(slot_index >= 0);
    BASE_ASSERT(slot_index < data->options.slots_here);
    slot_state *slot = &data->slots[slot_index];
    data_batch *made = &data->batch;
    base_status status = BASE_OK;
    bool fits = true;
    made->segments = 0;
    made->segment_start[0] = 0;
    while (status == BASE_OK && fits && slot->next < slot->count) {
        const sentence one = rank_data_sentence(data, slot_index, slot->next);
        status = one.too_long ? BASE_OK : place(data, &one, &fits, reterr);
        slot->next += status == BASE_OK && fits ? 1 : 0;
    }
    data->handed_out += (uint64_t)made->segments;
    *batch = (rank_batch){.token_count = made->segment_start[made->segments],
                          .ids = made->ids,
                          .targets = made->targets,
                          .segment_count = made->segments,
                          .segment_start = made->segment_start};
    return status;
}
