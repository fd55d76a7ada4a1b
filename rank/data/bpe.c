/* Byte-pair encoding without files: builds the merge tables and merges one piece. Called by
 * tokenizer.c, tokenizer_file.c and corpus-gen. */
#include "bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { TABLE_ENTRIES_MIN = 64, NO_MERGE = -1 };

struct rank_bpe_entry {
    uint32_t pair; /* left << 16 | right */
    int32_t merge; /* NO_MERGE: free */
};

static uint32_t pair_key(uint16_t left, uint16_t right)
{
    return (uint32_t)left << 16 | right;
}

static struct rank_bpe_entry *find_entry(const rank_bpe *bpe, uint32_t pair)
{
    uint32_t at = (pair * UINT32_C(0x9e3779b1)) >> 7 & bpe->table_mask;
    while (bpe->table[at].merge != NO_MERGE && bpe->table[at].pair != pair) {
        at = (at + 1) & bpe->table_mask;
    }
    return &bpe->table[at];
}

static bool allocate(rank_bpe *bpe, int merge_count)
{
    uint32_t entries = TABLE_ENTRIES_MIN;
    while (entries < 4 * (uint32_t)merge_count) {
        entries *= 2;
    }
    bpe->table_mask = entries - 1;
    bpe->merges = calloc((size_t)merge_count + 1, sizeof *bpe->merges);
    bpe->token_offset =
        calloc((size_t)RANK_BPE_BYTES + (size_t)merge_count + 1, sizeof *bpe->token_offset);
    bpe->table = malloc(entries * sizeof *bpe->table);
    if (bpe->merges == NULL || bpe->token_offset == NULL || bpe->table == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < entries; i++) {
        bpe->table[i] = (struct rank_bpe_entry){.merge = NO_MERGE};
    }
    return true;
}

/* Checks merge m against the tokens before it, and enters it. fill_bytes adds its bytes. */
static base_status add_merge(rank_bpe *bpe, rank_bpe_pair pair, int m, base_error *reterr)
{
    const int id = RANK_BPE_BYTES + m;
    if (pair.left >= id || pair.right >= id) {
        return base_fail(reterr, BASE_ERR_INVALID, "merge %d uses a token made after it", m);
    }
    struct rank_bpe_entry *entry = find_entry(bpe, pair_key(pair.left, pair.right));
    if (entry->merge != NO_MERGE) {
        return base_fail(reterr, BASE_ERR_INVALID, "merge %d is merge %d again", m, entry->merge);
    }
    const uint32_t left_bytes = bpe->token_offset[pair.left + 1] - bpe->token_offset[pair.left];
    const uint32_t right_bytes = bpe->token_offset[pair.right + 1] - bpe->token_offset[pair.right];
    if (left_bytes + right_bytes > RANK_BPE_TOKEN_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "merge %d makes a token of more than %d bytes",
                         m, (int)RANK_BPE_TOKEN_BYTES_MAX);
    }
    entry->pair = pair_key(pair.left, pair.right);
    entry->merge = m;
    bpe->merges[m] = pair;
    if (pair.left < RANK_BPE_BYTES && pair.right < RANK_BPE_BYTES) {
        const unsigned bit = (unsigned)pair.left * RANK_BPE_BYTES + pair.right;
        bpe->byte_pairs[bit / 8] |= (uint8_t)(1U << bit % 8);
    }
    bpe->token_offset[id + 1] = bpe->token_offset[id] + left_bytes + right_bytes;
    return BASE_OK;
}

static base_status fill_bytes(rank_bpe *bpe, base_error *reterr)
{
    const int tokens = RANK_BPE_BYTES + bpe->merge_count;
    bpe->token_bytes = malloc(bpe->token_offset[tokens]);
    if (bpe->token_bytes == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokenizer");
    }
    for (int id = 0; id < RANK_BPE_BYTES; id++) {
        bpe->token_bytes[id] = (uint8_t)id;
    }
    for (int m = 0; m < bpe->merge_count; m++) {
        uint8_t *to = bpe->token_bytes + bpe->token_offset[RANK_BPE_BYTES + m];
        const int parts[2] = {bpe->merges[m].left, bpe->merges[m].right};
        for (int i = 0; i < 2; i++) {
            const uint32_t from = bpe->token_offset[parts[i]];
            const uint32_t size = bpe->token_offset[parts[i] + 1] - from;
            memcpy(to, bpe->token_bytes + from, size);
            to += size;
        }
    }
    return BASE_OK;
}

base_status rank_bpe_init(rank_bpe *bpe, const rank_bpe_pair *merges, int merge_count,
                          base_error *reterr)
{
    memset(bpe, 0, sizeof *bpe);
    if (merge_count < 0 || merge_count > RANK_BPE_MERGES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%d merges, at most %d are taken", merge_count,
                         (int)RANK_BPE_MERGES_MAX);
    }
    if (!allocate(bpe, merge_count)) {
        rank_bpe_fini(bpe);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokenizer");
    }
    for (uint32_t id = 0; id < RANK_BPE_BYTES; id++) {
        bpe->token_offset[id + 1] = id + 1;
    }
    base_status status = BASE_OK;
    for (int m = 0; m < merge_count && status == BASE_OK; m++) {
        status = add_merge(bpe, merges[m], m, reterr);
    }
    bpe->merge_count = merge_count;
    if (status == BASE_OK) {
        status = fill_bytes(bpe, reterr);
    }
    if (status != BASE_OK) {
        rank_bpe_fini(bpe);
    }
    return status;
}

void rank_bpe_fini(rank_bpe *bpe)
{
    free(bpe->merges);
    free(bpe->token_offset);
    free(bpe->token_bytes);
    free(bpe->table);
    memset(bpe, 0, sizeof *bpe);
}

const uint8_t *rank_bpe_token(const rank_bpe *bpe, int32_t id, size_t *size_bytes)
{
    *size_bytes = 0;
    if (id < 0 || id >= rank_bpe_end_id(bpe)) {
        return bpe->token_bytes;
    }
    *size_bytes = bpe->token_offset[id + 1] - bpe->token_offset[id];
    return bpe->token_bytes + bpe->token_offset[id];
}

/* Replaces every occurrence of the merge's pair, left to right. Returns the ids left. */
static size_t apply_merge(rank_bpe_pair pair, uint16_t made, uint16_t *ids, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && ids[i] == pair.left && ids[i + 1] == pair.right) {
            ids[kept++] = made;
            i++;
        } else {
            ids[kept++] = ids[i];
        }
    }
    return kept;
}

size_t rank_bpe_merge_piece(const rank_bpe *bpe, uint16_t *ids, size_t count)
{
    for (;;) {
        int32_t first = INT32_MAX;
        for (size_t i = 0; i + 1 < count; i++) {
            const int32_t merge = find_entry(bpe, pair_key(ids[i], ids[i + 1]))->merge;
            first = merge != NO_MERGE && merge < first ? merge : first;
        }
        if (first == INT32_MAX) {
            return count;
        }
        count = apply_merge(bpe->merges[first], (uint16_t)(RANK_BPE_BYTES + first), ids, count);
    }
}

size_t rank_bpe_piece_bytes(const char *text, size_t text_bytes)
{
    BASE_ASSERT(text_bytes > 0);
    size_t at = 0;
    while (at < text_bytes && text[at] == ' ') {
        at++;
    }
    if (at > 1 || at == text_bytes) {
        return at;
    }
    while (at < text_bytes && text[at] != ' ') {
        at++;
    }
    return at;
}

size_t rank_bpe_count_bound(const rank_bpe *bpe, const char *text, size_t text_bytes)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t pairs = 0;
    for (size_t i = 0; i + 1 < text_bytes; i++) {
        const unsigned bit = (unsigned)bytes[i] * RANK_BPE_BYTES + bytes[i + 1];
        /* the space between two pieces may be left out */
        const bool one_piece =
            bytes[i + 1] != ' ' && (bytes[i] != ' ' || i == 0 || bytes[i - 1] != ' ');
        if (one_piece && (bpe->byte_pairs[bit / 8] >> bit % 8 & 1) != 0) {
            pairs++;
            i++;
        }
    }
    return text_bytes - (pairs + 1) / 2;
}

static bool stands_for_itself(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* GPT-2's alphabet: the bytes that print as Latin-1 stand for themselves, the others are numbered
 * from U+0100 on, in byte order. */
static unsigned glyph_codepoint(unsigned byte)
{
    if (stands_for_itself(byte)) {
        return byte;
    }
    unsigned before = 0;
    for (unsigned b = 0; b < byte; b++) {
        before += !stands_for_itself(b);
    }
    return 0x100 + before;
}

size_t rank_bpe_glyph(uint8_t byte, char glyph[RANK_BPE_GLYPH_BYTES])
{
    const unsigned codepoint = glyph_codepoint(byte);
    if (codepoint < 0x80) {
        glyph[0] = (char)codepoint;
        return 1;
    }
    glyph[0] = (char)(0xc0 | codepoint >> 6);
    glyph[1] = (char)(0x80 | (codepoint & 0x3f));
    return 2;
}
