/* Byte-pair encoding over bytes: the arithmetic, without files.
 *
 * Ids 0 … 255 are the bytes. Id 256 + m is the result of merge m. The last id is the end token,
 * which has no bytes. A merge joins two ids that are smaller than its own. So the merge with the
 * smallest rank can be applied everywhere before the next one, and a word takes at most one pass
 * for each merge that occurs in it.
 *
 * Merges never cross the bounds of a piece: a word with the one space before it, or a run of spaces
 * (the regular expression " ?[^ ]+| +"). Only U+0020 is a space here.
 *
 * Only rank_bpe_piece_bytes knows how pieces are cut; the merges work on pieces of any kind.
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
    rank_bpe_pair *merges;        /* (merge_count) */
    uint32_t *token_offset;       /* (256 + merge_count + 1), into token_bytes */
    uint8_t *token_bytes;         /* all tokens' bytes, end to end */
    uint32_t table_mask;          /* entries - 1, a power of two less one */
    struct rank_bpe_entry *table; /* pair -> merge, open addressing */
    uint8_t byte_pairs[RANK_BPE_BYTES * RANK_BPE_BYTES / 8]; /* bit left × 256 + right: a merge */
} rank_bpe;

/* Builds from merges in rank order, which are copied. BASE_ERR_INVALID if a merge uses an id that
 * does not exist before it, occurs twice, or makes a token above RANK_BPE_TOKEN_BYTES_MAX. */
BASE_MUST_CHECK base_status rank_bpe_init(rank_bpe *bpe, const rank_bpe_pair *merges,
                                          int merge_count, base_error *reterr);
void rank_bpe_fini(rank_bpe *bpe);

static inline int rank_bpe_vocab_size(const rank_bpe *bpe)
{
    return RANK_BPE_BYTES + bpe->merge_count + 1;
}

static inline int rank_bpe_end_id(const rank_bpe *bpe)
{
    return RANK_BPE_BYTES + bpe->merge_count;
}

/* A token's bytes and their number. The end token and ids outside the vocabulary have none. */
const uint8_t *rank_bpe_token(const rank_bpe *bpe, int32_t id, size_t *size_bytes);

/* Merges one piece in place. ids holds its bytes as ids, and is shortened. Returns how many ids are
 * left. */
size_t rank_bpe_merge_piece(const rank_bpe *bpe, uint16_t *ids, size_t count);

/* An upper bound of the number of ids, from one pass over the text. When merging has ended, no two
 * neighbours are single bytes that a merge joins. So of every such pair in the text, a longer token
 * has taken a byte. Of m pairs that share no byte, at least m / 2 bytes are saved. */
size_t rank_bpe_count_bound(const rank_bpe *bpe, const char *text, size_t text_bytes);

/* How many bytes the first piece of text has; text_bytes > 0. */
size_t rank_bpe_piece_bytes(const char *text, size_t text_bytes);

/* GPT-2's printable character for a byte, as UTF-8, not terminated. Returns how many bytes it has,
 * 1 or 2. */
size_t rank_bpe_glyph(uint8_t byte, char glyph[RANK_BPE_GLYPH_BYTES]);

#endif
