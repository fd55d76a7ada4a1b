/* Tokenizers of SentencePiece's kind, beside what test_hub.c compares: where texts begin, how they are cut, and what is
 * refused. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "rank/tokenizer.h"
#include "support.h"
#include "text_cut.h"

enum { IDS_MAX = 4096, LONG = 3000 };

static const char *const kinds[] = {"llama2", "mistral", "metaspace", "gemma"};

static json_t *read_kind(const char *kind)
{
    char path[256];
    (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/hub_%s.json", kind);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static base_status load(const json_t *root, rank_tokenizer **tokenizer, base_error *error)
{
    test_directory scratch;
    test_directory_make(&scratch);
    const char *path = test_directory_path(&scratch, "tokenizer.json");
    assert_int_equal(json_dump_file(root, path, 0), 0);
    const base_status status = rank_tokenizer_load(path, tokenizer, error);
    test_directory_remove(&scratch);
    return status;
}

static rank_tokenizer *load_kind(const char *kind)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    json_t *root = read_kind(kind);
    assert_ok(load(root, &tokenizer, &error), &error);
    json_decref(root);
    return tokenizer;
}

static size_t encode(rank_tokenizer *tokenizer, rank_tokenizer_place place, const char *text,
                     size_t bytes, int32_t *at)
{
    base_error error;
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    const rank_tokenizer_text of = {.at = text, .bytes = bytes, .place = place};
    assert_ok(rank_tokenizer_encode_text(tokenizer, &of, &ids, &error), &error);
    assert_true(ids.count <= IDS_MAX);
    return ids.count;
}

/* What the ids of a text stand for. */
static void check_begin(rank_tokenizer *tokenizer, rank_tokenizer_place place, const char *text,
                        const char *expected)
{
    int32_t at[IDS_MAX];
    char decoded[64];
    const size_t count = encode(tokenizer, place, text, strlen(text), at);
    (void)rank_tokenizer_decode(tokenizer, at, count, decoded, sizeof decoded);
    assert_string_equal(decoded, expected);
}

/* The library's own begins are in the fixtures; what goes on, it does not know. */
static void a_space_comes_before_what_begins(void **state)
{
    (void)state;
    static const char *const begun[][4] = {
        /* of a text of its own, with a space, behind a token, with a space there */
        {" a", "  a", " a", "  a"},
        {" a", " a", "a", " a"},
        {" a", " a", " a", " a"},
        {"a", " a", "a", " a"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        rank_tokenizer *tokenizer = load_kind(kinds[i]);
        check_begin(tokenizer, RANK_TOKENIZER_BEGINS, "a", begun[i][0]);
        check_begin(tokenizer, RANK_TOKENIZER_BEGINS, " a", begun[i][1]);
        check_begin(tokenizer, RANK_TOKENIZER_BEHIND_TOKEN, "a", begun[i][2]);
        check_begin(tokenizer, RANK_TOKENIZER_BEHIND_TOKEN, " a", begun[i][3]);
        check_begin(tokenizer, RANK_TOKENIZER_GOES_ON, "a", "a");
        check_begin(tokenizer, RANK_TOKENIZER_GOES_ON, " a", " a");
        check_begin(tokenizer, RANK_TOKENIZER_BEGINS, "", "");
        assert_string_equal(rank_tokenizer_end_token(tokenizer), "</s>");
        rank_tokenizer_destroy(tokenizer);
    }
}

/* Wherever they stand in the file. */
static void gemmas_end_is_not_the_tag_of_html(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        base_error error;
        rank_tokenizer *tokenizer = NULL;
        json_t *root = read_kind("gemma");
        json_t *added = json_object_get(root, "added_tokens");
        json_t *end = json_deep_copy(json_array_get(added, 0));
        const json_int_t id = 601;
        assert_int_equal(json_object_set_new(end, "content", json_string("<eos>")), 0);
        assert_int_equal(json_object_set_new(end, "id", json_integer(id)), 0);
        assert_int_equal(json_array_insert_new(added, last == 1 ? json_array_size(added) : 0, end),
                         0);
        assert_ok(load(root, &tokenizer, &error), &error);
        assert_string_equal(rank_tokenizer_end_token(tokenizer), "<eos>");
        assert_int_equal(rank_tokenizer_end_id(tokenizer), id);
        rank_tokenizer_destroy(tokenizer);
        json_decref(root);
    }
}

/* A stretch behind a token in the text itself: its normalizer puts a space there, Metaspace's "first" does not. */
static void a_stretch_behind_a_token_begins_again(void **state)
{
    (void)state;
    rank_tokenizer *tokenizer = load_kind("llama2");
    rank_tokenizer_allow_special(tokenizer);
    check_begin(tokenizer, RANK_TOKENIZER_GOES_ON, "a<s>b", "a b");
    rank_tokenizer_destroy(tokenizer);
    tokenizer = load_kind("mistral");
    rank_tokenizer_allow_special(tokenizer);
    check_begin(tokenizer, RANK_TOKENIZER_BEGINS, "a<s>b", " ab");
    rank_tokenizer_destroy(tokenizer);
}

/* Gemma's tokenizer has several spaces as an added token, whose letters are those of the file: a text with the marks
 * becomes it as one with spaces does, and it is decoded as spaces. */
static void an_added_token_of_marks_is_decoded_as_spaces(void **state)
{
    (void)state;
    static const char marks[] = "\xe2\x96\x81\xe2\x96\x81";
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    json_t *root = read_kind("gemma");
    const json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    const json_int_t id = json_integer_value(json_object_get(vocab, marks));
    int32_t at[IDS_MAX];
    char decoded[8];
    json_t *token = json_pack("{s:I, s:s, s:b, s:b}", "id", id, "content", marks, "special", 0,
                              "normalized", 0);
    assert_int_equal(json_array_append_new(json_object_get(root, "added_tokens"), token), 0);
    assert_ok(load(root, &tokenizer, &error), &error);
    json_decref(root);
    for (int i = 0; i < 2; i++) {
        const char *text = i == 0 ? "  " : marks;
        assert_int_equal(encode(tokenizer, RANK_TOKENIZER_BEGINS, text, strlen(text), at), 1);
        assert_int_equal(at[0], id);
    }
    assert_int_equal(rank_tokenizer_decode(tokenizer, at, 1, decoded, sizeof decoded), 2);
    assert_string_equal(decoded, "  ");
    assert_int_equal(rank_tokenizer_decode(tokenizer, at, 1, decoded, 2), 2);
    assert_string_equal(decoded, " ");
    rank_tokenizer_destroy(tokenizer);
}

/* Each is a text without U+2581, which would come back as a space. */
static void all_bytes_come_back(void **state)
{
    (void)state;
    char text[LONG];
    char back[LONG + 2];
    int32_t at[IDS_MAX];
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        rank_tokenizer *tokenizer = load_kind(kinds[i / 2]);
        for (size_t j = 0; j < LONG; j++) {
            text[j] = (char)(i % 2 == 0 ? j * j / 3 + j * 7 : 0x80 + j % 64);
        }
        const size_t count = encode(tokenizer, RANK_TOKENIZER_GOES_ON, text, LONG, at);
        assert_int_equal(rank_tokenizer_decode(tokenizer, at, count, back, sizeof back), LONG);
        assert_memory_equal(back, text, LONG);
        rank_tokenizer_destroy(tokenizer);
    }
}

/* A text that is read in blocks has the tokens of the whole. */
static void blocks_have_the_tokens_of_the_whole(void **state)
{
    (void)state;
    static const char text[] = "the quick brown fox  jumps over 1234567 lazy dogs, doesn't it? ";
    int32_t whole[IDS_MAX];
    int32_t parts[IDS_MAX];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        rank_tokenizer *tokenizer = load_kind(kinds[i]);
        const size_t all = encode(tokenizer, RANK_TOKENIZER_BEGINS, text, sizeof text - 1, whole);
        const bool by_words = strcmp(kinds[i], "gemma") != 0; /* it has tokens of several words */
        for (size_t bytes = 8; by_words && bytes < sizeof text; bytes++) {
            const size_t cut = rank_text_block(text, bytes);
            size_t count = encode(tokenizer, RANK_TOKENIZER_BEGINS, text, cut, parts);
            count += encode(tokenizer, RANK_TOKENIZER_GOES_ON, text + cut, sizeof text - 1 - cut,
                            parts + count);
            assert_int_equal(count, all);
            assert_memory_equal(parts, whole, all * sizeof *whole);
        }
        rank_tokenizer_destroy(tokenizer);
    }
}

/* A file whose member `key` of `owner` ("": the file) is another one. */
static void expect_refused(const char *kind, const char *owner, const char *key, const char *value,
                           const char *reason)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    json_t *root = read_kind(kind);
    json_t *of = owner[0] != '\0' ? json_object_get(root, owner) : root;
    json_t *with = value != NULL ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_int_equal(with != NULL ? json_object_set_new(of, key, with) : json_object_del(of, key),
                     0);
    assert_int_not_equal(load(root, &tokenizer, &error), BASE_OK);
    assert_null(tokenizer);
    if (strstr(error.message, reason) == NULL) {
        fail_msg("%s, not %s", error.message, reason);
    }
    json_decref(root);
}

static void what_is_not_known_is_named(void **state)
{
    (void)state;
    expect_refused("llama2", "", "normalizer", "{\"type\":\"Precompiled\"}",
                   "normalizer Precompiled");
    expect_refused("llama2", "", "normalizer",
                   "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}",
                   "normalizer NFKC");
    expect_refused("llama2", "", "normalizer", "{\"type\":\"Prepend\",\"prepend\":\"_\"}",
                   "normalizer Prepend");
    expect_refused("llama2", "", "normalizer",
                   "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}",
                   "without marks for spaces");
    expect_refused("llama2", "", "normalizer",
                   "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
                   "\"\xe2\x96\x81\"},{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}]}",
                   "normalizer Prepend");
    expect_refused("llama2", "", "pre_tokenizer",
                   "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"}",
                   "pre-tokenizer Metaspace");
    expect_refused("mistral", "pre_tokenizer", "replacement", "\"_\"", "pre-tokenizer Metaspace");
    expect_refused("mistral", "pre_tokenizer", "prepend_scheme", "\"last\"",
                   "pre-tokenizer Metaspace");
    expect_refused("mistral", "", "pre_tokenizer", "{\"type\":\"Whitespace\"}",
                   "pre-tokenizer Whitespace");
    expect_refused("mistral", "", "pre_tokenizer", "null", "without marks for spaces");
    expect_refused("gemma", "", "normalizer", "null", "pre-tokenizer Split");
    expect_refused("gemma", "model", "byte_fallback", "false", "normalizer Replace");
}

static void each_byte_needs_a_token(void **state)
{
    (void)state;
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    json_t *root = read_kind("llama2");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    const json_int_t id = json_integer_value(json_object_get(vocab, "<0x0A>"));
    assert_int_equal(json_object_del(vocab, "<0x0A>"), 0);
    assert_int_equal(json_object_set_new(vocab, "<0x0a>", json_integer(id)), 0);
    assert_int_equal(load(root, &tokenizer, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "no token <0x0A>"));
    json_decref(root);
}

/* Encodes the text, all of whose bytes have that origin; -1: they have none. Returns how many tokens it has. */
static size_t encode_all_of(rank_tokenizer *tokenizer, const char *text, int origin, int32_t at[])
{
    enum { TEXT_MAX = 128 };
    base_error error;
    uint32_t origins[TEXT_MAX];
    rank_ids ids = {.at = at, .capacity = TEXT_MAX};
    assert_true(strlen(text) < TEXT_MAX);
    for (size_t i = 0; i < TEXT_MAX; i++) {
        origins[i] = origin >= 0 ? (uint32_t)origin : 0;
    }
    assert_ok(rank_tokenizer_encode_text(
                  tokenizer,
                  &(rank_tokenizer_text){
                      .at = text, .bytes = strlen(text), .origins = origin >= 0 ? origins : NULL},
                  &ids, &error),
              &error);
    return ids.count;
}

/* Also of tokens that are looked for in the normalised text: in what a template writes they are special, in what a
 * user says letters. */
static void origins_say_what_may_be_special(void **state)
{
    (void)state;
    static const char *const with[] = {"llama2", "mistral", "gemma", "metaspace", "qwen2"};
    static const char *const texts[] = {"<s>a </s> b</s>", "\xe2\x96\x81<s> x\xe2\x96\x81 </s>",
                                        "\xe4\xb8\xad <|im_end|>\n\xc3\xa9 <s>",
                                        " <|im_end|><|im_end|> ", ""};
    for (size_t i = 0; i < 2 * (sizeof with / sizeof *with); i++) {
        base_error error;
        rank_tokenizer *tokenizer = NULL;
        json_t *root = read_kind(with[i / 2]);
        json_t *token = NULL;
        size_t index = 0;
        int32_t at[2][128];
        json_array_foreach(json_object_get(root, "added_tokens"), index, token)
        {
            if (json_is_true(json_object_get(token, "special"))) {
                assert_int_equal(json_object_set_new(token, "normalized", json_boolean(i % 2 == 1)),
                                 0);
            }
        }
        assert_int_equal(load(root, &tokenizer, &error), BASE_OK);
        for (size_t pass = 0; pass < 2; pass++) { /* of a user, then of a template */
            for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
                const size_t count = encode_all_of(tokenizer, texts[k], pass == 0 ? 1 : 0, at[0]);
                if (pass == 1) {
                    rank_tokenizer_allow_special(tokenizer);
                }
                assert_int_equal(encode_all_of(tokenizer, texts[k], -1, at[1]), count);
                assert_memory_equal(at[0], at[1], count * sizeof at[0][0]);
                if (pass == 1) {
                    rank_tokenizer_destroy(tokenizer);
                    assert_int_equal(load(root, &tokenizer, &error), BASE_OK);
                }
            }
        }
        rank_tokenizer_destroy(tokenizer);
        json_decref(root);
    }
}

/* Without one the library writes the bytes of U+2581. */
static void a_space_needs_a_token(void **state)
{
    (void)state;
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    json_t *root = read_kind("llama2");
    json_t *model = json_object_get(root, "model");
    assert_int_equal(json_object_set_new(model, "merges", json_array()), 0);
    assert_int_equal(json_object_del(json_object_get(model, "vocab"), "\xe2\x96\x81"), 0);
    assert_int_equal(load(root, &tokenizer, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "no token for a space"));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_space_comes_before_what_begins),
        cmocka_unit_test(gemmas_end_is_not_the_tag_of_html),
        cmocka_unit_test(a_stretch_behind_a_token_begins_again),
        cmocka_unit_test(an_added_token_of_marks_is_decoded_as_spaces),
        cmocka_unit_test(all_bytes_come_back),
        cmocka_unit_test(blocks_have_the_tokens_of_the_whole),
        cmocka_unit_test(what_is_not_known_is_named),
        cmocka_unit_test(a_space_needs_a_token),
        cmocka_unit_test(origins_say_what_may_be_special),
        cmocka_unit_test(each_byte_needs_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
