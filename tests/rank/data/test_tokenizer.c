/* The tokenizer against the Hugging Face library's ids for the same file (tests/oracle). */
#include "rank/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/splitmix.h"
#include "base/utf8.h"
#include "bpe.h"
#include "random_text.h"
#include "support.h"
#include "tokenizer_file.h"

enum { IDS_MAX = 512, TEXT_BYTES_MAX = 1024, FIXTURES_MIN = 200, VOCAB = 512, TEXT_LONG = 1 << 16 };

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

static void ids_are_those_of_the_library(void **state)
{
    (void)state;
    rank_tokenizer *tokenizer = load();
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

/* What a file with our splits says, without any of its reader: pieces are cut at spaces alone, and a piece's merges are
 * made one after the other, the one of the lowest rank first. */
typedef struct reference {
    int rank[VOCAB][VOCAB]; /* of the merge of two ids, -1: there is none; it makes 256 + rank */
    int16_t *ids;           /* (TEXT_LONG) */
} reference;

static void reference_open(reference *self, const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *model = json_object_get(root, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    json_t *merge = NULL;
    size_t rank = 0;
    memset(self->rank, -1, sizeof self->rank);
    self->ids = malloc(TEXT_LONG * sizeof *self->ids);
    assert_non_null(self->ids);
    json_array_foreach(json_object_get(model, "merges"), rank, merge)
    {
        const char *left = json_string_value(merge);
        const char *space = strchr(left, ' ');
        const json_t *first = json_object_getn(vocab, left, (size_t)(space - left));
        const json_t *second = json_object_get(vocab, space + 1);
        self->rank[json_integer_value(first)][json_integer_value(second)] = (int)rank;
    }
    assert_int_equal(rank, VOCAB - 257);
    json_decref(root);
}

static size_t piece_of(const char *text, size_t bytes)
{
    size_t spaces = 0;
    size_t end = 0;
    while (spaces < bytes && text[spaces] == ' ') {
        spaces++;
    }
    for (end = spaces; end < bytes && text[end] != ' ';) {
        end++;
    }
    return spaces > 1 || end == spaces ? spaces : end;
}

/* Merges the ids of a piece in place. Returns how many are left. */
static size_t merge_piece(const reference *self, int16_t *ids, size_t count)
{
    for (;;) {
        int best = -1;
        for (size_t i = 0; i + 1 < count; i++) {
            const int rank = self->rank[ids[i]][ids[i + 1]];
            best = rank >= 0 && (best < 0 || rank < best) ? rank : best;
        }
        if (best < 0) {
            return count;
        }
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            const bool merged = i + 1 < count && self->rank[ids[i]][ids[i + 1]] == best;
            ids[kept++] = merged ? (int16_t)(256 + best) : ids[i];
            i += merged;
        }
        count = kept;
    }
}

static void expect_reference(reference *self, rank_tokenizer *tokenizer, const char *text,
                             size_t bytes, int32_t *ids)
{
    size_t count = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t piece = piece_of(text + at, bytes - at);
        for (size_t i = 0; i < piece; i++) {
            self->ids[count + i] = (uint8_t)text[at + i];
        }
        count += merge_piece(self, self->ids + count, piece);
        at += piece;
    }
    assert_int_equal(encode(tokenizer, text, bytes, ids, TEXT_LONG), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ids[i], self->ids[i]);
    }
}

/* Each line of the corpus, texts at random, and words that are long. */
static void ids_are_those_of_merges_by_rank(void **state)
{
    (void)state;
    enum { TRIALS = 4000, WORDS = 30 };
    static reference self;
    base_error error;
    size_t corpus_bytes = 0;
    uint64_t random = 35001;
    rank_tokenizer *tokenizer = NULL;
    static char text[TEXT_LONG];
    static int32_t ids[TEXT_LONG];
    assert_ok(rank_tokenizer_load(SHARE_DIRECTORY "/tokenizer.json", &tokenizer, &error), &error);
    reference_open(&self, SHARE_DIRECTORY "/tokenizer.json");
    void *corpus = test_file_read(SHARE_DIRECTORY "/train.jsonl", &corpus_bytes);
    const char *end = (const char *)corpus + corpus_bytes;
    for (const char *line = corpus; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        expect_reference(&self, tokenizer, line, (size_t)(newline - line), ids);
        line = newline + 1;
    }
    int compared = 0;
    for (int i = 0; i < TRIALS; i++) {
        static const char *const parts[] = {"e", "t", "h", " ", " ", "n", "a", "\xe2\x86\x92",
                                            "\n"};
        size_t bytes = test_random_text(&random, WORDS, text);
        if (base_utf8_valid(text, bytes)) { /* what is none is cut elsewhere */
            expect_reference(&self, tokenizer, text, bytes, ids);
            compared++;
        }
        bytes = 0;
        for (int k = 0; k < 64; k++) {
            const char *part = parts[base_splitmix_next(&random) % (sizeof parts / sizeof *parts)];
            memcpy(text + bytes, part, strlen(part));
            bytes += strlen(part);
        }
        expect_reference(&self, tokenizer, text, bytes, ids);
    }
    assert_true(compared > TRIALS / 16);
    memset(text, 'e', TEXT_LONG);
    expect_reference(&self, tokenizer, text, TEXT_LONG, ids);
    free(self.ids);
    free(corpus);
    rank_tokenizer_destroy(tokenizer);
}

/* Puts `with` where `what` first stands in the good file; the reader must refuse that, and say
 * `reason`. */
static void refuse(const test_directory *directory, const char *what, const char *with,
                   const char *reason)
{
    base_error error;
    size_t size_bytes = 0;
    rank_tokenizer *tokenizer = NULL;
    void *data = test_file_read(ORACLE_DIRECTORY "/tokenizer.json", &size_bytes);
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
    assert_int_not_equal(rank_tokenizer_load(path, &tokenizer, &error), BASE_OK);
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
    refuse(&directory, "Isolated", "Removed", "a Split that is not by a Regex, and Isolated");
    refuse(&directory, "\"BPE\"", "\"Unigram\"", "its model Unigram");
    refuse(&directory, "\"dropout\": null", "\"dropout\": 0.1", "dropout");
    refuse(&directory, "\"normalizer\": null", "\"normalizer\": {\"type\": \"Lowercase\"}",
           "its normalizer Lowercase");
    refuse(&directory, "\"merges\"", "\"mergers\"", "merges");
    refuse(&directory, "\"h e\"", "\"he\"", "merge 0");
    refuse(&directory, "\"h e\"", "\"h q\"", "merge 0");
    refuse(&directory, "\"h e\"", "17", "merge 0");
    refuse(&directory, "\"he\": 256", "\"he\": 255", "not the only one with its id");
    refuse(&directory, "\"he\": 256", "\"he\": -1", "ids of tokens are integers");
    refuse(&directory, "\"he\": 256", "\"he\": \"256\"", "ids of tokens are integers");
    refuse(&directory, "\"<|endoftext|>\": 511", "\"<|endoftext|>\": 0", "not the only one");
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
    rank_tokenizer *read = NULL;
    int32_t ids[16];
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "t.json");
    const rank_bpe_pair merges[] = {{' ', 'a'}, {256, 'b'}, {0, 255}, {'\n', '"'}};
    static const char text[] = " ab\"\n\" a";
    static const int32_t expected[] = {257, '"', 259, 256};
    for (int split = RANK_TOKENIZER_BY_SPACES; split <= RANK_TOKENIZER_AS_GPT2; split++) {
        const size_t bytes = split == RANK_TOKENIZER_BY_SPACES ? sizeof text - 1 : 3;
        const size_t count = split == RANK_TOKENIZER_BY_SPACES ? 4 : 1;
        assert_ok(rank_bpe_init(&made, merges, 4, &error), &error);
        assert_ok(rank_tokenizer_file_write(path, &made, (rank_tokenizer_split)split, &error),
                  &error);
        assert_ok(rank_tokenizer_load(path, &read, &error), &error);
        assert_int_equal(rank_tokenizer_vocab_size(read), 261);
        assert_int_equal(rank_tokenizer_end_id(read), 260);
        assert_int_equal(encode(read, text, bytes, ids, 16), count);
        assert_memory_equal(ids, expected, count * sizeof *ids);
        rank_tokenizer_destroy(read);
        rank_bpe_fini(&made);
    }
    test_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_the_library),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(ids_that_do_not_fit_are_counted),
        cmocka_unit_test(ids_are_those_of_merges_by_rank),
        cmocka_unit_test(other_tokenizers_are_refused),
        cmocka_unit_test(a_written_file_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
