/* Makes a tokenizer of the content of a tokenizer.json. Called by tokenizer.c, and by tokenizer-learn. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "bpe.h"
#include "hub_parts.h"
#include "hub_spaces.h"
#include "tokenizer_file.h"

enum {
    GLYPHS_MAX = 0x200, /* code points of GPT-2's alphabet are below it */
    MATCH_LIMIT = 1000000,
    MATCH_HEAP_KIB_MAX = 64 * 1024,
    HUB_TOKEN_BYTES_MAX = 1024, /* of glyphs */
};

/* Which byte each code point of GPT-2's alphabet stands for. */
static void make_alphabet(int16_t byte_of[GLYPHS_MAX])
{
    for (int i = 0; i < GLYPHS_MAX; i++) {
        byte_of[i] = HUB_NONE;
    }
    for (int byte = 0; byte < HUB_BYTES; byte++) {
        char glyph[RANK_BPE_GLYPH_BYTES + 1] = "";
        const size_t size_bytes = rank_bpe_glyph((uint8_t)byte, glyph);
        const unsigned first = (uint8_t)glyph[0];
        const unsigned point =
            size_bytes == 1 ? first : (first & 0x1f) << 6 | ((uint8_t)glyph[1] & 0x3f);
        byte_of[point] = (int16_t)byte;
    }
}

/* The bytes that a token's glyphs stand for; what is no glyph stands for itself. Not longer than
 * the glyphs. */
static size_t from_glyphs(const int16_t byte_of[GLYPHS_MAX], const char *glyphs,
                          size_t glyphs_bytes, uint8_t *bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < glyphs_bytes; i++) {
        const unsigned first = (uint8_t)glyphs[i];
        unsigned point = first;
        size_t used = 1;
        if ((first & 0xe0) == 0xc0 && i + 1 < glyphs_bytes) {
            point = (first & 0x1f) << 6 | ((uint8_t)glyphs[i + 1] & 0x3f);
            used = 2;
        }
        if (point < GLYPHS_MAX && byte_of[point] != HUB_NONE) {
            bytes[count++] = (uint8_t)byte_of[point];
            i += used - 1;
        } else {
            bytes[count++] = (uint8_t)first;
        }
    }
    return count;
}

/* The largest id, and how many bytes all tokens have at most. */
static base_status measure(const json_t *vocab, const json_t *added, int32_t *largest,
                           size_t *bytes, base_error *reterr)
{
    const char *text = NULL;
    json_t *id = NULL;
    json_t *token = NULL;
    size_t index = 0;
    json_int_t most = -1;
    json_int_t least = 0;
    json_object_foreach((json_t *)vocab, text, id)
    {
        const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        most = value > most ? value : most;
        least = value < least ? value : least;
        *bytes += strlen(text);
    }
    json_array_foreach(added, index, token)
    {
        const json_t *named = json_object_get(token, "id");
        const json_int_t value = json_is_integer(named) ? json_integer_value(named) : -1;
        most = value > most ? value : most;
        least = value < least ? value : least;
        *bytes += json_string_length(json_object_get(token, "content"));
    }
    if (most < 1 || least < 0 || most >= HUB_VOCAB_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "ids of tokens are integers from 0 to %d",
                         HUB_VOCAB_MAX - 1);
    }
    *largest = (int32_t)most;
    return BASE_OK;
}

static bool allocate(rank_tokenizer *self, size_t bytes, size_t merges)
{
    size_t texts = 64;
    size_t pairs = 64;
    while (texts < 2 * (size_t)self->count) {
        texts *= 2;
    }
    while (pairs < 2 * merges) {
        pairs *= 2;
    }
    self->text_mask = texts - 1;
    self->merge_mask = pairs - 1;
    self->tokens = calloc((size_t)self->count, sizeof *self->tokens);
    self->added = calloc((size_t)self->count, sizeof *self->added);
    self->bytes = malloc(bytes + 1);
    self->text_ids = malloc(texts * sizeof *self->text_ids);
    self->merges = malloc(pairs * sizeof *self->merges);
    if (self->tokens == NULL || self->added == NULL || self->bytes == NULL ||
        self->text_ids == NULL || self->merges == NULL) {
        return false;
    }
    memset(self->text_ids, 0xff, texts * sizeof *self->text_ids); /* HUB_NONE */
    memset(self->merges, 0xff, pairs * sizeof *self->merges);
    return true;
}

/* An added token may be the one that ends a text. Llama 3, Gemma and Llama 2 have other names for it, and Gemma's
 * </s> is a tag of HTML: the first name counts. */
static void take_end(rank_tokenizer *self, const char *content, int32_t id)
{
    static const char *const names[] = {RANK_TOKENIZER_END_TOKEN, "<|end_of_text|>", "<eos>",
                                        "</s>"};
    for (size_t i = 0; i < sizeof names / sizeof *names && self->end_token != names[i]; i++) {
        if (strcmp(content, names[i]) == 0) {
            self->end_id = id;
            self->end_token = names[i];
        }
    }
}

/* Added tokens first: they stand for their own letters, also where the vocabulary has them. */
static base_status read_added(rank_tokenizer *self, const json_t *added, size_t *used,
                              base_error *reterr)
{
    size_t index = 0;
    json_t *entry = NULL;
    json_array_foreach(added, index, entry)
    {
        const json_t *content = json_object_get(entry, "content");
        hub_token *token = &self->tokens[json_integer_value(json_object_get(entry, "id"))];
        const size_t size_bytes = json_string_length(content);
        if (size_bytes == 0 || token->size_bytes > 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "added token %zu is empty or not the first",
                             index);
        }
        const bool left = !hub_is_off(entry, "lstrip");
        const bool right = !hub_is_off(entry, "rstrip");
        const bool late = json_is_true(json_object_get(entry, "normalized"));
        if (!hub_is_off(entry, "single_word") || (late && (left || right))) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "added token %s depends on normalised text beside it",
                             json_string_value(content));
        }
        *token = (hub_token){.offset = (uint32_t)*used,
                             .size_bytes = (uint32_t)size_bytes,
                             .special = json_is_true(json_object_get(entry, "special")),
                             .late = late,
                             .takes_left = left,
                             .takes_right = right};
        memcpy(self->bytes + *used, json_string_value(content), size_bytes);
        if (token->late && self->normalises) {
            const uint8_t *normal = NULL;
            size_t normal_bytes = 0;
            const base_status status = rank_nfc_of(&self->nfc, self->bytes + *used, size_bytes,
                                                   &normal, &normal_bytes, reterr);
            if (status != BASE_OK) {
                return status;
            }
            if (normal_bytes != size_bytes ||
                memcmp(normal, self->bytes + *used, size_bytes) != 0) {
                return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                                 "added token %s is not in normal form C",
                                 json_string_value(content));
            }
        }
        *used += size_bytes;
        const int32_t id = (int32_t)json_integer_value(json_object_get(entry, "id"));
        self->added[self->added_count++] =
            (hub_added){self->bytes + token->offset, token->size_bytes, id, index};
        take_end(self, json_string_value(content), id);
    }
    hub_added_sort(self);
    return BASE_OK;
}

static base_status read_vocab(rank_tokenizer *self, const json_t *vocab, size_t used,
                              base_error *reterr)
{
    const size_t added_end = used;
    int16_t byte_of[GLYPHS_MAX];
    const char *glyphs = NULL;
    json_t *value = NULL;
    make_alphabet(byte_of);
    json_object_foreach((json_t *)vocab, glyphs, value)
    {
        size_t entry = 0;
        const int32_t id = (int32_t)json_integer_value(value);
        hub_token *token = &self->tokens[id];
        if (token->size_bytes > 0 && token->offset < added_end) {
            continue; /* an added one */
        }
        uint8_t *to = self->bytes + used;
        const int byte = self->spaces ? hub_spaces_byte(glyphs) : HUB_NONE;
        if (byte != HUB_NONE && token->size_bytes == 0) { /* no text becomes it by merges */
            *to = (uint8_t)byte;
            *token = (hub_token){.offset = (uint32_t)used++, .size_bytes = 1};
            self->byte_ids[byte] = id;
            continue;
        }
        const size_t size_bytes = self->spaces ? hub_spaces_from_marks(glyphs, strlen(glyphs), to)
                                               : from_glyphs(byte_of, glyphs, strlen(glyphs), to);
        if (size_bytes == 0 || token->size_bytes > 0 ||
            hub_find_text(self, to, size_bytes, &entry) != HUB_NONE) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "token %d is empty, or not the only one with its id and text", id);
        }
        *token = (hub_token){.offset = (uint32_t)used, .size_bytes = (uint32_t)size_bytes};
        self->text_ids[entry] = id;
        used += size_bytes;
    }
    for (int byte = 0; byte < HUB_BYTES && !self->spaces; byte++) {
        size_t entry = 0;
        self->byte_ids[byte] = hub_find_text(self, &(uint8_t){(uint8_t)byte}, 1, &entry);
    }
    return self->spaces ? hub_spaces_find_words(self, reterr) : BASE_OK;
}

/* The id of a merge's part, or of both together. */
static int32_t find_id(const json_t *vocab, const char *text, size_t text_bytes)
{
    const json_t *id = json_object_getn(vocab, text, text_bytes);
    return json_is_integer(id) ? (int32_t)json_integer_value(id) : HUB_NONE;
}

/* A merge is "left right" or ["left", "right"]; parts point into it. */
static bool find_parts(const json_t *merge, const char *parts[2], size_t parts_bytes[2])
{
    if (json_is_string(merge)) {
        const char *text = json_string_value(merge);
        const char *space = strchr(text, ' ');
        if (space == NULL) {
            return false;
        }
        parts[0] = text;
        parts_bytes[0] = (size_t)(space - text);
        parts[1] = space + 1;
        parts_bytes[1] = strlen(space + 1);
        return true;
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *part = json_array_get(merge, i);
        if (!json_is_string(part)) {
            return false;
        }
        parts[i] = json_string_value(part);
        parts_bytes[i] = json_string_length(part);
    }
    return json_array_size(merge) == 2;
}

static base_status read_merges(rank_tokenizer *self, const json_t *vocab, const json_t *merges,
                               base_error *reterr)
{
    size_t index = 0;
    json_t *merge = NULL;
    json_array_foreach(merges, index, merge)
    {
        char both[2 * HUB_TOKEN_BYTES_MAX];
        const char *parts[2] = {NULL, NULL};
        size_t bytes[2] = {0, 0};
        if (!find_parts(merge, parts, bytes) || bytes[0] > HUB_TOKEN_BYTES_MAX ||
            bytes[1] > HUB_TOKEN_BYTES_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID, "merge %zu is not a pair of tokens", index);
        }
        memcpy(both, parts[0], bytes[0]);
        memcpy(both + bytes[0], parts[1], bytes[1]);
        const int32_t left = find_id(vocab, parts[0], bytes[0]);
        const int32_t right = find_id(vocab, parts[1], bytes[1]);
        const int32_t made = find_id(vocab, both, bytes[0] + bytes[1]);
        if (left == HUB_NONE || right == HUB_NONE || made == HUB_NONE) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "merge %zu uses or makes a token that is not in the vocabulary",
                             index);
        }
        hub_merge *entry = hub_find_merge(self, left, right);
        if (entry->left != HUB_NONE) {
            return base_fail(reterr, BASE_ERR_INVALID, "merge %zu is merge %d again", index,
                             entry->rank);
        }
        *entry = (hub_merge){left, right, (int32_t)index, made};
    }
    return BASE_OK;
}

/* The tokens before the text. Some behind it would end it, so that there is nothing to go on
 * with. */
static base_status read_template(rank_tokenizer *self, const json_t *template, base_error *reterr)
{
    size_t index = 0;
    json_t *item = NULL;
    bool behind = false;
    const json_t *known = json_object_get(template, "special_tokens");
    json_array_foreach(json_object_get(template, "single"), index, item)
    {
        const json_t *special = json_object_get(item, "SpecialToken");
        if (special == NULL) {
            behind = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(special, "id"));
        const json_t *ids =
            json_object_get(json_object_get(known, name != NULL ? name : ""), "ids");
        const json_t *id = json_array_get(ids, 0);
        if (behind || json_array_size(ids) != 1 || self->prefix_count == HUB_PREFIX_MAX ||
            !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= self->count) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "its template puts other tokens than a few before a text");
        }
        self->prefix[self->prefix_count++] = (int32_t)json_integer_value(id);
    }
    return BASE_OK;
}

static base_status read_post_step(rank_tokenizer *self, const json_t *step, base_error *reterr)
{
    if (hub_has_type(step, "TemplateProcessing")) {
        return read_template(self, step, reterr);
    }
    return hub_has_type(step, "ByteLevel") ? BASE_OK : hub_refuse("post-processor", step, reterr);
}

static base_status read_nfc(rank_tokenizer *self, const json_t *step, base_error *reterr)
{
    self->normalises = hub_has_type(step, "NFC");
    return self->normalises ? BASE_OK : hub_refuse("normalizer", step, reterr);
}

/* Settings that change ids, and that nothing here has a switch for. */
static base_status check_settings(const json_t *root, base_error *reterr)
{
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                      NULL};
    const json_t *model = json_object_get(root, "model");
    const json_t *type = json_object_get(model, "type");
    if (type != NULL && !hub_has_type(model, "BPE")) {
        return hub_refuse("model", model, reterr);
    }
    for (const char *const *key = off; *key != NULL; key++) {
        if (!hub_is_off(model, *key)) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED, "its model has %s", *key);
        }
    }
    return BASE_OK;
}

static base_status fill(rank_tokenizer *self, const json_t *root, base_error *reterr)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges");
    const json_t *added = json_object_get(root, "added_tokens");
    size_t bytes = 0;
    size_t used = 0;
    int32_t largest = 0;
    if (!json_is_object(vocab) || !json_is_array(merges)) {
        return base_fail(reterr, BASE_ERR_INVALID, "no \"model\" with vocabulary and merges");
    }
    self->spaces = json_is_true(json_object_get(model, "byte_fallback"));
    memset(self->byte_ids, 0xff, sizeof self->byte_ids); /* HUB_NONE */
    base_status status = hub_each(self, json_object_get(root, "normalizer"), "normalizers",
                                  self->spaces ? hub_spaces_read_normalizer : read_nfc, reterr);
    if (status == BASE_OK) {
        status = check_settings(root, reterr);
    }
    if (status == BASE_OK) {
        status = measure(vocab, added, &largest, &bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    self->count = largest + 1;
    self->whole_first = json_is_true(json_object_get(model, "ignore_merges"));
    self->limits = pcre2_match_context_create(NULL);
    self->match = pcre2_match_data_create(1, NULL);
    if (!allocate(self, bytes, json_array_size(merges)) || self->limits == NULL ||
        self->match == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokenizer");
    }
    (void)pcre2_set_match_limit(self->limits, MATCH_LIMIT);
    (void)pcre2_set_heap_limit(self->limits, MATCH_HEAP_KIB_MAX);
    status = read_added(self, added, &used, reterr);
    if (status == BASE_OK) {
        status = read_vocab(self, vocab, used, reterr);
    }
    if (status == BASE_OK) {
        status = read_merges(self, vocab, merges, reterr);
    }
    if (status == BASE_OK) {
        status = hub_read_steps(self, root, reterr);
    }
    return status == BASE_OK ? hub_each(self, json_object_get(root, "post_processor"), "processors",
                                        read_post_step, reterr)
                             : status;
}

base_status rank_tokenizer_create(const json_t *root, rank_tokenizer **tokenizer,
                                  base_error *reterr)
{
    *tokenizer = NULL;
    rank_tokenizer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokenizer");
    }
    made->end_id = HUB_NONE;
    const base_status status = fill(made, root, reterr);
    if (status != BASE_OK) {
        rank_tokenizer_destroy(made);
        return status;
    }
    *tokenizer = made;
    return BASE_OK;
}

void rank_tokenizer_destroy(rank_tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    for (int i = 0; i < tokenizer->split_count; i++) {
        pcre2_code_free(tokenizer->splits[i]);
    }
    pcre2_match_data_free(tokenizer->match);
    pcre2_match_context_free(tokenizer->limits);
    free(tokenizer->tokens);
    free(tokenizer->added);
    free(tokenizer->bytes);
    free(tokenizer->text_ids);
    free(tokenizer->merges);
    free(tokenizer->parts);
    free(tokenizer->heap);
    free(tokenizer->spaced);
    free(tokenizer->spaced_origins);
    rank_nfc_fini(&tokenizer->nfc);
    free(tokenizer);
}
