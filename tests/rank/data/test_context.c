/* Which sentences a context holds: those whose own tokens are no more. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"
#include "random.h"

enum { TEXTS = 400, TEXT_BYTES = 200, PARTS_MAX = 24 };

static const char *const KINDS[] = {"tokenizer",  "hub_gpt2",  "hub_smollm2",
                                    "hub_llama3", "hub_qwen2", NULL};

/* Runs of spaces, marks that normal form C joins or takes apart, and what the splits cut by. */
static void draw_text(uint64_t *random, char text[TEXT_BYTES])
{
    static const char *const parts[] = {" ",
                                        "  ",
                                        "   ",
                                        "\n",
                                        "\t",
                                        "7",
                                        "12",
                                        "a",
                                        "the",
                                        " went",
                                        "'s",
                                        "!",
                                        "e\xcc\x81",
                                        "\xf0\x9d\x85\xa0",
                                        "->",
                                        "_",
                                        "\xc3\xa9",
                                        "\xe4\xb8\xad",
                                        " \xe2\x86\x92 "};
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 1 + test_random_below(random, PARTS_MAX); i > 0; i--) {
        const char *part = parts[test_random_below(random, sizeof parts / sizeof *parts)];
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s", part);
    }
}

static size_t count(rank_tokenizer *tokenizer, const char *text)
{
    base_error error;
    rank_ids ids = {.capacity = 0};
    assert_ok(rank_tokenizer_encode(tokenizer, text, strlen(text), &ids, &error), &error);
    return ids.count;
}

/* As a text, or as the answer to itself. */
static void check_text(const data_fixture *fixture, const rank_data_options *options,
                       const char *text, bool answered)
{
    base_error error;
    size_t own = 0;
    (void)rank_tokenizer_prefix(options->tokenizer, &own);
    own += (answered ? 2 : 1) * count(options->tokenizer, text);
    json_t *line = answered ? json_pack("{s:s, s:s}", "prompt", text, "completion", text)
                            : json_pack("{s:s}", "text", text);
    char *written = json_dumps(line, 0);
    data_write(fixture, written);
    for (size_t context = own > 1 ? own - 1 : 1; context <= own + 1; context++) {
        bool fits = false;
        uint64_t lines = 0;
        rank_data *data = NULL;
        rank_data_info info;
        rank_data_options one = *options;
        one.context = (int)context;
        assert_ok(rank_data_any_fits(&one, &fits, &lines, &error), &error);
        assert_ok(rank_data_open(&one, &data, &error), &error);
        rank_data_get_info(data, &info);
        if (fits != (own <= context) || info.sentences_long != (fits ? 0 : 1)) {
            fail_msg("\"%s\" has %zu tokens, context %zu", text, own, context);
        }
        rank_data_close(data);
    }
    free(written);
    json_decref(line);
}

static void a_sentence_is_left_out_if_its_own_tokens_exceed(void **state)
{
    const data_fixture *fixture = *state;
    for (const char *const *kind = KINDS; *kind != NULL; kind++) {
        char path[256];
        base_error error;
        uint64_t random = 7;
        rank_data_options options = data_options(fixture, 1, 0, 1);
        options.loss_on_correction = true;
        (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/%s.json", *kind);
        assert_ok(rank_tokenizer_load(path, &options.tokenizer, &error), &error);
        for (int i = 0; i < TEXTS; i++) {
            char text[TEXT_BYTES];
            draw_text(&random, text);
            check_text(fixture, &options, text, i % 2 == 0);
        }
        rank_tokenizer_destroy(options.tokenizer);
    }
}

/* A longer one than a first attempt has room for. */
static void a_long_sentence_is_encoded_whole(void **state)
{
    const data_fixture *fixture = *state;
    enum { WORDS = 3000 };
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    static char line[8 * WORDS];
    size_t used = (size_t)snprintf(line, sizeof line, "{\"text\":\"#@%%&");
    for (int i = 0; i < WORDS; i++) {
        used += (size_t)snprintf(line + used, sizeof line - used, " #");
    }
    (void)snprintf(line + used, sizeof line - used, "\"}\n{\"text\":\"a\"}\n");
    data_write(fixture, line);
    rank_data_options options = data_options(fixture, 1, 0, 1);
    options.context = 4 * WORDS;
    options.batch = 1;
    assert_ok(rank_data_open(&options, &data, &error), &error);
    data_next_batch(data, 0, &batch);
    assert_int_equal(batch.segment_count, 2);
    assert_int_equal(batch.token_count, count(fixture->tokenizer, "#@%& #") - 2 + 2 * WORDS + 1);
    rank_data_close(data);
}

/* As the library, the tokenizer leaves out a byte that its vocabulary does not have. */
static void a_sentence_without_tokens_is_an_error(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    rank_data_options options = data_options(fixture, 1, 0, 1);
    const char *path = test_directory_path(&fixture->directory, "tokenizer.json");
    json_t *root = json_load_file(ORACLE_DIRECTORY "/hub_gpt2.json", 0, NULL);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    assert_int_equal(json_object_del(vocab, "\xc4\x81"), 0); /* stands for byte 1 */
    assert_int_equal(json_dump_file(root, path, 0), 0);
    assert_ok(rank_tokenizer_load(path, &options.tokenizer, &error), &error);
    data_write(fixture, "{\"text\":\"a\"}\n{\"text\":\"\\u0001\"}\n");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "data.jsonl:2: the tokenizer has no token for it"));
    rank_tokenizer_destroy(options.tokenizer);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_is_left_out_if_its_own_tokens_exceed),
        cmocka_unit_test(a_long_sentence_is_encoded_whole),
        cmocka_unit_test(a_sentence_without_tokens_is_an_error),
    };
    return cmocka_run_group_tests(tests, data_set_up, data_tear_down);
}
