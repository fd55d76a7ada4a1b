/* Which sentences a context holds: those whose own tokens are no more. */
#include "context.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "data_fixture.h"
#include "data_parts.h"
#include "record.h"

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
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    for (uint64_t i = 1 + (*random >> 33) % PARTS_MAX; i > 0; i--) {
        *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const char *part = parts[(*random >> 33) % (sizeof parts / sizeof *parts)];
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s", part);
    }
}

static size_t count(rank_tokenizer *tokenizer, const char *text, size_t text_bytes)
{
    base_error error;
    rank_ids ids = {.capacity = 0};
    assert_ok(rank_tokenizer_encode(tokenizer, text, text_bytes, &ids, &error), &error);
    return ids.count;
}

static void check_text(const rank_data_options *options, const char *text)
{
    base_error error;
    size_t own = 0;
    const size_t text_bytes = strlen(text);
    const size_t split = options->loss_on_correction ? rank_record_arrow_end(text, text_bytes) : 0;
    (void)rank_tokenizer_prefix(options->tokenizer, &own);
    own += count(options->tokenizer, text, split);
    own += count(options->tokenizer, text + split, text_bytes - split);
    for (size_t context = 1; context <= own + 2; context++) {
        bool exceeded = false;
        rank_data_options one = *options;
        one.context = (int)context;
        assert_ok(rank_context_exceeded(&one, text, text_bytes, &exceeded, &error), &error);
        if (exceeded != (own > context)) {
            fail_msg("\"%s\" has %zu tokens, context %zu", text, own, context);
        }
    }
}

static void a_sentence_is_left_out_if_its_own_tokens_exceed(void **state)
{
    (void)state;
    for (const char *const *kind = KINDS; *kind != NULL; kind++) {
        char path[256];
        base_error error;
        uint64_t random = 7;
        rank_data_options options = {.tokenizer = NULL};
        (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/%s.json", *kind);
        assert_ok(rank_tokenizer_load(path, &options.tokenizer, &error), &error);
        for (int i = 0; i < TEXTS; i++) {
            char text[TEXT_BYTES];
            draw_text(&random, text);
            options.loss_on_correction = i % 2 == 0;
            check_text(&options, text);
        }
        rank_tokenizer_destroy(options.tokenizer);
    }
}

/* Opens the data again, and expects that a batch is refused, also after a look ahead. */
static void expect_refused(const rank_data_options *options, bool unmeasured, const char *reason)
{
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    assert_ok(rank_data_open(options, &data, &error), &error);
    if (unmeasured) {
        assert_true(data->sentences[0].too_long);
        data->sentences[0].too_long = false;
    }
    rank_data_look_ahead(data, 0);
    assert_status(rank_data_next_batch(data, 0, &batch, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, reason));
    rank_data_close(data);
}

static void a_batch_without_progress_is_an_error(void **state)
{
    const data_fixture *fixture = *state;
    rank_data_options options = data_options(fixture, 1, 0, 1);
    options.context = 3;
    data_write(fixture, "{\"text\":\"#@%&#@%&\"}\n");
    for (options.batch = 1; options.batch <= 4; options.batch++) { /* it fits into 3 rows and 4 */
        expect_refused(&options, true, "8 tokens");
    }
}

/* As the library, the tokenizer leaves out a byte that its vocabulary does not have. */
static void a_sentence_without_tokens_is_an_error(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data_options options = data_options(fixture, 1, 0, 1);
    const char *path = test_directory_path(&fixture->directory, "tokenizer.json");
    json_t *root = json_load_file(ORACLE_DIRECTORY "/hub_gpt2.json", 0, NULL);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    assert_int_equal(json_object_del(vocab, "\xc4\x81"), 0); /* stands for byte 1 */
    assert_int_equal(json_dump_file(root, path, 0), 0);
    assert_ok(rank_tokenizer_load(path, &options.tokenizer, &error), &error);
    data_write(fixture, "{\"text\":\"\\u0001\"}\n");
    expect_refused(&options, false, "no token for a sentence");
    rank_tokenizer_destroy(options.tokenizer);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_is_left_out_if_its_own_tokens_exceed),
        cmocka_unit_test(a_batch_without_progress_is_an_error),
        cmocka_unit_test(a_sentence_without_tokens_is_an_error),
    };
    return cmocka_run_group_tests(tests, data_set_up, data_tear_down);
}
