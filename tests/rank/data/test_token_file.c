/* Files of tokens: the windows that the plain text itself has, in the same batches, and whatever is no such file is
 * refused by its name. */
#include "token_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data_fixture.h"

#define DIGEST            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER             "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define MADE_WITH(digest) "\"__metadata__\":{\"tokenizer_sha256\":\"" digest "\"},"

enum { SLOTS_MAX = 4, CONTEXT = 32, TEXT_BYTES = 20000, TOKENS_MAX = TEXT_BYTES + 1 };

/* A safetensors file of the header and the data. */
static void put_file(const data_fixture *fixture, const char *header, const void *data,
                     size_t data_bytes)
{
    base_error error;
    const size_t header_bytes = strlen(header);
    uint8_t *file = calloc(1, 8 + header_bytes + data_bytes + 1);
    assert_non_null(file);
    file[0] = (uint8_t)header_bytes;
    file[1] = (uint8_t)(header_bytes >> 8);
    memcpy(file + 8, header, header_bytes);
    memcpy(file + 8 + header_bytes, data, data_bytes);
    assert_ok(base_file_write(fixture->path, file, 8 + header_bytes + data_bytes, &error), &error);
    free(file);
}

static void put_tokens(const data_fixture *fixture, const int32_t *ids, size_t count, bool narrow)
{
    static uint16_t short_ids[TOKENS_MAX];
    char header[512];
    const size_t bytes = count * (narrow ? 2 : 4);
    for (size_t i = 0; i < count; i++) {
        short_ids[i] = (uint16_t)ids[i];
    }
    (void)snprintf(header, sizeof header,
                   "{" MADE_WITH(DIGEST) "\"tokens\":{\"dtype\":\"%s\",\"shape\":[%zu],"
                                         "\"data_offsets\":[0,%zu]}}",
                   narrow ? "U16" : "U32", count, bytes);
    put_file(fixture, header, narrow ? (const void *)short_ids : ids, bytes);
}

static rank_data_options tokens_of(const data_fixture *fixture, int slots, int first, int here)
{
    rank_data_options options = data_options(fixture, slots, first, here);
    options.tokens = true;
    options.tokenizer_sha256 = DIGEST;
    return options;
}

/* The plain text's tokens and its end. */
static size_t encode(const data_fixture *fixture, const char *text, size_t bytes, int32_t *ids)
{
    base_error error;
    rank_ids encoded = {.at = ids, .capacity = TOKENS_MAX};
    assert_ok(rank_tokenizer_encode(fixture->tokenizer, text, bytes, &encoded, &error), &error);
    ids[encoded.count] = rank_tokenizer_end_id(fixture->tokenizer);
    return encoded.count + 1;
}

static void assert_same_batch(const rank_batch *a, const rank_batch *b)
{
    assert_int_equal(a->token_count, b->token_count);
    assert_int_equal(a->segment_count, b->segment_count);
    const size_t tokens = (size_t)a->token_count;
    assert_memory_equal(a->ids, b->ids, tokens * sizeof *a->ids);
    assert_memory_equal(a->targets, b->targets, tokens * sizeof *a->targets);
    assert_memory_equal(a->segment_start, b->segment_start,
                        ((size_t)a->segment_count + 1) * sizeof *a->segment_start);
}

/* Every batch of every slot, over two epochs and after a seek. */
static void assert_same_data(rank_data *plain, rank_data *tokens, int slots)
{
    static const uint32_t places[SLOTS_MAX] = {1, 0, 1, 1};
    rank_data_info a;
    rank_data_info b;
    base_error error;
    rank_data_get_info(plain, &a);
    rank_data_get_info(tokens, &b);
    assert_true(a.sentences_total == b.sentences_total && a.sentences_shard == b.sentences_shard);
    assert_int_equal(b.sentences_long, 0);
    assert_true(a.records == b.records && a.pairs == b.pairs);
    assert_string_equal(a.first_sentence, b.first_sentence);
    for (int epoch = 0; epoch < 3; epoch++) {
        assert_int_equal(rank_data_remaining(plain), rank_data_remaining(tokens));
        while (rank_data_remaining(plain) > 0) {
            for (int slot = 0; slot < slots; slot++) {
                rank_batch of_plain;
                rank_batch of_tokens;
                data_next_batch(plain, slot, &of_plain);
                data_next_batch(tokens, slot, &of_tokens);
                assert_same_batch(&of_plain, &of_tokens);
            }
        }
        rank_data_next_epoch(plain);
        rank_data_next_epoch(tokens);
        if (epoch == 1 && a.sentences_shard >= 2 * (uint64_t)slots) {
            assert_ok(rank_data_seek(plain, 7, places, &error), &error);
            assert_ok(rank_data_seek(tokens, 7, places, &error), &error);
        }
    }
}

/* Whatever the slots, how a rank's stand among the job's, and where the last window ends. */
static void a_text_and_its_tokens_are_the_same(void **state)
{
    const data_fixture *fixture = *state;
    static char text[TEXT_BYTES + 1];
    static int32_t ids[TOKENS_MAX];
    base_error error;
    for (size_t bytes = 1; bytes <= TEXT_BYTES; bytes += bytes < 100 ? 1 : 6637) {
        for (size_t i = 0; i < bytes; i++) {
            text[i] = "the ring all-reduce\n of he goes, "[(i * 7 + i / 5) % 32];
        }
        text[bytes] = '\0';
        const size_t count = encode(fixture, text, bytes, ids);
        for (int here = 1; here <= 2; here++) {
            rank_data_options options = data_options(fixture, SLOTS_MAX, here - 1, here);
            options.slot_step = here;
            rank_data *plain = NULL;
            rank_data *tokens = NULL;
            data_write(fixture, text);
            options.plain = true;
            assert_ok(rank_data_open(&options, &plain, &error), &error);
            options.plain = here == 2; /* it does not matter for tokens */
            options.tokens = true;
            options.tokenizer_sha256 = DIGEST;
            put_tokens(fixture, ids, count, bytes % 2 == 0);
            assert_ok(rank_data_open(&options, &tokens, &error), &error);
            assert_same_data(plain, tokens, here);
            rank_data_close(plain);
            rank_data_close(tokens);
        }
    }
}

/* What is refused, and words of the reason. */
static void expect_refused(const data_fixture *fixture, const char *header, size_t data_bytes,
                           const char *reason)
{
    static const uint8_t zeros[64];
    const rank_data_options options = tokens_of(fixture, 1, 0, 1);
    base_error error;
    rank_data *data = NULL;
    put_file(fixture, header, zeros, data_bytes);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_null(data);
    assert_has(error.message, fixture->path);
    assert_has(error.message, reason);
    if (strcmp(reason, "has no text") != 0) {
        assert_status(rank_data_check_tokens(&options, &error), BASE_ERR_INVALID);
        assert_has(error.message, reason);
    }
}

#define TOKENS(dtype, shape, end)                                                                  \
    "\"tokens\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[0," end "]}"

static void other_files_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *reason;
    } cases[] = {
        {"{" MADE_WITH(OTHER) TOKENS("U16", "4", "8") "}", 8,
         "made with another tokenizer (SHA-256 ff0102030405…, this job's 000102030405…)"},
        {"{" TOKENS("U16", "4", "8") "}", 8, "does not say which tokenizer"},
        {"{\"__metadata__\":{\"tokenizer_sha256\":\"\"}," TOKENS("U16", "4", "8") "}", 8,
         "does not say which tokenizer"},
        {"{" MADE_WITH("\\u001b[2J\\nlauncher: done") TOKENS("U16", "4", "8") "}", 8,
         "does not say which tokenizer"},
        {"{" MADE_WITH(DIGEST "0") TOKENS("U16", "4", "8") "}", 8, "does not say which tokenizer"},
        {"{" MADE_WITH(DIGEST) TOKENS("I32", "2", "8") "}", 8, "no file of tokens"},
        {"{" MADE_WITH(DIGEST) TOKENS("U16", "2,2", "8") "}", 8, "no file of tokens"},
        {"{" MADE_WITH(DIGEST) TOKENS("U16", "", "2") "}", 2, "no file of tokens"},
        {"{}", 0, "no file of tokens"},
        {"{" MADE_WITH(DIGEST) TOKENS("U16", "2", "4") ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
                                                       "\"data_offsets\":[4,8]}}",
         8, "no file of tokens"},
        {"{" MADE_WITH(DIGEST) TOKENS("U16", "5", "8") "}", 8, "8 bytes do not hold its shape"},
        {"{" MADE_WITH(DIGEST) TOKENS("U16", "4", "8") "}", 7, "outside the file"},
        {"{" MADE_WITH(DIGEST) TOKENS("U16", "4", "8") "}", 9, "1 bytes after the last tensor"},
        {"{" MADE_WITH(DIGEST) TOKENS("U16", "0", "0") "}", 0, "has no text"},
        {"{" MADE_WITH(DIGEST) TOKENS("U32", "1", "4") "}", 4, "has no text"},
        {"no JSON", 8, "its header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_refused(*state, cases[i].header, cases[i].data_bytes, cases[i].reason);
    }
}

static void no_file_is_refused(void **state)
{
    rank_data_options options = tokens_of(*state, 1, 0, 1);
    base_error error;
    rank_data *data = NULL;
    options.path = "/nowhere/a.safetensors";
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_NOTFOUND);
    options.path = "/tmp";
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    assert_status(rank_data_check_tokens(&options, &error), BASE_ERR_IO);
    options.path = "/dev/zero";
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    data_write(*state, "a plain text is none, whatever its name");
    options.path = ((const data_fixture *)*state)->path;
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_has(error.message, "it is a text");
    assert_null(data);
}

/* They are found when a batch takes them, or if they are shown. */
static void tokens_beyond_the_vocabulary_are_refused(void **state)
{
    const data_fixture *fixture = *state;
    static int32_t ids[200];
    static const int32_t beyond[] = {INT32_MAX, -1, 65535};
    const rank_data_options options = tokens_of(fixture, 1, 0, 1);
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    char reason[128];
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        const bool narrow = beyond[i] == 65535;
        ids[150] = beyond[i];
        put_tokens(fixture, ids, 200, narrow);
        assert_ok(rank_data_open(&options, &data, &error), &error);
        base_status status = BASE_OK;
        while (status == BASE_OK) {
            assert_true(rank_data_remaining(data) > 0);
            status = rank_data_next_batch(data, 0, &batch, &error);
        }
        (void)snprintf(reason, sizeof reason, "%s: token 150 is %u, and the tokenizer has %d",
                       fixture->path, (unsigned)beyond[i],
                       rank_tokenizer_vocab_size(fixture->tokenizer));
        assert_string_equal(error.message, reason);
        assert_int_equal(status, BASE_ERR_INVALID);
        rank_data_close(data);
        ids[150] = 0;
    }
    ids[0] = rank_tokenizer_vocab_size(fixture->tokenizer);
    put_tokens(fixture, ids, 200, true);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_has(error.message, "token 0 is");
    ids[0] = 0;
}

/* An error, and no signal. */
static void a_file_may_become_shorter(void **state)
{
    const data_fixture *fixture = *state;
    static int32_t ids[200];
    const rank_data_options options = tokens_of(fixture, 1, 0, 1);
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    put_tokens(fixture, ids, 200, true);
    assert_ok(rank_data_open(&options, &data, &error), &error);
    assert_int_equal(truncate(fixture->path, 300), 0);
    base_status status = BASE_OK;
    while (status == BASE_OK && rank_data_remaining(data) > 0) {
        status = rank_data_next_batch(data, 0, &batch, &error);
    }
    assert_int_equal(status, BASE_ERR_INVALID);
    assert_has(error.message, fixture->path);
    assert_has(error.message, "became shorter");
    rank_data_close(data);
}

/* More tokens than one read takes, from any place. */
static void long_parts_are_read(void **state)
{
    const data_fixture *fixture = *state;
    static int32_t ids[TOKENS_MAX];
    static int32_t read_ids[TOKENS_MAX];
    static const struct {
        size_t first;
        size_t count;
    } parts[] = {{0, TOKENS_MAX}, {1, 4096}, {5000, 4097}, {TOKENS_MAX, 0}, {TOKENS_MAX - 1, 1}};
    base_error error;
    for (int i = 0; i < TOKENS_MAX; i++) {
        ids[i] = i * 7919 % 65537 - (i * 7919 % 65537 == 65536);
    }
    for (int narrow = 0; narrow < 2; narrow++) {
        rank_token_file *file = NULL;
        put_tokens(fixture, ids, TOKENS_MAX, narrow == 1);
        assert_ok(rank_token_file_open(fixture->path, DIGEST, &file, &error), &error);
        assert_int_equal(rank_token_file_count(file), TOKENS_MAX);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            assert_ok(
                rank_token_file_read(file, parts[i].first, parts[i].count, 65536, read_ids, &error),
                &error);
            assert_memory_equal(read_ids, ids + parts[i].first, parts[i].count * sizeof *ids);
        }
        rank_token_file_close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_and_its_tokens_are_the_same),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(no_file_is_refused),
        cmocka_unit_test(tokens_beyond_the_vocabulary_are_refused),
        cmocka_unit_test(a_file_may_become_shorter),
        cmocka_unit_test(long_parts_are_read),
    };
    return cmocka_run_group_tests_name("rank-data-token-file", tests, data_set_up, data_tear_down);
}
