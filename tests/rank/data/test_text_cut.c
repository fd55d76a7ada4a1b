/* Texts in two parts have the tokens of the whole, with tokenizers of every kind. */
#include "text_cut.h"

#include <stdio.h>
#include <string.h>

#include "random_text.h"
#include "rank/tokenizer.h"
#include "support.h"

enum {
    TRIALS = 2000,
    WORDS_MAX = 30,
    TEXT_BYTES_MAX = TEST_RANDOM_WORD_BYTES_MAX * WORDS_MAX,
    IDS_MAX = TEXT_BYTES_MAX
};

static const char *const kinds[] = {"tokenizer", "hub_gpt2", "hub_llama3", "hub_qwen2",
                                    "hub_smollm2"};

static size_t encode(rank_tokenizer *tokenizer, const char *text, size_t bytes, int32_t *at)
{
    base_error error;
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    assert_ok(rank_tokenizer_encode(tokenizer, text, bytes, &ids, &error), &error);
    assert_true(ids.count <= IDS_MAX);
    return ids.count;
}

static void parts_have_the_tokens_of_the_whole(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        char path[512];
        base_error error;
        rank_tokenizer *tokenizer = NULL;
        uint64_t random = 35001;
        int cuts[2] = {0, 0}; /* at spaces, and at ends of lines */
        (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/%s.json", kinds[kind]);
        assert_ok(rank_tokenizer_load(path, &tokenizer, &error), &error);
        for (int trial = 0; trial < TRIALS; trial++) {
            char text[TEXT_BYTES_MAX];
            int32_t whole[IDS_MAX];
            int32_t parts[2 * IDS_MAX];
            const size_t bytes = test_random_text(&random, WORDS_MAX, text);
            const size_t cut = rank_text_cut(text, bytes);
            assert_true(cut == 0 || cut < bytes);
            if (cut == 0 || (text[cut] == '\n' && rank_tokenizer_is_own(tokenizer))) {
                continue;
            }
            cuts[text[cut] == '\n']++;
            const size_t count = encode(tokenizer, text, bytes, whole);
            const size_t first = encode(tokenizer, text, cut, parts);
            const size_t second = encode(tokenizer, text + cut, bytes - cut, parts + first);
            assert_int_equal(first + second, count);
            assert_memory_equal(parts, whole, count * sizeof *whole);
        }
        assert_true(cuts[0] > TRIALS / 4);
        assert_true(rank_tokenizer_is_own(tokenizer) || cuts[1] > TRIALS / 50);
        rank_tokenizer_destroy(tokenizer);
    }
}

static void the_last_place_is_taken(void **state)
{
    (void)state;
    assert_int_equal(rank_text_cut("a b c", 5), 3);
    assert_int_equal(rank_text_cut("a b\nc", 5), 1);
    assert_int_equal(rank_text_cut("ab\ncd", 5), 2);
    assert_int_equal(rank_text_cut("a  b", 4), 0);
    assert_int_equal(rank_text_cut("a \nb", 4), 0);
    assert_int_equal(rank_text_cut(" b", 2), 0);
    assert_int_equal(rank_text_cut("a ", 2), 0);
    assert_int_equal(rank_text_cut("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_tokens_of_the_whole),
        cmocka_unit_test(the_last_place_is_taken),
    };
    return cmocka_run_group_tests_name("rank-data-text-cut", tests, NULL, NULL);
}
