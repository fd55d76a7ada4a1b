/* Parts of texts that a thread encodes at one time. Each part is encoded by itself, as a training does it
 * (data/windows.h): so the tokens do not depend on the threads. One thread at a time. */
#ifndef RANK_TOKENIZER_ENCODE_BATCH_H
#define RANK_TOKENIZER_ENCODE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/status.h"
#include "data/text_parts.h"
#include "rank/tokenizer.h"

/* A part, and where its bytes are. */
typedef struct rank_encode_part {
    size_t offset_bytes;
    size_t bytes;
    bool begins; /* what the tokenizer puts before a text stands before it, */
    bool ends;   /* or the end token behind it */
} rank_encode_part;

/* Zeroed: an empty one. */
typedef struct rank_encode_batch {
    char *text;
    size_t text_bytes;
    size_t text_capacity;
    rank_encode_part *parts;
    size_t part_count;
    size_t part_capacity;
    int32_t *ids;
    size_t id_count;
    size_t id_capacity;
    base_status status; /* of the last rank_encode_batch_run */
    base_error error;
} rank_encode_batch;

/* Copies a part. BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_encode_batch_add(rank_encode_batch *batch,
                                                  const rank_text_part *part, base_error *reterr);

/* ids = the tokens of all parts, and sets status. */
void rank_encode_batch_run(rank_encode_batch *batch, rank_tokenizer *tokenizer);

/* Empties it, and keeps its memory. */
void rank_encode_batch_clear(rank_encode_batch *batch);
void rank_encode_batch_fini(rank_encode_batch *batch);

#endif
