/* From files to a tokenizer.json that is loaded, gives back any bytes, and has the ids that were learned. */
#include "tokenizer/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/splitmix.h"
#include "rank/tokenizer.h"
#include "support.h"

enum { TEXT_BYTES = 200000, TEXTS = 3, FILE_BYTES_MAX = 16 << 20, RANDOM_BYTES = 4096 };

static char *paths[TEXTS];
static char *texts[TEXTS];

/* Texts of made-up words, of which some are much more frequent than others. */
static int set_up(void **state)
{
    uint64_t random = 35002;
    base_error error;
    (void)test_shared_directory_make(state);
    for (int i = 0; i < TEXTS; i++) {
        char *text = malloc(TEXT_BYTES + 1);
        assert_non_null(text);
        for (int at = 0; at < TEXT_BYTES; at++) {
            const uint64_t drawn = base_splitmix_next(&random);
            const uint64_t letter = (drawn & 0xff) * (drawn >> 8 & 0xff) >> 11;
            text[at] = letter < 26 ? (char)('a' + letter) : " \n.,'-"[letter - 26];
        }
        text[TEXT_BYTES] = '\0';
        const char name[] = {(char)('0' + i), '.', 't', 'x', 't', '\0'};
        paths[i] = strdup(test_shared_path(name));
        assert_non_null(paths[i]);
        assert_ok(base_file_write(paths[i], text, TEXT_BYTES, &error), &error);
        texts[i] = text;
    }
    return 0;
}

static int tear_down(void **state)
{
    for (int i = 0; i < TEXTS; i++) {
        free(paths[i]);
        free(texts[i]);
    }
    return test_shared_directory_remove(state);
}

static rank_learn_options options_of(const char *out, int vocab_size, char *const *from)
{
    return (rank_learn_options){
        .vocab_size = vocab_size, .out_path = out, .text_paths = from, .text_count = TEXTS};
}

static size_t encode(rank_tokenizer *tokenizer, const char *text, size_t text_bytes, int32_t *ids)
{
    base_error error;
    rank_ids encoded = {.at = ids, .capacity = text_bytes};
    assert_ok(rank_tokenizer_encode(tokenizer, text, text_bytes, &encoded, &error), &error);
    assert_in_range(encoded.count, 0, text_bytes);
    return encoded.count;
}

/* Encodes and decodes; returns the number of ids. */
static size_t check_round_trip(rank_tokenizer *tokenizer, const char *text, size_t text_bytes)
{
    int32_t *ids = malloc(text_bytes * sizeof *ids);
    char *decoded = malloc(text_bytes + 1);
    assert_non_null(ids);
    assert_non_null(decoded);
    const size_t count = encode(tokenizer, text, text_bytes, ids);
    assert_int_equal(rank_tokenizer_decode(tokenizer, ids, count, decoded, text_bytes + 1),
                     text_bytes);
    assert_memory_equal(decoded, text, text_bytes);
    free(ids);
    free(decoded);
    return count;
}

static void the_file_is_loaded_and_gives_back_any_bytes(void **state)
{
    (void)state;
    enum { VOCAB = 1024 };
    base_error error;
    rank_learn_summary summary;
    rank_tokenizer *tokenizer = NULL;
    uint64_t random = 35003;
    uint64_t count = 0;
    const char *out = test_shared_path("new/tokenizer.json");
    const rank_learn_options options = options_of(out, VOCAB, paths);
    assert_ok(rank_learn_run(&options, &summary, &error), &error);
    assert_ok(rank_tokenizer_load(out, &tokenizer, &error), &error);
    assert_int_equal(rank_tokenizer_vocab_size(tokenizer), VOCAB);
    assert_int_equal(rank_tokenizer_end_id(tokenizer), VOCAB - 1);
    assert_string_equal(rank_tokenizer_end_token(tokenizer), "<|endoftext|>");
    for (int i = 0; i < TEXTS; i++) {
        count += check_round_trip(tokenizer, texts[i], TEXT_BYTES);
    }
    assert_int_equal(summary.text_bytes, TEXTS * TEXT_BYTES);
    assert_int_equal(summary.id_count, count);
    assert_true(count < TEXTS * TEXT_BYTES / 3 * 2);

    char bytes[RANDOM_BYTES];
    for (int i = 0; i < RANDOM_BYTES; i++) {
        bytes[i] = (char)base_splitmix_next(&random);
    }
    (void)check_round_trip(tokenizer, bytes, sizeof bytes);
    rank_tokenizer_destroy(tokenizer);
}

static void the_order_of_files_does_not_matter(void **state)
{
    (void)state;
    base_error error;
    rank_learn_summary summary;
    void *first = NULL;
    size_t first_bytes = 0;
    for (int turn = 0; turn < TEXTS; turn++) {
        char *turned[TEXTS];
        size_t file_bytes = 0;
        for (int i = 0; i < TEXTS; i++) {
            turned[i] = paths[turn == 2 ? TEXTS - 1 - i : (turn + i) % TEXTS];
        }
        const char *out = test_shared_path("turned.json");
        const rank_learn_options options = options_of(out, 700, turned);
        assert_ok(rank_learn_run(&options, &summary, &error), &error);
        void *file = test_file_read(out, &file_bytes);
        if (turn == 0) {
            first = file;
            first_bytes = file_bytes;
            continue;
        }
        assert_int_equal(file_bytes, first_bytes);
        assert_memory_equal(file, first, first_bytes);
        free(file);
    }
    free(first);
}

/* The bound that the message names is the one. */
static void too_large_a_vocabulary_is_refused_with_the_largest(void **state)
{
    (void)state;
    base_error error;
    rank_learn_summary summary;
    rank_tokenizer *tokenizer = NULL;
    test_shared_put("small.txt", "abc abc abc");
    char small[BASE_PATH_BYTES];
    (void)snprintf(small, sizeof small, "%s", test_shared_path("small.txt"));
    char *const from[] = {small};
    rank_learn_options options = {
        .vocab_size = RANK_LEARN_VOCAB_MAX, .text_paths = from, .text_count = 1};
    options.out_path = test_shared_path("small.json");
    assert_status(rank_learn_run(&options, &summary, &error), BASE_ERR_INVALID);
    /* ab, abc, " abc" */
    assert_has(error.message, "give 3 merges: --vocab-size can be at most 260");
    options.vocab_size = 261;
    assert_status(rank_learn_run(&options, &summary, &error), BASE_ERR_INVALID);
    assert_status(rank_tokenizer_load(options.out_path, &tokenizer, &error), BASE_ERR_NOTFOUND);
    options.vocab_size = 260;
    assert_ok(rank_learn_run(&options, &summary, &error), &error);
    assert_int_equal(summary.id_count, 3);
    options.vocab_size = RANK_LEARN_VOCAB_MIN;
    assert_ok(rank_learn_run(&options, &summary, &error), &error);
    assert_int_equal(summary.id_count, 11);
    assert_ok(rank_tokenizer_load(options.out_path, &tokenizer, &error), &error);
    rank_tokenizer_destroy(tokenizer);
}

/* More different words than there are merges, each of them twice: all ids of 16 bits are used. */
static void the_largest_vocabulary_is_loaded(void **state)
{
    (void)state;
    enum { WORDS = 140000, WORD_BYTES = 6 };
    base_error error;
    rank_learn_summary summary;
    rank_tokenizer *tokenizer = NULL;
    char large[BASE_PATH_BYTES];
    (void)snprintf(large, sizeof large, "%s", test_shared_path("large.txt"));
    char *const from[] = {large};
    char *text = malloc((size_t)WORDS * WORD_BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t random = 35004 + i / 2;
        text[i * WORD_BYTES] = ' ';
        for (size_t j = 1; j < WORD_BYTES; j++) {
            text[i * WORD_BYTES + j] = (char)('a' + base_splitmix_next(&random) % 26);
        }
    }
    assert_ok(base_file_write(large, text, (size_t)WORDS * WORD_BYTES, &error), &error);
    const rank_learn_options options = {.vocab_size = RANK_LEARN_VOCAB_MAX,
                                        .out_path = test_shared_path("large.json"),
                                        .text_paths = from,
                                        .text_count = 1};
    assert_ok(rank_learn_run(&options, &summary, &error), &error);
    assert_ok(rank_tokenizer_load(options.out_path, &tokenizer, &error), &error);
    assert_int_equal(rank_tokenizer_vocab_size(tokenizer), 65536);
    assert_int_equal(check_round_trip(tokenizer, text, (size_t)WORDS * WORD_BYTES),
                     summary.id_count);
    rank_tokenizer_destroy(tokenizer);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_loaded_and_gives_back_any_bytes),
        cmocka_unit_test(the_order_of_files_does_not_matter),
        cmocka_unit_test(too_large_a_vocabulary_is_refused_with_the_largest),
        cmocka_unit_test(the_largest_vocabulary_is_loaded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
