/* Reads and writes tokenizer.json, strictly. Read by tokenizer.c, written by corpus-gen and
 * tokenizer-learn. */
#include "tokenizer_file.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { GLYPHS_BYTES_MAX = RANK_BPE_TOKEN_BYTES_MAX * RANK_BPE_GLYPH_BYTES };

/* All that our files have besides vocabulary and merges. The reader compares with it, and the
 * writer writes it. */
static const char FRAME[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" RANK_TOKENIZER_SPLIT
    "\"},\"behavior\":\"Isolated\",\"invert\":false},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
    "\"use_regex\":false}]},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
    "\"use_regex\":true},"
    "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
    "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
    "\"byte_fallback\":false,\"ignore_merges\":false}}";

/* GPT-2's pre-tokenizer, in place of the frame's. */
static const char GPT2_SPLIT[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                                 "\"trim_offsets\":true,\"use_regex\":true}";

static json_t *frame_make(void)
{
    return json_loads(FRAME, JSON_REJECT_DUPLICATES, NULL);
}

/* Checks members of the file's object: they must be as in FRAME, or missing if FRAME has null. */
static base_status check_members(const json_t *object, const json_t *frame,
                                 const char *const *names, base_error *reterr)
{
    for (; *names != NULL; names++) {
        const json_t *want = json_object_get(frame, *names);
        const json_t *got = json_object_get(object, *names);
        const bool missing_is_fine = json_is_null(want) || json_is_false(want);
        if (got == NULL ? !missing_is_fine : !json_equal(got, want)) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "\"%s\" is not that of a byte-level BPE as written here", *names);
        }
    }
    return BASE_OK;
}

static base_status check_frame(const json_t *root, base_error *reterr)
{
    static const char *const top[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder",
                                      NULL};
    static const char *const model[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "byte_fallback",
                                        "ignore_merges",
                                        NULL};
    json_t *frame = frame_make();
    if (frame == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokenizer");
    }
    base_status status = check_members(root, frame, top, reterr);
    if (status == BASE_OK) {
        status = check_members(json_object_get(root, "model"), json_object_get(frame, "model"),
                               model, reterr);
    }
    json_decref(frame);
    return status;
}

bool rank_tokenizer_merge_parts(const json_t *merge, const char *parts[2], size_t parts_bytes[2])
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

static base_status read_merge(const json_t *merge, const json_t *vocab, size_t index,
                              rank_bpe_pair *pair, base_error *reterr)
{
    const char *parts[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    if (!rank_tokenizer_merge_parts(merge, parts, bytes)) {
        return base_fail(reterr, BASE_ERR_INVALID, "merge %zu is not a pair of tokens", index);
    }
    uint16_t *const to[2] = {&pair->left, &pair->right};
    for (int i = 0; i < 2; i++) {
        const json_t *id = json_object_getn(vocab, parts[i], bytes[i]);
        const json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value >= (json_int_t)(RANK_BPE_BYTES + index)) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "merge %zu uses a token that is not made before it", index);
        }
        *to[i] = (uint16_t)value;
    }
    return BASE_OK;
}

/* A token's bytes as GPT-2 glyphs, NUL-terminated. */
static void token_glyphs(const rank_bpe *bpe, int id, char glyphs[GLYPHS_BYTES_MAX + 1])
{
    size_t size_bytes = 0;
    size_t used = 0;
    const uint8_t *bytes = rank_bpe_token(bpe, id, &size_bytes);
    for (size_t i = 0; i < size_bytes; i++) {
        used += rank_bpe_glyph(bytes[i], glyphs + used);
    }
    glyphs[used] = '\0';
}

/* Checks that every token has its own id, and that there is nothing else. */
static base_status check_vocab(const rank_bpe *bpe, const json_t *vocab, base_error *reterr)
{
    char glyphs[GLYPHS_BYTES_MAX + 1];
    for (int id = 0; id < rank_bpe_end_id(bpe); id++) {
        token_glyphs(bpe, id, glyphs);
        const json_t *value = json_object_get(vocab, glyphs);
        if (!json_is_integer(value) || json_integer_value(value) != id) {
            return base_fail(reterr, BASE_ERR_INVALID, "token \"%s\" does not have id %d", glyphs,
                             id);
        }
    }
    const json_t *end = json_object_get(vocab, RANK_TOKENIZER_END_TOKEN);
    if (!json_is_integer(end) || json_integer_value(end) != rank_bpe_end_id(bpe)) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is not the last token",
                         RANK_TOKENIZER_END_TOKEN);
    }
    if (json_object_size(vocab) != (size_t)rank_bpe_vocab_size(bpe)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the vocabulary has %zu tokens, its merges make %d",
                         json_object_size(vocab), rank_bpe_vocab_size(bpe));
    }
    return BASE_OK;
}

/* Checks that the end token, and no other, is an added token. */
static base_status check_added(const json_t *added, int end_id, base_error *reterr)
{
    const json_t *token = json_array_get(added, 0);
    const char *content = json_string_value(json_object_get(token, "content"));
    const json_t *id = json_object_get(token, "id");
    if (json_array_size(added) != 1 || content == NULL ||
        strcmp(content, RANK_TOKENIZER_END_TOKEN) != 0 || !json_is_integer(id) ||
        json_integer_value(id) != end_id) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"added_tokens\" is not %s alone",
                         RANK_TOKENIZER_END_TOKEN);
    }
    return BASE_OK;
}

base_status rank_tokenizer_take(const json_t *root, rank_bpe *bpe, base_error *reterr)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges");
    const size_t count = json_array_size(merges);
    if (!json_is_object(vocab) || !json_is_array(merges) || count > RANK_BPE_MERGES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "no \"model\" with vocabulary and merges");
    }
    base_status status = check_frame(root, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_bpe_pair *pairs = calloc(count + 1, sizeof *pairs);
    if (pairs == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu merges", count);
    }
    for (size_t i = 0; i < count && status == BASE_OK; i++) {
        status = read_merge(json_array_get(merges, i), vocab, i, &pairs[i], reterr);
    }
    if (status == BASE_OK) {
        status = rank_bpe_init(bpe, pairs, (int)count, reterr);
    }
    free(pairs);
    if (status != BASE_OK) {
        return status;
    }
    status = check_vocab(bpe, vocab, reterr);
    if (status == BASE_OK) {
        status = check_added(json_object_get(root, "added_tokens"), rank_bpe_end_id(bpe), reterr);
    }
    if (status != BASE_OK) {
        rank_bpe_fini(bpe);
    }
    return status;
}

bool rank_tokenizer_is_ours(const json_t *root)
{
    const json_t *steps = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    const json_t *pattern = json_object_get(json_array_get(steps, 0), "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    return regex != NULL && strcmp(regex, RANK_TOKENIZER_SPLIT) == 0;
}

static json_t *make_vocab(const rank_bpe *bpe)
{
    char glyphs[GLYPHS_BYTES_MAX + 1];
    json_t *vocab = json_object();
    bool made = vocab != NULL;
    for (int id = 0; id < rank_bpe_end_id(bpe) && made; id++) {
        token_glyphs(bpe, id, glyphs);
        made = json_object_set_new(vocab, glyphs, json_integer(id)) == 0;
    }
    made = made && json_object_set_new(vocab, RANK_TOKENIZER_END_TOKEN,
                                       json_integer(rank_bpe_end_id(bpe))) == 0;
    if (!made) {
        json_decref(vocab);
        return NULL;
    }
    return vocab;
}

static json_t *make_merges(const rank_bpe *bpe)
{
    char left[GLYPHS_BYTES_MAX + 1];
    char right[GLYPHS_BYTES_MAX + 1];
    json_t *merges = json_array();
    bool made = merges != NULL;
    for (int m = 0; m < bpe->merge_count && made; m++) {
        token_glyphs(bpe, bpe->merges[m].left, left);
        token_glyphs(bpe, bpe->merges[m].right, right);
        made = json_array_append_new(merges, json_sprintf("%s %s", left, right)) == 0;
    }
    if (!made) {
        json_decref(merges);
        return NULL;
    }
    return merges;
}

static json_t *make_added(const rank_bpe *bpe)
{
    return json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", rank_bpe_end_id(bpe), "content",
                     RANK_TOKENIZER_END_TOKEN, "single_word", 0, "lstrip", 0, "rstrip", 0,
                     "normalized", 0, "special", 1);
}

json_t *rank_tokenizer_make(const rank_bpe *bpe, rank_tokenizer_split split)
{
    json_t *root = frame_make();
    json_t *model = json_object_get(root, "model");
    const bool made =
        root != NULL &&
        (split == RANK_TOKENIZER_BY_SPACES ||
         json_object_set_new(root, "pre_tokenizer", json_loads(GPT2_SPLIT, 0, NULL)) == 0) &&
        json_array_append_new(json_object_get(root, "added_tokens"), make_added(bpe)) == 0 &&
        json_object_set_new(model, "vocab", make_vocab(bpe)) == 0 &&
        json_object_set_new(model, "merges", make_merges(bpe)) == 0;
    if (!made) {
        json_decref(root);
        return NULL;
    }
    return root;
}

base_status rank_tokenizer_file_write(const char *path, const rank_bpe *bpe,
                                      rank_tokenizer_split split, base_error *reterr)
{
    base_status status = BASE_ERR_MEMORY;
    json_t *root = rank_tokenizer_make(bpe, split);
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (text == NULL) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    } else {
        status = base_file_write(path, text, strlen(text), reterr);
    }
    free(text);
    json_decref(root);
    return status;
}
