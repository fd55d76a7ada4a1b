/* The tokenizer against the Hugging Face library's ids for the same file (tests/oracle). */
#include "rank/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bpe.h"
#include "support.h"
#include "tokenizer_file.h"

enum { IDS_MAX = 512, TEXT_BYTES_MAX = 1024, FIXTURES_MIN = 200 };

static rank_tokenizer *load(void)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/tokenizer.json", &tokenizer, &error), &error);
    return tokenizer;
}

/* Encodes into ids (capacity), and returns how many the text has. */
static size_t encode(rank_tokenizer *tokenizer, const char *text, size_t text_bytes, int32_t *ids,
                     size_t capacity)
{
    base_error error;
    rank_ids encoded = {.at = ids, .capacity = capacity};
    assert_ok(rank_tokenizer_encode(tokenizer, text, text_bytes, &encoded, &error), &error);
    return encoded.count;
}

static void check_fixture(rank_tokenizer *tokenizer, const json_t *fixture)
{
    const json_t *text = json_object_get(fixture, "text");
    const json_t *expected = json_object_get(fixture, "ids");
    int32_t ids[IDS_MAX];
    char decoded[TEXT_BYTES_MAX];
    size_t count = 0;
    count = encode(tokenizer, json_string_value(text), json_string_length(text), ids, IDS_MAX);
    assert_int_equal(count, json_array_size(expected));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ids[i], json_integer_value(json_array_get(expected, i)));
    }
    assert_int_equal(rank_tokenizer_decode(tokenizer, ids, count, decoded, sizeof decoded),
                     json_string_length(text));
    assert_string_equal(decoded, json_string_value(text));
}

/* Twice, so that the second round comes from the cache. */
static void ids_are_those_of_the_library(void **state)
{
    (void)state;
    rank_tokenizer *tokenizer = load();
    for (int round = 0; round < 2; round++) {
        int fixtures = 0;
        FILE *file = fopen(ORACLE_DIRECTORY "/tokenizer_ids.jsonl", "r");
        assert_non_null(file);
        json_t *fixture = NULL;
        while ((fixture = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
            check_fixture(tokenizer, fixture);
            json_decref(fixture);
            fixtures++;
        }
        (void)fclose(file);
        assert_true(fixtures > FIXTURES_MIN);
    }
    rank_tokenizer_destroy(tokenizer);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    rank_tokenizer *tokenizer = load();
    char text[256];
    char decoded[sizeof text + 1];
    int32_t ids[sizeof text];
    size_t count = 0;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(255 - i);
    }
    count = encode(tokenizer, text, sizeof text, ids, sizeof text);
    assert_int_equal(rank_tokenizer_decode(tokenizer, ids, count, decoded, sizeof decoded),
                     sizeof text);
    assert_memory_equal(decoded, text, sizeof text);
    rank_tokenizer_destroy(tokenizer);
}

static void ids_that_do_not_fit_are_counted(void **state)
{
    (void)state;
    rank_tokenizer *tokenizer = load();
    const char text[] = "the boy went to school";
    int32_t all[32];
    int32_t cut[32];
    char decoded[8];
    size_t count = 0;
    size_t again = 0;
    assert_int_equal(rank_tokenizer_vocab_size(tokenizer), 512);
    assert_int_equal(rank_tokenizer_end_id(tokenizer), 511);
    count = encode(tokenizer, text, strlen(text), all, 32);
    memset(cut, -1, sizeof cut);
    again = encode(tokenizer, text, strlen(text), cut, 3);
    assert_int_equal(again, count);
    assert_memory_equal(cut, all, 3 * sizeof *cut);
    assert_int_equal(cut[3], -1);
    again = encode(tokenizer, text, strlen(text), NULL, 0);
    assert_int_equal(again, count);
    assert_int_equal(rank_tokenizer_decode(tokenizer, all, count, decoded, sizeof decoded),
                     strlen(text));
    assert_string_equal(decoded, "the boy");
    assert_int_equal(rank_tokenizer_decode(tokenizer, all, count, NULL, 0), strlen(text));
    const int32_t strange[] = {511, -1, 512, 100000, 'x'};
    assert_int_equal(rank_tokenizer_decode(tokenizer, strange, 5, decoded, sizeof decoded), 1);
    assert_string_equal(decoded, "x");
    rank_tokenizer_destroy(tokenizer);
}

/* A long piece, and more different pieces than the cache holds. */
static void the_cache_does_not_change_ids(void **state)
{
    (void)state;
    rank_tokenizer *tokenizer = load();
    int32_t first[64];
    int32_t ids[64];
    char text[64];
    size_t count = 0;
    size_t again = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20000; i += 37) {
            rank_tokenizer *fresh = i % 740 == 0 ? load() : NULL;
            const int bytes = snprintf(text, sizeof text, "the%d went%d → there%d", i, i * 7, i);
            count = encode(tokenizer, text, (size_t)bytes, ids, 64);
            if (fresh != NULL) {
                again = encode(fresh, text, (size_t)bytes, first, 64);
                assert_int_equal(count, again);
                assert_memory_equal(ids, first, count * sizeof *ids);
            }
            rank_tokenizer_destroy(fresh);
        }
    }
    char *big = malloc(1 << 20);
    assert_non_null(big);
    memset(big, 'e', 1 << 20);
    count = encode(tokenizer, big, 1 << 20, NULL, 0);
    assert_true(count > 0 && count <= 1 << 20);
    free(big);
    rank_tokenizer_destroy(tokenizer);
}

/* Texts over a small alphabet with many spaces, so that merges, runs of spaces and borders of
 * pieces all occur. */
static void the_bound_is_never_too_small(void **state)
{
    static const char alphabet[] = "  etaoinsthher.\xe2\x86\x92";
    (void)state;
    rank_tokenizer *tokenizer = load();
    uint64_t random = 7;
    size_t below = 0;
    for (int round = 0; round < 20000; round++) {
        char text[80];
        size_t count = 0;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const size_t bytes = (size_t)(random >> 33) % sizeof text;
        for (size_t i = 0; i < bytes; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            text[i] = alphabet[(random >> 33) % (sizeof alphabet - 1)];
        }
        count = encode(tokenizer, text, bytes, NULL, 0);
        const size_t bound = rank_tokenizer_count_bound(tokenizer, text, bytes);
        assert_true(bound >= count);
        below += bound < bytes;
    }
    assert_true(below > 10000); /* it is of use */
    rank_tokenizer_destroy(tokenizer);
}

/* Puts `with` where `what` first stands in the good file; the reader must refuse that, and say
 * `reason`. */
static void refuse(const test_directory *directory, const char *what, const char *with,
                   const char *reason)
{
    base_error error;
    void *data = NULL;
    size_t size_bytes = 0;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(
        base_file_read(ORACLE_DIRECTORY "/tokenizer.json", 1 << 20, &data, &size_bytes, &error),
        &error);
    char *at = strstr(data, what);
    assert_non_null(at);
    char *changed = malloc(size_bytes + strlen(with) + 1);
    assert_non_null(changed);
    const size_t before = (size_t)(at - (char *)data);
    memcpy(changed, data, before);
    memcpy(changed + before, with, strlen(with));
    memcpy(changed + before + strlen(with), at + strlen(what), strlen(at + strlen(what)) + 1);
    const char *path = test_directory_path(directory, "tokenizer.json");
    assert_ok(base_file_write(path, changed, strlen(changed), &error), &error);
    free(changed);
    free(data);
    assert_status(rank_tokenizer_load(path, &tokenizer, &error), BASE_ERR_INVALID);
    assert_null(tokenizer);
    if (strstr(error.message, reason) == NULL || strstr(error.message, path) == NULL) {
        fail_msg("\"%s\" for %s, expected \"%s\"", error.message, with, reason);
    }
}

static void other_tokenizers_are_refused(void **state)
{
    (void)state;
    test_directory directory;
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    test_directory_make(&directory);
    refuse(&directory, "\"version\"", "\"version", "tokenizer.json:");
    refuse(&directory, "\"truncation\"", "\"version\"", "duplicate");
    refuse(&directory, "Isolated", "Removed", "pre_tokenizer");
    refuse(&directory, "\"BPE\"", "\"Unigram\"", "type");
    refuse(&directory, "\"dropout\": null", "\"dropout\": 0.1", "dropout");
    refuse(&directory, "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}", "normalizer");
    refuse(&directory, "\"merges\"", "\"mergers\"", "merges");
    refuse(&directory, "\"h e\"", "\"he\"", "merge 0");
    refuse(&directory, "\"h e\"", "\"h q\"", "does not have id 256");
    refuse(&directory, "\"h e\"", "\"h he\"", "merge 0");
    refuse(&directory, "\"h e\"", "17", "merge 0");
    refuse(&directory, "\"content\": \"<|endoftext|>\"", "\"content\": \"<|end|>\"",
           "added_tokens");
    refuse(&directory, "\"he\": 256", "\"he\": 256, \"zzzz\": 9999", "vocabulary");
    refuse(&directory, "\"<|endoftext|>\": 511", "\"<|endoftext|>\": 0", "last token");
    assert_status(rank_tokenizer_load(test_directory_path(&directory, "none"), &tokenizer, &error),
                  BASE_ERR_NOTFOUND);
    test_directory_remove(&directory);
}

static void a_written_file_reads_back(void **state)
{
    (void)state;
    test_directory directory;
    base_error error;
    rank_bpe made;
    rank_bpe read;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "t.json");
    const rank_bpe_pair merges[] = {{' ', 'a'}, {256, 'b'}, {0, 255}, {'\n', '"'}};
    assert_ok(rank_bpe_init(&made, merges, 4, &error), &error);
    assert_ok(rank_tokenizer_file_write(path, &made, RANK_TOKENIZER_BY_SPACES, &error), &error);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_true(rank_tokenizer_is_ours(root));
    assert_ok(rank_tokenizer_take(root, &read, &error), &error);
    json_decref(root);
    assert_int_equal(read.merge_count, 4);
    assert_memory_equal(read.merges, merges, sizeof merges);
    rank_bpe_fini(&made);
    rank_bpe_fini(&read);

    assert_status(rank_bpe_init(&made, (rank_bpe_pair[]){{'a', 256}}, 1, &error), BASE_ERR_INVALID);
    assert_status(rank_bpe_init(&made, (rank_bpe_pair[]){{'a', 'b'}, {'a', 'b'}}, 2, &error),
                  BASE_ERR_INVALID);
    rank_bpe_pair doubling[8] = {{'a', 'a'}};
    for (uint16_t m = 1; m < 8; m++) {
        doubling[m] = (rank_bpe_pair){(uint16_t)(255 + m), (uint16_t)(255 + m)};
    }
    assert_status(rank_bpe_init(&made, doubling, 8, &error), BASE_ERR_INVALID);
    test_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_the_library),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(ids_that_do_not_fit_are_counted),
        cmocka_unit_test(the_cache_does_not_change_ids),
        cmocka_unit_test(the_bound_is_never_too_small),
        cmocka_unit_test(other_tokenizers_are_refused),
        cmocka_unit_test(a_written_file_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
