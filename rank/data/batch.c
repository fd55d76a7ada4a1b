/* Cuts a slot's sentences into batches of tokens. Called by train/ for training and for the held-out
 * loss. */
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "data_parts.h"
#include "record.h"

/* Sets the targets of a sentence whose `count` tokens are at `at`: each token's target is the next
 * token, the last one's the end token. The first `masked` tokens are not targets, because only the
 * correction counts. */
static void set_targets(const rank_data *data, data_batch *batch, size_t at, size_t count,
                        size_t masked)
{
    for (size_t i = 0; i < count; i++) {
        const int32_t next =
            i + 1 < count ? batch->ids[at + i + 1] : rank_tokenizer_end_id(data->options.tokenizer);
        batch->targets[at + i] = i + 1 < masked ? -1 : next;
    }
}

/* Copies the tokens that the tokenizer puts before a text, as many as fit. Returns how many they are. */
static size_t place_prefix(const rank_data *data, int32_t *to, size_t left)
{
    size_t count = 0;
    const int32_t *prefix = rank_tokenizer_prefix(data->options.tokenizer, &count);
    for (size_t i = 0; i < count && i < left; i++) {
        to[i] = prefix[i];
    }
    return count;
}

/* Tokenizes a sentence to the batch's end, if its tokens fit there. *count is how many they are. Our
 * own tokenizer ends a piece with the arrow, so both halves give the same tokens as the whole; with
 * another one they may not, and context.c measures the halves. Tokens that stand before each text, as
 * before a prompt, are no targets. */
static base_status place_sentence(const rank_data *data, const sentence *one, data_batch *batch,
                                  size_t *count, base_error *reterr)
{
    const size_t at = (size_t)batch->segment_start[batch->segments];
    size_t left = (size_t)data->options.batch * (size_t)data->options.context - at;
    const char *text = data->texts + one->offset;
    rank_tokenizer *tokenizer = data->options.tokenizer;
    const size_t split =
        data->options.loss_on_correction ? rank_record_arrow_end(text, one->count) : 0;
    const size_t before = place_prefix(data, batch->ids + at, left);
    if (before >= left) {
        *count = left + 1; /* of the text there is a token, too */
        return BASE_OK;
    }
    left -= before;
    rank_ids masked = {.at = batch->ids + at + before, .capacity = left};
    rank_ids rest = {.capacity = 0};
    base_status status = rank_tokenizer_encode(tokenizer, text, split, &masked, reterr);
    if (status == BASE_OK && masked.count <= left) {
        rest = (rank_ids){.at = masked.at + masked.count, .capacity = left - masked.count};
        status = rank_tokenizer_encode(tokenizer, text + split, one->count - split, &rest, reterr);
    }
    *count = before + masked.count + rest.count;
    if (status == BASE_OK && *count <= before + left) {
        set_targets(data, batch, at, *count, before + masked.count);
    }
    return status;
}

/* Copies what is encoded to the batch's end, if it fits there. *count is how many inputs it has. */
static void place_encoded(const rank_data *data, const sentence *one, const data_batch *batch,
                          size_t *count)
{
    const size_t at = (size_t)batch->segment_start[batch->segments];
    const size_t left = (size_t)data->options.batch * (size_t)data->options.context - at;
    const int32_t *ids = data->ids + one->offset;
    *count = one->count;
    for (size_t i = 0; *count <= left && i < *count; i++) {
        batch->ids[at + i] = ids[i] < 0 ? ~ids[i] : ids[i];
        batch->targets[at + i] = ids[i + 1] < 0 ? -1 : ids[i + 1];
    }
}

/* A segment has at least one token. A sentence that fits into no batch would stop its slot for ever. */
static base_status check_count(const rank_data *data, size_t count, base_error *reterr)
{
    const int context = data->options.context;
    if (count == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "the tokenizer has no token for a sentence");
    }
    return count <= (size_t)context
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "a sentence of %zu tokens was to fit into a context of %d", count,
                           context);
}

/* Makes the slot's batch from its next sentence on. */
static base_status make_batch(const rank_data *data, int slot_index, data_batch *batch,
                              base_error *reterr)
{
    const slot_state *slot = &data->slots[slot_index];
    const size_t room = (size_t)data->options.batch * (size_t)data->options.context;
    batch->slot = slot_index;
    batch->first = slot->next;
    batch->segments = 0;
    batch->segment_start[0] = 0;
    for (batch->end = slot->next; batch->end < slot->count; batch->end++) {
        const sentence *one = rank_data_sentence(data, slot_index, batch->end);
        const size_t used = (size_t)batch->segment_start[batch->segments];
        size_t count = 0;
        if (one->too_long) {
            continue;
        }
        base_status status = BASE_OK;
        if (one->encoded) {
            place_encoded(data, one, batch, &count);
        } else {
            status = place_sentence(data, one, batch, &count, reterr);
        }
        status = status == BASE_OK ? check_count(data, count, reterr) : status;
        if (status != BASE_OK) {
            batch->segments = 0;
            return status;
        }
        if (count > room - used) {
            break;
        }
        batch->segment_start[++batch->segments] = (int32_t)(used + count);
    }
    return BASE_OK;
}

/* An error comes again when the batch is asked for. */
void rank_data_look_ahead(rank_data *data, int slot_index)
{
    BASE_ASSERT(slot_index >= 0);
    BASE_ASSERT(slot_index < data->options.slots_here);
    (void)make_batch(data, slot_index, &data->ahead, NULL);
}

base_status rank_data_next_batch(rank_data *data, int slot_index, rank_batch *batch,
                                 base_error *reterr)
{
    BASE_ASSERT(slot_index >= 0);
    BASE_ASSERT(slot_index < data->options.slots_here);
    slot_state *slot = &data->slots[slot_index];
    if (data->ahead.segments > 0 && data->ahead.slot == slot_index &&
        data->ahead.first == slot->next) {
        const data_batch ahead = data->ahead;
        data->ahead = data->last;
        data->ahead.segments = 0;
        data->last = ahead;
    } else {
        const base_status status = make_batch(data, slot_index, &data->last, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    const data_batch *made = &data->last;
    slot->next = made->end;
    data->handed_out += (uint64_t)made->segments;
    *batch = (rank_batch){.token_count = made->segment_start[made->segments],
                          .ids = made->ids,
                          .targets = made->targets,
                          .segment_count = made->segments,
                          .segment_start = made->segment_start};
    return BASE_OK;
}
