/* Texts that are cut into windows: every token once, in order, whatever the slots; targets across a window's
 * end; and plain texts in blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data_fixture.h"

enum { SLOTS_MAX = 3, CONTEXT = 32, BLOCK = 1 << 20 };

typedef struct windows {
    size_t tokens; /* inputs */
    size_t count;
    size_t longest;
} windows;

static rank_data_options options_of(const data_fixture *fixture, int slots, int slot, bool plain)
{
    rank_data_options options = data_options(fixture, slots, slot, 1);
    options.windows = !plain;
    options.plain = plain;
    options.loss_on_correction = true; /* of windows all tokens count */
    return options;
}

/* Reads an epoch of every slot, whose windows come in an order of its own. So the pairs of a token and its
 * target are added up, which stand for their order in the text. */
static uint64_t sum_of_epoch(const data_fixture *fixture, int slots, bool plain, windows *found)
{
    uint64_t sum = 0;
    base_error error;
    *found = (windows){.count = 0};
    for (int slot = 0; slot < slots; slot++) {
        const rank_data_options options = options_of(fixture, slots, slot, plain);
        rank_data *data = NULL;
        assert_ok(rank_data_open(&options, &data, &error), &error);
        while (rank_data_remaining(data) > 0) {
            rank_batch batch;
            data_next_batch(data, 0, &batch);
            for (int s = 0; s < batch.segment_count; s++) {
                const int begin = batch.segment_start[s];
                const int end = batch.segment_start[s + 1];
                const size_t length = (size_t)(end - begin);
                found->count++;
                found->tokens += length;
                found->longest = length > found->longest ? length : found->longest;
                for (int t = begin; t < end; t++) {
                    assert_true(batch.targets[t] >= 0);
                    assert_true(t + 1 == end || batch.targets[t] == batch.ids[t + 1]);
                    sum += ((uint64_t)batch.ids[t] * 1000003U + (uint64_t)batch.targets[t]) *
                           UINT64_C(0x9e3779b97f4a7c15);
                }
            }
        }
        rank_data_close(data);
    }
    return sum;
}

/* The same sum of a text's tokens, one pair for each. */
static uint64_t sum_of_text(const data_fixture *fixture, const char *text, size_t bytes,
                            size_t *count)
{
    base_error error;
    int32_t *at = malloc((bytes + 1) * sizeof *at);
    assert_non_null(at);
    rank_ids ids = {.at = at, .capacity = bytes};
    uint64_t sum = 0;
    assert_ok(rank_tokenizer_encode(fixture->tokenizer, text, bytes, &ids, &error), &error);
    at[ids.count] = rank_tokenizer_end_id(fixture->tokenizer);
    for (size_t i = 0; i < ids.count; i++) {
        sum += ((uint64_t)at[i] * 1000003U + (uint64_t)at[i + 1]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    *count = ids.count;
    free(at);
    return sum;
}

static void expect_text(const data_fixture *fixture, const char *text)
{
    size_t count = 0;
    const uint64_t sum = sum_of_text(fixture, text, strlen(text), &count);
    data_write(fixture, text);
    for (int slots = 1; slots <= SLOTS_MAX; slots++) {
        windows found;
        assert_true(sum_of_epoch(fixture, slots, true, &found) == sum);
        assert_int_equal(found.tokens, count);
        assert_int_equal(found.count, (count + CONTEXT - 1) / CONTEXT);
        assert_int_equal(found.longest, count < CONTEXT ? count : CONTEXT);
    }
}

static void every_token_is_an_input_once(void **state)
{
    static char text[4096];
    for (size_t bytes = 1; bytes < 400; bytes += bytes < 80 ? 1 : 37) {
        for (size_t i = 0; i < bytes; i++) {
            text[i] = "the ring all-reduce\n of he goes, "[(i * 7 + i / 5) % 32];
        }
        text[bytes] = '\0';
        expect_text(*state, text);
    }
}

static void lines_are_texts_of_their_own(void **state)
{
    const data_fixture *fixture = *state;
    static char longer[2000];
    static char file[6000];
    static const char *const texts[] = {"he goes", longer, "she \xe2\x86\x92 he",
                                        "wrong \xe2\x86\x92 right"};
    uint64_t sum = 0;
    size_t count = 0;
    memset(longer, 'x', sizeof longer - 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t own = 0;
        sum += sum_of_text(fixture, texts[i], strlen(texts[i]), &own);
        count += own;
    }
    (void)snprintf(file, sizeof file,
                   "{\"text\":\"%s\"}\n\n{\"text\":\"%s\"}\n{\"text\":\"%s\"}\n"
                   "{\"wrong\":\"wrong\",\"right\":\"right\"}\n",
                   texts[0], texts[1], texts[2]);
    data_write(fixture, file);
    for (int slots = 1; slots <= SLOTS_MAX; slots++) {
        windows found;
        assert_true(sum_of_epoch(fixture, slots, false, &found) == sum);
        assert_int_equal(found.tokens, count);
    }
}

/* Where blocks meet, lines give the tokens that the whole text has. */
static void blocks_do_not_show(void **state)
{
    const size_t bytes = 2 * (size_t)BLOCK + 12345;
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = i % 61 == 60 ? '\n' : "he goed to the school yesterday "[(i + i / 61) % 32];
        text[i] = i % 61 == 0 ? 'h' : text[i]; /* a line does not begin with a space */
    }
    text[bytes] = '\0';
    expect_text(*state, text);
    free(text);
}

/* Without a line's end a block ends between two characters, and no byte is lost. */
static void characters_stay_whole(void **state)
{
    const data_fixture *fixture = *state;
    const size_t bytes = 3 * ((size_t)BLOCK / 2);
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = "\xe2\x86\x92"[i % 3];
    }
    text[bytes] = '\0';
    data_write(fixture, text);
    const rank_data_options options = options_of(fixture, 1, 0, true);
    base_error error;
    rank_data *data = NULL;
    char decoded[4096];
    size_t decoded_bytes = 0;
    assert_ok(rank_data_open(&options, &data, &error), &error);
    while (rank_data_remaining(data) > 0) {
        rank_batch batch;
        data_next_batch(data, 0, &batch);
        decoded_bytes += rank_tokenizer_decode(fixture->tokenizer, batch.ids,
                                               (size_t)batch.token_count, decoded, sizeof decoded);
    }
    assert_int_equal(decoded_bytes, bytes);
    rank_data_close(data);
    free(text);
}

static void what_cannot_be_cut_is_refused(void **state)
{
    const data_fixture *fixture = *state;
    rank_data_options options = options_of(fixture, 1, 0, true);
    base_error error;
    rank_data *data = NULL;
    data_write(fixture, "");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "has no text"));
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/hub_llama3.json", &options.tokenizer, &error),
              &error);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "has no text")); /* a token before each text makes none */
    rank_tokenizer_destroy(options.tokenizer);
    options = options_of(fixture, 1, 0, false);
    data_write(fixture, "{\"text\":\"a\"}\nplain\n");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":2: "));
    options.path = "/nowhere/text.txt";
    options.plain = true;
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_NOTFOUND);
    options.path = "/tmp";
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    assert_null(data);
}

/* A compressed file is none, and would train all the same. A mark that some editors write first is not learned. */
static void a_text_has_no_nul_and_no_mark(void **state)
{
    const data_fixture *fixture = *state;
    const rank_data_options options = options_of(fixture, 1, 0, true);
    const size_t bytes = (size_t)BLOCK + 100;
    base_error error;
    rank_data *data = NULL;
    rank_data_info info;
    char reason[64];
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, 'a', bytes);
    static const size_t places[] = {0, BLOCK - 1, BLOCK + 99};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        text[places[i]] = '\0';
        assert_ok(base_file_write(fixture->path, text, bytes, &error), &error);
        assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
        (void)snprintf(reason, sizeof reason, "is no text: byte %zu is a NUL", places[i] + 1);
        assert_non_null(strstr(error.message, reason));
        text[places[i]] = 'a';
    }
    free(text);
    data_write(fixture, "\xef\xbb\xbfhe goes");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_info(data, &info);
    assert_string_equal(info.first_sentence, "he goes");
    rank_data_close(data);
    data_write(fixture, "\xef\xbb\xbf");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "has no text"));
}

/* Latin-1 and line ends of Windows are learned as they are, and that is said. What cuts a text in blocks cuts no character. */
static void other_encodings_are_found(void **state)
{
    const data_fixture *fixture = *state;
    const rank_data_options options = options_of(fixture, 1, 0, true);
    static const char utf16[] = "\xff\xfeh\0e\0";
    base_error error;
    rank_data *data = NULL;
    rank_data_info info;
    const size_t bytes = (size_t)BLOCK + 101;
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    for (int latin1 = 0; latin1 < 2; latin1++) {
        for (size_t i = 0; i < bytes; i++) {
            text[i] = i % 2 == 0 ? '\xc3' : '\xb6';
        }
        text[bytes - 1] = latin1 ? '\xf6' : 'a';
        assert_ok(base_file_write(fixture->path, text, bytes, &error), &error);
        assert_ok(rank_data_open(&options, &data, &error), &error);
        rank_data_get_info(data, &info);
        assert_int_equal(info.other_encoding, latin1);
        rank_data_close(data);
    }
    free(text);
    for (int returns = 0; returns < 2; returns++) {
        data_write(fixture, returns == 1 ? "he goes\r\nshe goes\r\n" : "he goes\nshe\rgoes\n");
        assert_ok(rank_data_open(&options, &data, &error), &error);
        rank_data_get_info(data, &info);
        assert_int_equal(info.has_returns, returns);
        rank_data_close(data);
    }
    assert_ok(base_file_write(fixture->path, utf16, sizeof utf16 - 1, &error), &error);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "is UTF-16: save it as UTF-8"));
}

/* What is shown of a rank's windows is one line. */
static void the_first_one_is_shown(void **state)
{
    const data_fixture *fixture = *state;
    const rank_data_options options = options_of(fixture, 1, 0, true);
    base_error error;
    rank_data *data = NULL;
    rank_data_info info;
    data_write(fixture, "ROMEO:\nhe goes\tthere");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_info(data, &info);
    assert_string_equal(info.first_sentence, "ROMEO: he goes there");
    assert_int_equal(info.sentences_total, 1);
    assert_int_equal(info.sentences_long, 0);
    rank_data_close(data);
}

/* A plain text has no pairs, whatever characters it has. */
static void pairs_are_counted(void **state)
{
    const data_fixture *fixture = *state;
    static const char pair[] = "{\"wrong\":\"a\",\"right\":\"b\"}\n";
    static const char lines[] = "{\"text\":\"open File \xe2\x86\x92 New\"}\n{\"text\":\"a\"}\n";
    char file[256];
    base_error error;
    rank_data_info info;
    (void)snprintf(file, sizeof file, "%s%s%s%s", pair, lines, pair, pair);
    data_write(fixture, file);
    for (int kind = 0; kind < 3; kind++) { /* windows, a plain text, sentences */
        static const uint64_t pairs[] = {3, 0, 3};
        static const uint64_t records[] = {5, 1, 5};
        rank_data_options options = options_of(fixture, 1, 0, kind == 1);
        options.windows = kind == 0;
        rank_data *data = NULL;
        assert_ok(rank_data_open(&options, &data, &error), &error);
        rank_data_get_info(data, &info);
        assert_int_equal(info.records, records[kind]);
        assert_int_equal(info.pairs, pairs[kind]);
        rank_data_close(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_an_input_once),
        cmocka_unit_test(lines_are_texts_of_their_own),
        cmocka_unit_test(blocks_do_not_show),
        cmocka_unit_test(characters_stay_whole),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
        cmocka_unit_test(a_text_has_no_nul_and_no_mark),
        cmocka_unit_test(other_encodings_are_found),
        cmocka_unit_test(the_first_one_is_shown),
        cmocka_unit_test(pairs_are_counted),
    };
    return cmocka_run_group_tests_name("rank-data-windows", tests, data_set_up, data_tear_down);
}
