/* Encodes parts of texts. Called by encode.c. */
#include "encode_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum {
    TEXT_FIRST = 1 << 20, /* bytes */
    PARTS_FIRST = 64,
    IDS_FIRST = 1 << 18,
};

static base_status no_memory(base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokens of a text");
}

base_status rank_encode_batch_add(rank_encode_batch *batch, const rank_text_part *part,
                                  base_error *reterr)
{
    char *text = base_reserve(batch->text, batch->text_bytes, part->bytes, &batch->text_capacity,
                              TEXT_FIRST, 1);
    batch->text = text != NULL ? text : batch->text;
    rank_encode_part *parts = base_grow(batch->parts, batch->part_count, &batch->part_capacity,
                                        PARTS_FIRST, sizeof *parts);
    batch->parts = parts != NULL ? parts : batch->parts;
    if (text == NULL || parts == NULL) {
        return no_memory(reterr);
    }
    parts[batch->part_count++] = (rank_encode_part){.offset_bytes = batch->text_bytes,
                                                    .bytes = part->bytes,
                                                    .begins = part->begins,
                                                    .ends = part->ends};
    memcpy(batch->text + batch->text_bytes, part->at, part->bytes);
    batch->text_bytes += part->bytes;
    return BASE_OK;
}

static bool make_ids(rank_encode_batch *batch, size_t more)
{
    int32_t *ids = base_reserve(batch->ids, batch->id_count, more, &batch->id_capacity, IDS_FIRST,
                                sizeof *ids);
    batch->ids = ids != NULL ? ids : batch->ids;
    return ids != NULL;
}

static base_status put_ids(rank_encode_batch *batch, const int32_t *ids, size_t count,
                           base_error *reterr)
{
    if (!make_ids(batch, count)) {
        return no_memory(reterr);
    }
    for (size_t i = 0; i < count; i++) {
        batch->ids[batch->id_count++] = ids[i];
    }
    return BASE_OK;
}

static base_status put_text(rank_encode_batch *batch, const rank_encode_part *part,
                            rank_tokenizer *tokenizer, base_error *reterr)
{
    const rank_tokenizer_text text = {
        .at = batch->text + part->offset_bytes,
        .bytes = part->bytes,
        .place = part->begins ? RANK_TOKENIZER_BEGINS : RANK_TOKENIZER_GOES_ON,
    };
    for (size_t room = part->bytes / 2 + 1;;) {
        if (!make_ids(batch, room)) {
            return no_memory(reterr);
        }
        rank_ids ids = {.at = batch->ids + batch->id_count,
                        .capacity = batch->id_capacity - batch->id_count};
        const base_status status = rank_tokenizer_encode_text(tokenizer, &text, &ids, reterr);
        if (status != BASE_OK || ids.count <= ids.capacity) {
            batch->id_count += status == BASE_OK ? ids.count : 0;
            return status;
        }
        room = ids.count;
    }
}

static base_status encode_part(rank_encode_batch *batch, const rank_encode_part *part,
                               rank_tokenizer *tokenizer, base_error *reterr)
{
    size_t prefix_count = 0;
    const int32_t *prefix = rank_tokenizer_prefix(tokenizer, &prefix_count);
    const int32_t end = rank_tokenizer_end_id(tokenizer);
    base_status status = part->begins ? put_ids(batch, prefix, prefix_count, reterr) : BASE_OK;
    status = status == BASE_OK ? put_text(batch, part, tokenizer, reterr) : status;
    return status == BASE_OK && part->ends ? put_ids(batch, &end, 1, reterr) : status;
}

void rank_encode_batch_run(rank_encode_batch *batch, rank_tokenizer *tokenizer)
{
    batch->id_count = 0;
    batch->status = BASE_OK;
    for (size_t i = 0; batch->status == BASE_OK && i < batch->part_count; i++) {
        batch->status = encode_part(batch, &batch->parts[i], tokenizer, &batch->error);
    }
}

void rank_encode_batch_clear(rank_encode_batch *batch)
{
    batch->text_bytes = 0;
    batch->part_count = 0;
    batch->id_count = 0;
}

void rank_encode_batch_fini(rank_encode_batch *batch)
{
    free(batch->text);
    free(batch->parts);
    free(batch->ids);
    memset(batch, 0, sizeof *batch);
}
