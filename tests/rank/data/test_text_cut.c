/* Texts in two parts have the tokens of the whole, with tokenizers of every kind; and files are read in parts. */
#include "text_cut.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "random_text.h"
#include "rank/tokenizer.h"
#include "support.h"
#include "text_parts.h"

enum {
    TRIALS = 2000,
    WORDS_MAX = 30,
    TEXT_BYTES_MAX = TEST_RANDOM_WORD_BYTES_MAX * WORDS_MAX,
    IDS_MAX = TEXT_BYTES_MAX
};

enum { BY_SPACES = 0 }; /* the first of these: an end of a line is none of its pieces */
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
            if (cut == 0 || (text[cut] == '\n' && kind == BY_SPACES)) {
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
        assert_true(kind == BY_SPACES || cuts[1] > TRIALS / 50);
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

/* A block without a place to cut gives all but its last character, or, where its end is none, all. */
static void a_block_without_a_place_is_used_up(void **state)
{
    (void)state;
    assert_int_equal(rank_text_block("a b c", 5), 3);
    assert_int_equal(rank_text_block("aaaa", 4), 3);
    assert_int_equal(rank_text_block("\xe2\x86\x92\xe2\x86\x92", 6), 3);
    assert_int_equal(rank_text_block("\xe2\x86\x92\xe2", 4), 3);
    assert_int_equal(rank_text_block("aa\xf0\x9f\x98\x80", 6), 2);
    assert_int_equal(rank_text_block("aaa\x80\x80\x80\x80", 7), 7);
    assert_int_equal(rank_text_block("\x80\x80\x80\x80\x80\x80", 6), 6);
    assert_int_equal(rank_text_block("\xe2\x86\x92", 3), 3);
    assert_int_equal(rank_text_block("a", 1), 1);
}

/* Counts the parts of a text, and checks that they are all of it. */
typedef struct parts {
    const char *text;
    size_t done;
    size_t count;
    size_t ends;
} parts;

static base_status take_part(void *user, const rank_text_part *part, base_error *reterr)
{
    parts *seen = user;
    (void)reterr;
    assert_int_equal(part->begins, seen->count == 0);
    assert_memory_equal(part->at, seen->text + seen->done, part->bytes);
    seen->done += part->bytes;
    seen->count++;
    seen->ends += part->ends ? 1 : 0;
    return BASE_OK;
}

/* Each block is used up but for a few bytes, whatever bytes a text has. */
static void no_text_takes_more_parts_than_blocks(void **state)
{
    (void)state;
    enum { BLOCK = 1 << 20, BYTES = 3 * BLOCK };
    static const char *const units[] = {"\x80", "a", "\xe2\x86\x92", "he goes \n"};
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        for (size_t at = 0; at < BYTES; at++) {
            text[at] = units[i][at % strlen(units[i])];
        }
        base_error error;
        parts seen = {.text = text};
        const char *path = test_shared_path("text");
        assert_ok(base_file_write(path, text, BYTES, &error), &error);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_ok(rank_text_parts_plain(path, fd, take_part, &seen, &error), &error);
        (void)close(fd);
        assert_int_equal(seen.done, BYTES);
        assert_int_equal(seen.ends, 1);
        assert_in_range(seen.count, 3, 4);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_tokens_of_the_whole),
        cmocka_unit_test(the_last_place_is_taken),
        cmocka_unit_test(a_block_without_a_place_is_used_up),
        cmocka_unit_test(no_text_takes_more_parts_than_blocks),
    };
    return cmocka_run_group_tests_name("rank-data-text-cut", tests, test_shared_directory_make,
                                       test_shared_directory_remove);
}
