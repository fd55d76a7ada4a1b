/* Reads a tokenizer from its file, and decodes ids. hub.c encodes. Called by data.c, and by generate/ for prompts
 * and answers. */
#include "rank/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "hub_spaces.h"

enum { FILE_BYTES_MAX = 64 << 20 };

static base_status parse(const void *data, size_t size_bytes, rank_tokenizer **tokenizer,
                         base_error *reterr)
{
    json_error_t flaw;
    json_t *root = json_loadb(data, size_bytes, JSON_REJECT_DUPLICATES, &flaw);
    if (root == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "line %d: %s", flaw.line, flaw.text);
    }
    const base_status status = rank_tokenizer_create(root, tokenizer, reterr);
    json_decref(root);
    return status;
}

base_status rank_tokenizer_load(const char *path, rank_tokenizer **tokenizer, base_error *reterr)
{
    void *data = NULL;
    size_t size_bytes = 0;
    *tokenizer = NULL;
    base_status status = base_file_read_regular(path, FILE_BYTES_MAX, &data, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status; /* it names the file */
    }
    status = parse(data, size_bytes, tokenizer, reterr);
    free(data);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}

int rank_tokenizer_vocab_size(const rank_tokenizer *tokenizer)
{
    return tokenizer->count;
}

int32_t rank_tokenizer_end_id(const rank_tokenizer *tokenizer)
{
    return tokenizer->end_id;
}

const char *rank_tokenizer_end_token(const rank_tokenizer *tokenizer)
{
    return tokenizer->end_token;
}

int32_t rank_tokenizer_added_at(const rank_tokenizer *tokenizer, const char *text,
                                size_t text_bytes, size_t *token_bytes)
{
    hub_added_search search = hub_added_at(tokenizer, (const uint8_t *)text, text_bytes);
    const hub_added *token = NULL;
    int32_t found = HUB_NONE;
    *token_bytes = 0;
    while ((token = hub_added_next(&search)) != NULL) {
        if (token->size_bytes > *token_bytes) {
            found = token->id;
            *token_bytes = token->size_bytes;
        }
    }
    return found;
}

bool rank_tokenizer_takes_spaces(const rank_tokenizer *tokenizer)
{
    bool takes = false;
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const hub_token *token = &tokenizer->tokens[tokenizer->added[i].id];
        takes = takes || token->takes_left || token->takes_right;
    }
    return takes;
}

void rank_tokenizer_make_special(rank_tokenizer *tokenizer, int32_t id)
{
    BASE_ASSERT(id >= 0);
    BASE_ASSERT(id < tokenizer->count);
    tokenizer->tokens[id].special = true;
}

void rank_tokenizer_allow_special(rank_tokenizer *tokenizer)
{
    tokenizer->allows_special = true;
}

const int32_t *rank_tokenizer_prefix(const rank_tokenizer *tokenizer, size_t *count)
{
    *count = tokenizer->prefix_count;
    return tokenizer->prefix;
}

int32_t rank_tokenizer_begin(const rank_tokenizer *tokenizer, char *name, size_t capacity)
{
    name[0] = '\0';
    if (tokenizer->prefix_count == 0) {
        return -1;
    }
    const int32_t id = tokenizer->prefix[0];
    const hub_token *token = &tokenizer->tokens[id];
    bool added = false;
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        added = added || tokenizer->added[i].id == id;
    }
    if (added && token->size_bytes < capacity) {
        memcpy(name, tokenizer->bytes + token->offset, token->size_bytes);
        name[token->size_bytes] = '\0';
    }
    return id;
}

/* A token's bytes and their number. Special tokens, and ids of no token, have none. */
static const uint8_t *token_bytes(const rank_tokenizer *tokenizer, int32_t id, size_t *size_bytes)
{
    const bool none = id < 0 || id >= tokenizer->count || tokenizer->tokens[id].special;
    *size_bytes = none ? 0 : tokenizer->tokens[id].size_bytes;
    return tokenizer->bytes + (none ? 0 : tokenizer->tokens[id].offset);
}

size_t rank_tokenizer_decode(const rank_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             char *text, size_t capacity)
{
    size_t needed = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size_bytes = 0;
        const uint8_t *bytes = token_bytes(tokenizer, ids[i], &size_bytes);
        for (size_t j = 0; j < size_bytes; needed++) {
            /* only an added token has them, which stands for its own letters in a text */
            const size_t mark = tokenizer->spaces ? hub_spaces_mark(bytes + j, size_bytes - j) : 0;
            if (used + 1 < capacity) {
                text[used++] = mark > 0 ? ' ' : (char)bytes[j];
            }
            j += mark > 0 ? mark : 1;
        }
    }
    if (capacity > 0) {
        text[used] = '\0';
    }
    return needed;
}
