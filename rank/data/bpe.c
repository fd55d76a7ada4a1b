/* The vocabulary that merges make. Called by tokenizer_file.c, corpus-gen and tokenizer-learn. */
#include "bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static bool allocate(rank_bpe *bpe, int merge_count)
{
    bpe->merges = calloc((size_t)merge_count + 1, sizeof *bpe->merges);
    bpe->token_offset =
        calloc((size_t)RANK_BPE_BYTES + (size_t)merge_count + 1, sizeof *bpe->token_offset);
    return bpe->merges != NULL && bpe->token_offset != NULL;
}

static void add_merge(rank_bpe *bpe, rank_bpe_pair pair, int m)
{
    const int id = RANK_BPE_BYTES + m;
    BASE_ASSERT(pair.left < id);
    BASE_ASSERT(pair.right < id);
    const uint32_t left_bytes = bpe->token_offset[pair.left + 1] - bpe->token_offset[pair.left];
    const uint32_t right_bytes = bpe->token_offset[pair.right + 1] - bpe->token_offset[pair.right];
    BASE_ASSERT(left_bytes + right_bytes <= RANK_BPE_TOKEN_BYTES_MAX);
    bpe->merges[m] = pair;
    bpe->token_offset[id + 1] = bpe->token_offset[id] + left_bytes + right_bytes;
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
    for (int m = 0; m < merge_count; m++) {
        add_merge(bpe, merges[m], m);
    }
    bpe->merge_count = merge_count;
    const base_status status = fill_bytes(bpe, reterr);
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
