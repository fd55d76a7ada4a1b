/* The vocabulary that merges of bytes make, as it is learned and written: without files.
 *
 * Ids 0 … 255 are the bytes. Id 256 + m is the result of merge m. The last id is the end token,
 * which has no bytes. A merge joins two ids that are smaller than its own.
 *
 * In corpus-gen's tokenizer merges never cross the bounds of a piece: a word with the one space before it, or a
 * run of spaces (the regular expression " ?[^ ]+| +"). Only U+0020 is a space here.
 *
 * A rank_bpe does not change after it is built. Any number of threads may read it. */
#ifndef RANK_BPE_H
#define RANK_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    RANK_BPE_BYTES = 256,
    RANK_BPE_MERGES_MAX = (1 << 16) - RANK_BPE_BYTES - 1, /* an id has 16 bits */
    RANK_BPE_TOKEN_BYTES_MAX = 128,
    RANK_BPE_GLYPH_BYTES = 2, /* the longest byte glyph in UTF-8 */
};

typedef struct rank_bpe_pair {
    uint16_t left;
    uint16_t right;
} rank_bpe_pair;

typedef struct rank_bpe {
    int merge_count;
    rank_bpe_pair *merges;  /* (merge_count) */
    uint32_t *token_offset; /* (256 + merge_count + 1), into token_bytes */
    uint8_t *token_bytes;   /* all tokens' bytes, end to end */
} rank_bpe;

/* Builds from merges in rank order, which are copied. Each uses ids that exist before it, and makes a token of
 * RANK_BPE_TOKEN_BYTES_MAX at most. BASE_ERR_LIMIT, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_bpe_init(rank_bpe *bpe, const rank_bpe_pair *merges,
                                          int merge_count, base_error *reterr);
void rank_bpe_fini(rank_bpe *bpe);

static inline int rank_bpe_end_id(const rank_bpe *bpe)
{
    return RANK_BPE_BYTES + bpe->merge_count;
}

/* A token's bytes and their number. The end token and ids outside the vocabulary have none. */
const uint8_t *rank_bpe_token(const rank_bpe *bpe, int32_t id, size_t *size_bytes);

/* How many bytes the first piece of text has; text_bytes > 0. */
size_t rank_bpe_piece_bytes(const char *text, size_t text_bytes);

/* GPT-2's printable character for a byte, as UTF-8, not terminated. Returns how many bytes it has,
 * 1 or 2. */
size_t rank_bpe_glyph(uint8_t byte, char glyph[RANK_BPE_GLYPH_BYTES]);

#endif
