/* Writes tokenizer.json. Called by corpus-gen and tokenizer-learn. */
#include "tokenizer_file.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { GLYPHS_BYTES_MAX = RANK_BPE_TOKEN_BYTES_MAX * RANK_BPE_GLYPH_BYTES };

/* All that our files have besides vocabulary and merges. */
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
