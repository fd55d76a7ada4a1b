/* Encodes and decodes text, with a cache of pieces already encoded. Called by data.c, and by
 * generate/ for prompts and answers. */
#include "rank/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "bpe.h"
#include "hub.h"
#include "tokenizer_file.h"

enum {
    CACHE_ENTRIES = 16384, /* a power of two; a set has two, and replaces the older one */
    CACHE_TEXT_BYTES = 22,
    CACHE_IDS = 20,
    SCRATCH_IDS_MIN = 256,
    TEXT_BYTES_MAX = 1 << 30,
};

typedef struct cache_entry {
    uint8_t text_bytes; /* 0: empty */
    uint8_t id_count;
    char text[CACHE_TEXT_BYTES];
    uint16_t ids[CACHE_IDS];
} cache_entry;

struct rank_tokenizer {
    rank_hub *hub; /* NULL: one of ours */
    bool special;  /* with hub: texts may have added tokens */
    rank_bpe bpe;
    uint16_t *scratch; /* (scratch_capacity), grows to the longest piece seen */
    size_t scratch_capacity;
    cache_entry cache[CACHE_ENTRIES];
};

static base_status read_file(const char *path, rank_tokenizer *made, base_error *reterr)
{
    void *data = NULL;
    size_t size_bytes = 0;
    json_error_t flaw;
    base_status status =
        base_file_read_regular(path, RANK_TOKENIZER_FILE_BYTES_MAX, &data, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_t *root = json_loadb(data, size_bytes, JSON_REJECT_DUPLICATES, &flaw);
    free(data);
    if (root == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "line %d: %s", flaw.line, flaw.text);
    }
    status = rank_tokenizer_is_ours(root) ? rank_tokenizer_take(root, &made->bpe, reterr)
                                          : rank_hub_create(root, &made->hub, reterr);
    json_decref(root);
    return status;
}

base_status rank_tokenizer_load(const char *path, rank_tokenizer **tokenizer, base_error *reterr)
{
    *tokenizer = NULL;
    rank_tokenizer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokenizer");
    }
    const base_status status = read_file(path, made, reterr);
    if (status != BASE_OK) {
        free(made);
        return base_error_prepend(reterr, status, "%s", path);
    }
    *tokenizer = made;
    return BASE_OK;
}

void rank_tokenizer_destroy(rank_tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    rank_hub_destroy(tokenizer->hub);
    rank_bpe_fini(&tokenizer->bpe);
    free(tokenizer->scratch);
    free(tokenizer);
}

bool rank_tokenizer_is_own(const rank_tokenizer *tokenizer)
{
    return tokenizer->hub == NULL;
}

int rank_tokenizer_vocab_size(const rank_tokenizer *tokenizer)
{
    return tokenizer->hub != NULL ? rank_hub_vocab_size(tokenizer->hub)
                                  : rank_bpe_vocab_size(&tokenizer->bpe);
}

int32_t rank_tokenizer_end_id(const rank_tokenizer *tokenizer)
{
    return tokenizer->hub != NULL ? rank_hub_end_id(tokenizer->hub)
                                  : rank_bpe_end_id(&tokenizer->bpe);
}

const char *rank_tokenizer_end_token(const rank_tokenizer *tokenizer)
{
    return tokenizer->hub != NULL ? rank_hub_end_token(tokenizer->hub) : RANK_TOKENIZER_END_TOKEN;
}

size_t rank_tokenizer_count_bound(const rank_tokenizer *tokenizer, const char *text,
                                  size_t text_bytes)
{
    return tokenizer->hub != NULL ? rank_hub_count_bound(tokenizer->hub, text, text_bytes)
                                  : rank_bpe_count_bound(&tokenizer->bpe, text, text_bytes);
}

const int32_t *rank_tokenizer_prefix(const rank_tokenizer *tokenizer, size_t *count)
{
    *count = 0;
    return tokenizer->hub != NULL ? rank_hub_prefix(tokenizer->hub, count) : NULL;
}

int32_t rank_tokenizer_added_id(const rank_tokenizer *tokenizer, const char *name)
{
    return tokenizer->hub != NULL ? rank_hub_added_id(tokenizer->hub, name) : -1;
}

void rank_tokenizer_make_special(rank_tokenizer *tokenizer, int32_t id)
{
    if (tokenizer->hub != NULL) {
        rank_hub_make_special(tokenizer->hub, id);
    }
}

void rank_tokenizer_allow_special(rank_tokenizer *tokenizer)
{
    tokenizer->special = true;
}

/* The piece's set, by its first and last eight (or four) bytes and its length. */
static cache_entry *cache_set(rank_tokenizer *tokenizer, const char *piece, size_t piece_bytes)
{
    uint64_t first = 0;
    uint64_t last = 0;
    if (piece_bytes >= sizeof first) {
        memcpy(&first, piece, sizeof first);
        memcpy(&last, piece + piece_bytes - sizeof last, sizeof last);
    } else if (piece_bytes >= sizeof(uint32_t)) {
        memcpy(&first, piece, sizeof(uint32_t));
        memcpy(&last, piece + piece_bytes - sizeof(uint32_t), sizeof(uint32_t));
    } else {
        for (size_t i = 0; i < piece_bytes; i++) {
            first = first << 8 | (uint8_t)piece[i];
        }
    }
    uint64_t hash = (first ^ piece_bytes) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ last) * UINT64_C(0xd6e8feb86659fd93);
    return &tokenizer->cache[(hash >> 40) & (CACHE_ENTRIES - 2)];
}

/* The piece in its set, or NULL. */
static const cache_entry *cache_find(const cache_entry *set, const char *piece, size_t piece_bytes)
{
    for (int i = 0; i < 2; i++) {
        if (set[i].text_bytes == piece_bytes && memcmp(set[i].text, piece, piece_bytes) == 0) {
            return &set[i];
        }
    }
    return NULL;
}

static bool grow_scratch(rank_tokenizer *tokenizer, size_t needed)
{
    if (needed <= tokenizer->scratch_capacity) {
        return true;
    }
    size_t capacity = SCRATCH_IDS_MIN;
    while (capacity < needed) {
        capacity *= 2;
    }
    uint16_t *larger = realloc(tokenizer->scratch, capacity * sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    tokenizer->scratch = larger;
    tokenizer->scratch_capacity = capacity;
    return true;
}

/* The ids of one piece, in *ids until the next call. */
static bool encode_piece(rank_tokenizer *tokenizer, const char *piece, size_t piece_bytes,
                         const uint16_t **ids, size_t *count)
{
    cache_entry *entry = NULL;
    if (piece_bytes <= CACHE_TEXT_BYTES) {
        entry = cache_set(tokenizer, piece, piece_bytes);
        const cache_entry *found = cache_find(entry, piece, piece_bytes);
        if (found != NULL) {
            *ids = found->ids;
            *count = found->id_count;
            return true;
        }
    }
    if (!grow_scratch(tokenizer, piece_bytes)) {
        return false;
    }
    for (size_t i = 0; i < piece_bytes; i++) {
        tokenizer->scratch[i] = (uint8_t)piece[i];
    }
    *count = rank_bpe_merge_piece(&tokenizer->bpe, tokenizer->scratch, piece_bytes);
    *ids = tokenizer->scratch;
    if (entry != NULL && *count <= CACHE_IDS) {
        entry[1] = entry[0];
        entry->text_bytes = (uint8_t)piece_bytes;
        entry->id_count = (uint8_t)*count;
        memcpy(entry->text, piece, piece_bytes);
        memcpy(entry->ids, *ids, *count * sizeof **ids);
    }
    return true;
}

base_status rank_tokenizer_encode(rank_tokenizer *tokenizer, const char *text, size_t text_bytes,
                                  rank_ids *ids, base_error *reterr)
{
    ids->count = 0;
    if (tokenizer->hub != NULL) {
        return rank_hub_encode(tokenizer->hub, text, text_bytes, tokenizer->special, ids, reterr);
    }
    if (text_bytes > TEXT_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a text of %zu bytes is too long to tokenize",
                         text_bytes);
    }
    size_t total = 0;
    while (text_bytes > 0) {
        const uint16_t *piece_ids = NULL;
        size_t piece_count = 0;
        const size_t piece_bytes = rank_bpe_piece_bytes(text, text_bytes);
        if (!encode_piece(tokenizer, text, piece_bytes, &piece_ids, &piece_count)) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory to tokenize a word of %zu bytes",
                             piece_bytes);
        }
        for (size_t i = 0; i < piece_count && total + i < ids->capacity; i++) {
            ids->at[total + i] = piece_ids[i];
        }
        total += piece_count;
        text += piece_bytes;
        text_bytes -= piece_bytes;
    }
    ids->count = total;
    return BASE_OK;
}

size_t rank_tokenizer_decode(const rank_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             char *text, size_t capacity)
{
    size_t needed = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size_bytes = 0;
        const uint8_t *bytes = tokenizer->hub != NULL
                                   ? rank_hub_token(tokenizer->hub, ids[i], &size_bytes)
                                   : rank_bpe_token(&tokenizer->bpe, ids[i], &size_bytes);
        for (size_t j = 0; j < size_bytes; j++) {
            if (used + 1 < capacity) {
                text[used++] = (char)bytes[j];
            }
        }
        needed += size_bytes;
    }
    if (capacity > 0) {
        text[used] = '\0';
    }
    return needed;
}
