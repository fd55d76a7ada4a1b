/* Texts in parts have the pieces of the whole, and files of both kinds are read. */
#include "tokenizer/texts.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "data/hub.h"
#include "data/text_cut.h"
#include "data/tokenizer_file.h"
#include "random_text.h"
#include "support.h"

enum {
    TRIALS = 3000,
    WORDS_MAX = 24,
    TEXT_BYTES_MAX = TEST_RANDOM_WORD_BYTES_MAX * WORDS_MAX,
    BLOCK_BYTES = 1 << 20,
    LONG_BYTES = 3 * BLOCK_BYTES
};

static rank_tokenizer *cutter;

static int set_up(void **state)
{
    base_error error;
    rank_bpe bytes;
    assert_ok(rank_bpe_init(&bytes, NULL, 0, &error), &error);
    json_t *root = rank_tokenizer_make(&bytes, RANK_TOKENIZER_AS_GPT2);
    assert_non_null(root);
    assert_ok(rank_tokenizer_create(root, &cutter, &error), &error);
    json_decref(root);
    rank_bpe_fini(&bytes);
    return test_shared_directory_make(state);
}

static int tear_down(void **state)
{
    rank_tokenizer_destroy(cutter);
    return test_shared_directory_remove(state);
}

/* The pieces of a text in their order, each ended by a zero. */
typedef struct listing {
    char pieces[4 * TEXT_BYTES_MAX];
    size_t used;
} listing;

static base_status take(void *context, const uint8_t *piece, size_t piece_bytes, base_error *reterr)
{
    (void)reterr;
    listing *to = context;
    assert_in_range(to->used + piece_bytes + 1, 1, sizeof to->pieces);
    memcpy(to->pieces + to->used, piece, piece_bytes);
    to->pieces[to->used + piece_bytes] = '\0';
    to->used += piece_bytes + 1;
    return BASE_OK;
}

static void list(const char *text, size_t text_bytes, listing *to)
{
    base_error error;
    assert_ok(rank_tokenizer_cut(cutter, text, text_bytes, take, to, &error), &error);
}

static void pieces_are_those_of_gpt2(void **state)
{
    (void)state;
    static const char expected[] = "He\0 didn\0't\0 go\0  \0 12\0 times\0!?\0\n\0\n\0x\0 ";
    static const char text[] = "He didn't go   12 times!?\n\nx ";
    listing found = {.used = 0};
    list(text, sizeof text - 1, &found);
    assert_int_equal(found.used, sizeof expected);
    assert_memory_equal(found.pieces, expected, sizeof expected);
}

static void a_cut_text_has_the_pieces_of_the_whole(void **state)
{
    (void)state;
    uint64_t random = 35001;
    int cuts = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        char text[TEXT_BYTES_MAX];
        const size_t text_bytes = test_random_text(&random, WORDS_MAX, text);
        const size_t cut = rank_text_cut(text, text_bytes);
        listing whole = {.used = 0};
        listing parts = {.used = 0};
        assert_true(cut < text_bytes || cut == 0);
        list(text, text_bytes, &whole);
        list(text, cut, &parts);
        list(text + cut, text_bytes - cut, &parts);
        assert_int_equal(parts.used, whole.used);
        assert_memory_equal(parts.pieces, whole.pieces, whole.used);
        cuts += cut > 0;
    }
    assert_in_range(cuts, TRIALS / 16, TRIALS - 1);
}

static uint64_t occurrences(const rank_piece_table *table, const char *piece)
{
    for (size_t i = 0; i < table->piece_count; i++) {
        if (table->pieces[i].size_bytes == strlen(piece) &&
            memcmp(table->bytes + table->pieces[i].offset, piece, strlen(piece)) == 0) {
            return table->pieces[i].occurrences;
        }
    }
    return 0;
}

static void count(const char *name, const char *text, size_t text_bytes, rank_piece_table *table)
{
    base_error error;
    const char *path = test_shared_path(name);
    assert_ok(base_file_write(path, text, text_bytes, &error), &error);
    assert_ok(rank_texts_count(path, cutter, table, &error), &error);
}

/* Longer than a block, with and without places to cut. */
static void long_files_are_read_in_blocks(void **state)
{
    (void)state;
    static const char line[] = "to be or  not\n";
    const uint64_t lines = LONG_BYTES / (sizeof line - 1);
    char *text = malloc(LONG_BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < LONG_BYTES; i++) {
        text[i] = line[i % (sizeof line - 1)];
    }
    rank_piece_table table = {.piece_count = 0};
    count("long.txt", text, lines * (sizeof line - 1), &table);
    assert_int_equal(table.text_bytes, lines * (sizeof line - 1));
    assert_int_equal(occurrences(&table, "to"), lines);
    assert_int_equal(occurrences(&table, " not"), lines);
    assert_int_equal(occurrences(&table, "\n"), lines);
    assert_int_equal(occurrences(&table, " "), lines);
    assert_int_equal(table.piece_count, 6);
    rank_piece_table_fini(&table);

    memset(text, 'w',
           LONG_BYTES); /* all but the last byte of a block, which the next begins with */
    count("word.txt", text, LONG_BYTES, &table);
    assert_int_equal(table.piece_count, 2);
    assert_int_equal(table.pieces[0].size_bytes, BLOCK_BYTES - 1);
    assert_int_equal(table.pieces[0].occurrences, LONG_BYTES / BLOCK_BYTES);
    assert_int_equal(table.pieces[1].size_bytes, LONG_BYTES / BLOCK_BYTES);
    rank_piece_table_fini(&table);
    free(text);
}

static void lines_are_texts_in_jsonl_only(void **state)
{
    (void)state;
    static const char text[] = "{\"text\": \"go\\u0020on\"}\n\n{\"wrong\":\"a\",\"right\":\"b\"}\n";
    rank_piece_table table = {.piece_count = 0};
    count("data.jsonl", text, sizeof text - 1, &table);
    assert_int_equal(occurrences(&table, "go"), 1);
    assert_int_equal(occurrences(&table, " on"), 1);
    assert_int_equal(occurrences(&table, " \xe2\x86\x92"), 1);
    assert_int_equal(table.piece_count, 5);
    count("data.txt", text, sizeof text - 1, &table);
    assert_int_equal(occurrences(&table, "wrong"), 1);
    rank_piece_table_fini(&table);
    count("empty.txt", "", 0, &table);
    assert_int_equal(table.piece_count, 0);
    rank_piece_table_fini(&table);
}

static void refuse(const char *path, const char *named)
{
    base_error error;
    rank_piece_table table = {.piece_count = 0};
    assert_int_not_equal(rank_texts_count(path, cutter, &table, &error), BASE_OK);
    assert_has(error.message, path);
    assert_has(error.message, named);
    rank_piece_table_fini(&table);
}

static void errors_name_file_and_line(void **state)
{
    (void)state;
    test_shared_put("bad.jsonl", "{\"text\":\"a\"}\n\n{\"text\":1}\n");
    const char *path = test_shared_path("bad.jsonl");
    refuse(path, ":3: \"text\" is not a string");
    refuse(test_shared_path("none.txt"), "No such file");
    refuse(test_shared_path("none.jsonl"), "No such file");
    refuse(test_shared_directory.path, "directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_those_of_gpt2),
        cmocka_unit_test(a_cut_text_has_the_pieces_of_the_whole),
        cmocka_unit_test(long_files_are_read_in_blocks),
        cmocka_unit_test(lines_are_texts_in_jsonl_only),
        cmocka_unit_test(errors_name_file_and_line),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
