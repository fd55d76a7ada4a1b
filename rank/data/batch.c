/* Cuts a slot's sentences into batches of tokens. Called by train/ for training and for the held-out
 * loss. */
#include <stddef.h>

#include "base/assert.h"
#include "data_parts.h"

/* Copies a sentence to the batch's end, if it fits there. */
static bool place(rank_data *data, const sentence *one)
{
    data_batch *batch = &data->batch;
    const size_t at = (size_t)batch->segment_start[batch->segments];
    const int32_t *ids = data->ids + one->offset;
    if (one->count > (size_t)data->options.batch * (size_t)data->options.context - at) {
        return false;
    }
    for (size_t i = 0; i < one->count; i++) {
        batch->ids[at + i] = ids[i] < 0 ? ~ids[i] : ids[i];
        batch->targets[at + i] = ids[i + 1] < 0 ? -1 : ids[i + 1];
    }
    batch->segment_start[++batch->segments] = (int32_t)(at + one->count);
    return true;
}

void rank_data_next_batch(rank_data *data, int slot_index, rank_batch *batch)
{
    BASE_ASSERT(slot_index >= 0);
    BASE_ASSERT(slot_index < data->options.slots_here);
    slot_state *slot = &data->slots[slot_index];
    data_batch *made = &data->batch;
    bool fits = true;
    made->segments = 0;
    made->segment_start[0] = 0;
    while (fits && slot->next < slot->count) {
        const sentence *one = rank_data_sentence(data, slot_index, slot->next);
        fits = one->too_long || place(data, one);
        slot->next += fits ? 1 : 0;
    }
    data->handed_out += (uint64_t)made->segments;
    *batch = (rank_batch){.token_count = made->segment_start[made->segments],
                          .ids = made->ids,
                          .targets = made->targets,
                          .segment_count = made->segments,
                          .segment_start = made->segment_start};
}
