/* Makes a tokenizer with 29169 tokens, and sentences of a known number of them. Called by main.c.
 *
 * A word is a space and four letters, each from 13 of its own: 13⁴ = 28561 words. Its merges leave no
 * choice: (space, first), (that, second), (third, fourth), (half, half). So a word is one token. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/splitmix.h"
#include "measure.h"

enum {
    BYTES = 256,
    LETTERS = 13,
    HALVES = LETTERS * LETTERS,
    WORDS = HALVES * HALVES,
    SENTENCES = 512,
    TOKEN_BYTES = 32,
};

static const char space[] = "\xc4\xa0"; /* as byte-level tokenizers write it */
static const char firsts[] = "anAN";    /* of the letters of each place */

typedef struct made {
    json_t *vocab;
    json_t *merges;
} made;

static void letters_of(int half, int place, char text[3])
{
    text[0] = (char)(firsts[place] + half / LETTERS);
    text[1] = (char)(firsts[place + 1] + half % LETTERS);
    text[2] = '\0';
}

/* The token that these two become, numbered after those that are there. */
static void add_merge(made *m, const char *left, const char *right)
{
    char text[2 * TOKEN_BYTES];
    (void)snprintf(text, sizeof text, "%s%s", left, right);
    (void)json_object_set_new(m->vocab, text, json_integer((json_int_t)json_object_size(m->vocab)));
    (void)snprintf(text, sizeof text, "%s %s", left, right);
    (void)json_array_append_new(m->merges, json_string(text));
}

static void add_merges(made *m)
{
    char left[TOKEN_BYTES];
    char pair[3];
    char other[3];
    for (int i = 0; i < LETTERS; i++) {
        (void)snprintf(pair, sizeof pair, "%c", firsts[0] + i);
        add_merge(m, space, pair);
    }
    for (int half = 0; half < HALVES; half++) {
        letters_of(half, 0, pair);
        (void)snprintf(left, sizeof left, "%s%c", space, pair[0]);
        add_merge(m, left, pair + 1);
    }
    for (int half = 0; half < HALVES; half++) {
        letters_of(half, 2, pair);
        (void)snprintf(left, sizeof left, "%c", pair[0]);
        add_merge(m, left, pair + 1);
    }
    for (int word = 0; word < WORDS; word++) {
        letters_of(word / HALVES, 0, pair);
        letters_of(word % HALVES, 2, other);
        (void)snprintf(left, sizeof left, "%s%s", space, pair);
        add_merge(m, left, other);
    }
}

static base_status make_tokenizer(json_t *tokenizer, base_error *reterr)
{
    made m = {json_object(), json_array()};
    json_t *model = json_object_get(tokenizer, "model");
    json_t *end = json_array_get(json_object_get(tokenizer, "added_tokens"), 0);
    const char *name = NULL;
    json_t *id = NULL;
    const char *by_id[BYTES] = {NULL};
    json_object_foreach(json_object_get(model, "vocab"), name, id)
    {
        const json_int_t value = json_integer_value(id);
        if (value >= 0 && value < BYTES) {
            by_id[value] = name;
        }
    }
    for (int i = 0; i < BYTES; i++) {
        if (by_id[i] == NULL || m.vocab == NULL || end == NULL) {
            json_decref(m.vocab);
            json_decref(m.merges);
            return base_fail(reterr, BASE_ERR_INVALID, "this is no byte-level tokenizer");
        }
        (void)json_object_set_new(m.vocab, by_id[i], json_integer(i));
    }
    add_merges(&m);
    const json_int_t end_id = (json_int_t)json_object_size(m.vocab);
    (void)json_object_set_new(m.vocab, json_string_value(json_object_get(end, "content")),
                              json_integer(end_id));
    (void)json_object_set_new(end, "id", json_integer(end_id));
    (void)json_object_set_new(model, "vocab", m.vocab);
    (void)json_object_set_new(model, "merges", m.merges);
    return BASE_OK;
}

static base_status write_sentences(const char *path, int words, base_error *reterr)
{
    char pair[3];
    char other[3];
    uint64_t state = 35000;
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return base_fail(reterr, BASE_ERR_IO, "cannot write %s", path);
    }
    for (int sentence = 0; sentence < SENTENCES; sentence++) {
        (void)fputs("{\"text\": \"", file);
        for (int i = 0; i < words; i++) {
            const int word = (int)(base_splitmix_next(&state) % WORDS);
            letters_of(word / HALVES, 0, pair);
            letters_of(word % HALVES, 2, other);
            (void)fprintf(file, " %s%s", pair, other);
        }
        (void)fputs("\"}\n", file);
    }
    return fclose(file) == 0 ? BASE_OK : base_fail(reterr, BASE_ERR_IO, "cannot write %s", path);
}

base_status measure_write_data(const char *tokenizer_path, const char *directory, int words,
                               base_error *reterr)
{
    char path[BASE_PATH_BYTES + 32];
    json_error_t error;
    json_t *tokenizer = json_load_file(tokenizer_path, 0, &error);
    if (tokenizer == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: %s", tokenizer_path, error.text);
    }
    base_status status = make_tokenizer(tokenizer, reterr);
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    if (status == BASE_OK && json_dump_file(tokenizer, path, JSON_INDENT(1)) != 0) {
        status = base_fail(reterr, BASE_ERR_IO, "cannot write %s", path);
    }
    json_decref(tokenizer);
    if (status != BASE_OK) {
        return status;
    }
    (void)snprintf(path, sizeof path, "%s/train.jsonl", directory);
    return write_sentences(path, words, reterr);
}
