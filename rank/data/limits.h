/* Limits of the data directory. */
#ifndef RANK_DATA_LIMITS_H
#define RANK_DATA_LIMITS_H

#include "base/limits.h"

enum {
    RANK_DATA_LINE_BYTES_MAX = BASE_JSON_LINE_BYTES,
    RANK_DATA_SENTENCES_MAX = 1 << 28, /* in one file */
    RANK_DATA_SLOTS_MAX = 1 << 16,     /* ranks × micro-batches; at least BASE_RANKS_MAX */
    RANK_DATA_BATCH_TOKENS_MAX = 1 << 24,
    RANK_DATA_READ_BYTES = 1 << 18,  /* one read(2) of the file */
    RANK_DATA_BLOCK_BYTES = 1 << 20, /* of a plain text, tokenized at once */
};

_Static_assert((int)RANK_DATA_SLOTS_MAX >= (int)BASE_RANKS_MAX, "every rank needs a slot");
_Static_assert((int)RANK_DATA_READ_BYTES <= (int)RANK_DATA_LINE_BYTES_MAX,
               "the line buffer is at least one read long");

#endif
