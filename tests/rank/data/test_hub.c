/* Tokenizers of other models' kinds against the Hugging Face library's ids (make_hub_fixtures.py). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "rank/tokenizer.h"
#include "support.h"

enum { IDS_MAX = 1024, TEXT_BYTES_MAX = 2048, FIXTURES_MIN = 50 };

static rank_tokenizer *load(const char *path)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(rank_tokenizer_load(path, &tokenizer, &error), &error);
    return tokenizer;
}

static void check_ids(rank_tokenizer *tokenizer, const json_t *text, const json_t *expected)
{
    base_error error;
    int32_t at[IDS_MAX];
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    assert_ok(rank_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                                    &ids, &error),
              &error);
    assert_int_equal(ids.count, json_array_size(expected));
    for (size_t i = 0; i < ids.count; i++) {
        assert_int_equal(at[i], json_integer_value(json_array_get(expected, i)));
    }
}

static void check_text(rank_tokenizer *tokenizer, const json_t *text, const json_t *ids)
{
    int32_t at[IDS_MAX];
    char decoded[TEXT_BYTES_MAX];
    const size_t count = json_array_size(ids);
    for (size_t i = 0; i < count; i++) {
        at[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    }
    assert_int_equal(rank_tokenizer_decode(tokenizer, at, count, decoded, sizeof decoded),
                     json_string_length(text));
    assert_string_equal(decoded, json_string_value(text));
}

static void check_kind(const char *kind)
{
    char path[256];
    (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/hub_%s.json", kind);
    rank_tokenizer *plain = load(path);
    rank_tokenizer *special = load(path);
    rank_tokenizer_allow_special(special);
    (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/hub_%s_ids.jsonl", kind);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    json_t *fixture = NULL;
    int fixtures = 0;
    while ((fixture = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        const json_t *text = json_object_get(fixture, "text");
        check_ids(plain, text, json_object_get(fixture, "ids"));
        const json_t *normal = json_object_get(fixture, "normal"); /* what the ids stand for */
        check_text(plain, normal != NULL ? normal : text, json_object_get(fixture, "ids"));
        check_ids(special, text, json_object_get(fixture, "special"));
        fixtures++;
        json_decref(fixture);
    }
    assert_true(fixtures >= FIXTURES_MIN);
    (void)fclose(file);
    rank_tokenizer_destroy(plain);
    rank_tokenizer_destroy(special);
}

/* The second added token takes the white space behind it, the third one that on both sides. One more, of that id, is
 * white space itself. */
static void check_strips(const char *kind, int id)
{
    char path[256];
    test_directory scratch;
    json_t *fixture = NULL;
    int fixtures = 0;
    (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/hub_%s.json", kind);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *added = json_object_get(root, "added_tokens");
    for (size_t i = 1; i < 3; i++) {
        json_t *token = json_array_get(added, i);
        assert_int_equal(json_object_set_new(token, "lstrip", json_boolean(i == 2)), 0);
        assert_int_equal(json_object_set_new(token, "rstrip", json_true()), 0);
    }
    json_t *blank = json_pack("{s:i, s:s}", "id", id, "content", "\n\t");
    assert_int_equal(json_array_append_new(added, blank), 0);
    test_directory_make(&scratch);
    assert_int_equal(json_dump_file(root, test_directory_path(&scratch, "strips.json"), 0), 0);
    rank_tokenizer *tokenizer = load(test_directory_path(&scratch, "strips.json"));
    test_directory_remove(&scratch);
    json_decref(root);
    rank_tokenizer_allow_special(tokenizer);
    assert_true(rank_tokenizer_takes_spaces(tokenizer));
    (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/hub_%s_strips_ids.jsonl", kind);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while ((fixture = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        check_ids(tokenizer, json_object_get(fixture, "text"), json_object_get(fixture, "special"));
        fixtures++;
        json_decref(fixture);
    }
    assert_int_equal(fixtures, 10);
    (void)fclose(file);
    rank_tokenizer_destroy(tokenizer);
}

static void added_tokens_may_take_the_spaces_beside_them(void **state)
{
    (void)state;
    check_strips("llama2", 601);
    check_strips("gpt2", 512);
}

static void ids_are_those_of_the_library(void **state)
{
    (void)state;
    check_kind("gpt2");
    check_kind("smollm2");
    check_kind("llama3");
    check_kind("qwen2");
    check_kind("gpt4o");
    check_kind("drops");
    check_kind("llama2");
    check_kind("mistral");
    check_kind("metaspace");
    check_kind("gemma");
}

static void a_template_says_what_stands_before_a_text(void **state)
{
    (void)state;
    size_t count = 0;
    rank_tokenizer *tokenizer = load(ORACLE_DIRECTORY "/hub_llama3.json");
    const int32_t *prefix = rank_tokenizer_prefix(tokenizer, &count);
    assert_int_equal(count, 1);
    assert_int_equal(prefix[0], 1);
    assert_int_equal(rank_tokenizer_end_id(tokenizer), 0);
    assert_int_equal(rank_tokenizer_vocab_size(tokenizer), 513);
    rank_tokenizer_destroy(tokenizer);
    tokenizer = load(ORACLE_DIRECTORY "/hub_gpt2.json");
    (void)rank_tokenizer_prefix(tokenizer, &count);
    assert_int_equal(count, 0);
    rank_tokenizer_destroy(tokenizer);
}

/* Every byte string comes back, also what is no UTF-8, and a word of any length ends soon. */
static void all_bytes_come_back(void **state)
{
    (void)state;
    enum { LONG = 200000 };
    base_error error;
    rank_tokenizer *tokenizer = load(ORACLE_DIRECTORY "/hub_llama3.json");
    char *text = malloc(LONG + 1);
    char *back = malloc(LONG + 1);
    int32_t *at = malloc(LONG * sizeof *at);
    assert_non_null(text);
    assert_non_null(back);
    assert_non_null(at);
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < LONG; i++) {
            const size_t values[] = {i * i / 3 + i * 7, 'a', 0x80 + i % 64};
            text[i] = (char)values[kind];
        }
        rank_ids ids = {.at = at, .capacity = LONG};
        assert_ok(rank_tokenizer_encode(tokenizer, text, LONG, &ids, &error), &error);
        assert_true(ids.count <= LONG);
        assert_int_equal(rank_tokenizer_decode(tokenizer, at, ids.count, back, LONG + 1), LONG);
        assert_memory_equal(back, text, LONG);
    }
    free(text);
    free(back);
    free(at);
    rank_tokenizer_destroy(tokenizer);
}

/* Loads the file with one text exchanged for another. */
static void expect_kind_refused(const char *kind, const char *what, const char *with,
                                const char *reason)
{
    char of[256];
    base_error error;
    test_directory scratch;
    rank_tokenizer *tokenizer = NULL;
    (void)snprintf(of, sizeof of, ORACLE_DIRECTORY "/hub_%s.json", kind);
    json_t *root = json_load_file(of, 0, NULL);
    char *text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);
    char *at = strstr(text, what);
    assert_non_null(at);
    test_directory_make(&scratch);
    const char *path = test_directory_path(&scratch, "tokenizer.json");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what)) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_not_equal(rank_tokenizer_load(path, &tokenizer, &error), BASE_OK);
    assert_null(tokenizer);
    if (strstr(error.message, reason) == NULL) {
        fail_msg("%s, not %s", error.message, reason);
    }
    test_directory_remove(&scratch);
    free(text);
    json_decref(root);
}

static void expect_refused(const char *what, const char *with, const char *reason)
{
    expect_kind_refused("llama3", what, with, reason);
}

static void what_is_not_known_is_named(void **state)
{
    (void)state;
    expect_refused("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", "normalizer NFKC");
    expect_refused("\"normalizer\":null",
                   "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                   "{\"type\":\"Lowercase\"}]}",
                   "normalizer Lowercase");
    expect_refused("\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\"}",
                   "normalizer Sequence");
    expect_refused("\"byte_fallback\":false", "\"byte_fallback\":true",
                   "its byte_fallback has no token <0x00>");
    expect_refused("\"type\":\"BPE\"", "\"type\":\"Unigram\"", "model Unigram");
    expect_refused("\"Isolated\"", "\"Removed\"", "Split");
    expect_kind_refused("gpt4o", "\"Removed\"", "\"Isolated\"", "Split");
    expect_refused("(?i:", "(?i", "expression");
    expect_refused("\"add_prefix_space\":false", "\"add_prefix_space\":true", "adds a space");
    expect_refused("\"TemplateProcessing\"", "\"BertProcessing\"", "post-processor BertProcessing");
    expect_refused("\"single_word\":false", "\"single_word\":true", "text beside it");
    expect_kind_refused("llama2", "\"<late>\",\"single_word\":false,\"lstrip\":false",
                        "\"<late>\",\"single_word\":false,\"lstrip\":true", "text beside it");
    expect_refused("\"zqzq\":512", "\"zqzq\":1048576", "integers from 0");
    expect_refused("\"zqzq\":512", "\"zqzq\":300", "token 300");
    expect_refused("\"merges\":[[\"", "\"merges\":[[\"nowhere", "merge 0");
    expect_refused("\"pretokenizers\":[",
                   "\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":false},",
                   "behind ByteLevel");
    expect_refused("\"merges\":[", "\"merges\":[3,", "merge 0 is not a pair");
    expect_kind_refused("qwen2", "<\\u00E9t", "<e\\u0301t", "not in normal form C");
}

/* A tokenizer whose Split has that expression. */
static base_status try_split_by(const char *pattern, rank_tokenizer **tokenizer, base_error *error)
{
    test_directory scratch;
    json_t *root = json_load_file(ORACLE_DIRECTORY "/hub_llama3.json", 0, NULL);
    json_t *steps = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    json_t *regex = json_object_get(json_array_get(steps, 0), "pattern");
    assert_int_equal(json_object_set_new(regex, "Regex", json_string(pattern)), 0);
    test_directory_make(&scratch);
    const char *path = test_directory_path(&scratch, "tokenizer.json");
    assert_int_equal(json_dump_file(root, path, 0), 0);
    const base_status status = rank_tokenizer_load(path, tokenizer, error);
    test_directory_remove(&scratch);
    json_decref(root);
    return status;
}

static rank_tokenizer *load_split_by(const char *pattern)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(try_split_by(pattern, &tokenizer, &error), &error);
    return tokenizer;
}

/* Oniguruma reads these otherwise than PCRE2. */
static void what_has_another_meaning_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *reason; /* NULL: it is taken */
    } cases[] = {
        {"[\\p{L}&&[^a-z]]+", "&& in a class"},
        {"a|[^\\]&&b]", "&& in a class"},
        {"[]&&b]", "&& in a class"},
        {"[a[bc]]", "a class in a class"},
        {"[[:]", "a class in a class"},
        {"[[:alpha:]]", "a class in a class"},
        {"\\h+", "an escape"},
        {"[x\\H]", "an escape"},
        {"\\w+", "an escape"},
        {"a\\b", "an escape"},
        {"\\v", "an escape"},
        {"\\pL", "an escape"},
        {"\\x41", "an escape"},
        {"\\p{Han}", "no general category"},
        {"a\\Kb", "an escape"},
        {"(?m).+", "a group"},
        {"(?i-s:a)", "a group"},
        {"(?x)a", "a group"},
        {"(?P<n>a)", "a group"},
        {"(a(?1)?b)", "a group"},
        {"(?", "a group"},
        {"(*NO_JIT)a", "a group"},
        {"\\d{1,3}+", "a repetition"},
        {"\\d{2}?", "a repetition"},
        {"a{,3}", "a repetition"},
        {"(?i:'s|\\p{Lu})(?:a)(?=b)(?!c)(?<=d)(?<!e)(?>f)(?#g)(?<n>h)\\1(?-i)()(?i-:a)", NULL},
        {"\\d{1,3}?\\d{2}a{b}c{1,}[{,1}+]", NULL},
        {"[]&]&&|[&]&", NULL},
        {"\\[a&&b\\]|[\\[\\\\\\]&]\\\\h", NULL},
        {"[^]]&&[]&]&&", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        rank_tokenizer *tokenizer = NULL;
        assert_status(try_split_by(cases[i].pattern, &tokenizer, &error),
                      cases[i].reason == NULL ? BASE_OK : BASE_ERR_UNSUPPORTED);
        if (cases[i].reason != NULL && strstr(error.message, cases[i].reason) == NULL) {
            fail_msg("%s, not %s", error.message, cases[i].reason);
        }
        rank_tokenizer_destroy(tokenizer);
    }
}

/* The ids are those of the library. */
static void an_empty_match_cuts(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        const char *ids;
    } cases[] = {
        {"(?=(\\d{3})+(?!\\d))", "n 1234567 x", "[80,223,19,20,21,22,23,441,223,90]"},
        {"[a-z]*",
         "ab \xc3\xa9\xe4\xb8\xad"
         "cd9x",
         "[449,223,130,105,163,119,258,69,70,27,90]"},
        {"(?<![a-z])(?=[a-z])|(?<=[a-z])(?![a-z])", "it's so", "[75,86,9,85,223,85,81]"},
        {"^a|b$", "ab\nab\nba\n", "[67,68,201,67,68,201,68,67,201]"},
        {"", "ab\xc3\xa9", "[67,68,130,105]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rank_tokenizer *tokenizer = load_split_by(cases[i].pattern);
        json_t *text = json_string(cases[i].text);
        json_t *ids = json_loads(cases[i].ids, 0, NULL);
        check_ids(tokenizer, text, ids);
        json_decref(text);
        json_decref(ids);
        rank_tokenizer_destroy(tokenizer);
    }
}

/* What an expression of a file could do to the process: backtracking that takes gigabytes. */
static void expressions_do_no_harm(void **state)
{
    (void)state;
    enum { GROUPS = 3000, LONG = 16000 };
    static char text[LONG];
    static char many[2 * GROUPS + 64];
    static int32_t at[LONG];
    size_t used = 0;
    for (int i = 0; i < GROUPS; i++, used += 2) {
        memcpy(many + used, "()", 2);
    }
    (void)snprintf(many + used, sizeof many - used, "(?:a|ab)*");
    memset(text, 'a', sizeof text);
    base_error error = {.message = ""};
    rank_ids ids = {.at = at, .capacity = LONG};
    rank_tokenizer *tokenizer = load_split_by(many);
    assert_status(rank_tokenizer_encode(tokenizer, text, LONG, &ids, &error), BASE_ERR_LIMIT);
    assert_non_null(strstr(error.message, "expression 1"));
    rank_tokenizer_destroy(tokenizer);
}

/* A repeated group takes a frame for each letter, of which a long word has more than PCRE2's compiled code has
 * room for. The word is one piece all the same. */
static void a_long_word_is_one_piece(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    static char text[LONG];
    static int32_t plain_at[LONG];
    static int32_t grouped_at[LONG];
    base_error error;
    rank_ids plain = {.at = plain_at, .capacity = LONG};
    rank_ids grouped = {.at = grouped_at, .capacity = LONG};
    rank_tokenizer *of_plain = load_split_by("[a-z]+|[^a-z]+");
    rank_tokenizer *of_grouped = load_split_by("(?:[a-z]\\p{M}*)+|[^a-z]+");
    for (int i = 0; i < LONG; i++) {
        text[i] = (char)('a' + i % 23 * (i % 23) % 23);
    }
    assert_ok(rank_tokenizer_encode(of_plain, text, LONG, &plain, &error), &error);
    assert_ok(rank_tokenizer_encode(of_grouped, text, LONG, &grouped, &error), &error);
    assert_int_equal(plain.count, grouped.count);
    assert_memory_equal(plain_at, grouped_at, plain.count * sizeof *plain_at);
    rank_tokenizer_destroy(of_plain);
    rank_tokenizer_destroy(of_grouped);
}

/* Encodes e and an acute accent with a tokenizer of Qwen2's kind that has the normalizer. */
static size_t count_with(const char *normalizer)
{
    test_directory scratch;
    base_error error;
    rank_ids ids = {.capacity = 0};
    json_t *root = json_load_file(ORACLE_DIRECTORY "/hub_qwen2.json", 0, NULL);
    json_t *made = json_loads(normalizer, JSON_DECODE_ANY, NULL);
    assert_int_equal(json_object_set_new(root, "normalizer", made), 0);
    test_directory_make(&scratch);
    const char *path = test_directory_path(&scratch, "tokenizer.json");
    assert_int_equal(json_dump_file(root, path, 0), 0);
    rank_tokenizer *tokenizer = load(path);
    assert_ok(rank_tokenizer_encode(tokenizer, "e\xcc\x81", 3, &ids, &error), &error);
    rank_tokenizer_destroy(tokenizer);
    test_directory_remove(&scratch);
    json_decref(root);
    return ids.count;
}

static void a_sequence_of_normalizers_is_what_is_in_it(void **state)
{
    (void)state;
    const size_t off = count_with("null");
    const size_t on = count_with("{\"type\":\"NFC\"}");
    assert_true(off > on);
    assert_int_equal(count_with("{\"type\":\"Sequence\",\"normalizers\":[]}"), off);
    assert_int_equal(count_with("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}"),
                     on);
}

/* As in the library with encode_special_tokens. */
static void added_tokens_that_are_not_special_are_always_tokens(void **state)
{
    (void)state;
    static const char text[] = "a<|im_start|>b<|im_end|>c";
    test_directory scratch;
    json_t *root = json_load_file(ORACLE_DIRECTORY "/hub_qwen2.json", 0, NULL);
    json_t *added = json_array_get(json_object_get(root, "added_tokens"), 1); /* <|im_start|> */
    json_t *ids = json_pack("[iiiiiiiiii]", 67, 1, 68, 313, 461, 65, 303, 70, 365, 69);
    json_t *value = json_string(text);
    assert_int_equal(json_object_set_new(added, "special", json_false()), 0);
    test_directory_make(&scratch);
    const char *path = test_directory_path(&scratch, "tokenizer.json");
    assert_int_equal(json_dump_file(root, path, 0), 0);
    rank_tokenizer *tokenizer = load(path);
    check_ids(tokenizer, value, ids);
    check_text(tokenizer, value, ids);
    rank_tokenizer_destroy(tokenizer);
    test_directory_remove(&scratch);
    json_decref(value);
    json_decref(ids);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_tokens_may_take_the_spaces_beside_them),
        cmocka_unit_test(ids_are_those_of_the_library),
        cmocka_unit_test(a_template_says_what_stands_before_a_text),
        cmocka_unit_test(all_bytes_come_back),
        cmocka_unit_test(what_is_not_known_is_named),
        cmocka_unit_test(a_sequence_of_normalizers_is_what_is_in_it),
        cmocka_unit_test(added_tokens_that_are_not_special_are_always_tokens),
        cmocka_unit_test(what_has_another_meaning_is_refused),
        cmocka_unit_test(an_empty_match_cuts),
        cmocka_unit_test(expressions_do_no_harm),
        cmocka_unit_test(a_long_word_is_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
