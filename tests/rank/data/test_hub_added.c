/* Thousands of added tokens, as Gemma 3 has them: what is found is what a plain loop over all of them finds. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "hub_parts.h"
#include "random.h"
#include "rank/tokenizer.h"
#include "support.h"

enum {
    UNUSED = 3000, /* <unused0> and so on */
    MIXED = 2000, /* and such of few letters, so that many begin with others, or are others again */
    ADDED = UNUSED + MIXED,
    BYTES_MAX = 16,
    FIRST_ID = 1000,
    TEXTS = 300,
    TEXT_BYTES = 60,
    IDS_MAX = 4 * TEXT_BYTES,
};

typedef struct added_token {
    char text[BYTES_MAX];
    bool special;
    bool late;
} added_token;

typedef struct world {
    added_token added[ADDED];
    rank_tokenizer *without; /* any of these tokens */
    rank_tokenizer *tokenizer;
} world;

static void fill_random(uint64_t *state, char *text, size_t bytes)
{
    static const char letters[] = "<abun> s";
    for (size_t i = 0; i < bytes; i++) {
        text[i] = letters[test_random(state) % (sizeof letters - 1)];
    }
    text[bytes] = '\0';
}

static rank_tokenizer *make(json_t *root)
{
    base_error error;
    rank_tokenizer *made = NULL;
    assert_ok(rank_tokenizer_create(root, &made, &error), &error);
    return made;
}

static void world_open(world *w)
{
    uint64_t state = 7;
    json_t *root = json_load_file(ORACLE_DIRECTORY "/hub_gpt2.json", 0, NULL);
    json_t *list = json_array();
    assert_non_null(root);
    assert_int_equal(json_object_set_new(root, "added_tokens", json_array()), 0);
    w->without = make(root);
    for (int i = 0; i < ADDED; i++) {
        added_token *one = &w->added[i];
        one->special = test_random(&state) % 3 == 0;
        one->late = test_random(&state) % 2 == 0;
        if (i < UNUSED) {
            (void)snprintf(one->text, sizeof one->text, "<unused%d>", i);
        } else {
            fill_random(&state, one->text, 2 + test_random(&state) % 5);
        }
        assert_int_equal(
            json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b}", "id", FIRST_ID + i,
                                                  "content", one->text, "special", one->special,
                                                  "normalized", one->late)),
            0);
    }
    assert_int_equal(json_object_set_new(root, "added_tokens", list), 0);
    w->tokenizer = make(root);
    json_decref(root);
}

static void world_close(world *w)
{
    rank_tokenizer_destroy(w->without);
    rank_tokenizer_destroy(w->tokenizer);
}

/* The longest at the text's begin, of the same the first; -1: none. late: -1: any, special ones too. */
static int find_plainly(const world *w, int late, const char *text, size_t text_bytes)
{
    int found = -1;
    size_t most = 0;
    for (int i = 0; i < ADDED; i++) {
        const added_token *one = &w->added[i];
        const size_t bytes = strlen(one->text);
        if (bytes > most && bytes <= text_bytes && memcmp(one->text, text, bytes) == 0 &&
            (late < 0 || (!one->special && one->late == (late > 0)))) {
            found = i;
            most = bytes;
        }
    }
    return found;
}

static void encode_plainly(const world *w, int late, const char *text, size_t text_bytes,
                           rank_ids *ids)
{
    base_error error;
    size_t done = 0;
    if (late > 1) {
        rank_ids rest = {.at = ids->at + ids->count, .capacity = ids->capacity - ids->count};
        assert_ok(rank_tokenizer_encode(w->without, text, text_bytes, &rest, &error), &error);
        ids->count += rest.count;
        return;
    }
    for (size_t at = 0; at < text_bytes;) {
        const int found = find_plainly(w, late, text + at, text_bytes - at);
        if (found < 0) {
            at++;
            continue;
        }
        encode_plainly(w, late + 1, text + done, at - done, ids);
        ids->at[ids->count++] = FIRST_ID + found;
        at += strlen(w->added[found].text);
        done = at;
    }
    encode_plainly(w, late + 1, text + done, text_bytes - done, ids);
}

/* Random letters, and now and then a token that only long ones begin with. */
static void make_text(uint64_t *state, char *text)
{
    fill_random(state, text, TEXT_BYTES);
    for (int i = 0; i < 2; i++) {
        char unused[BYTES_MAX];
        const size_t bytes = (size_t)snprintf(unused, sizeof unused, "<unused%u>",
                                              test_random(state) % (2 * UNUSED));
        memcpy(text + test_random(state) % (TEXT_BYTES - BYTES_MAX), unused, bytes);
    }
}

static void the_longest_is_found(void **state)
{
    (void)state;
    static world w;
    uint64_t random = 3;
    int found = 0;
    world_open(&w);
    for (int i = 0; i < TEXTS; i++) {
        char text[TEXT_BYTES + 1];
        make_text(&random, text);
        for (size_t at = 0; at <= TEXT_BYTES; at++) {
            size_t bytes = 0;
            const int expected = find_plainly(&w, -1, text + at, TEXT_BYTES - at);
            const int32_t id =
                rank_tokenizer_added_at(w.tokenizer, text + at, TEXT_BYTES - at, &bytes);
            assert_int_equal(id, expected < 0 ? -1 : FIRST_ID + expected);
            assert_int_equal(bytes, expected < 0 ? 0 : strlen(w.added[expected].text));
            found += expected < UNUSED && expected >= 0;
        }
    }
    assert_true(found > TEXTS / 4);
    world_close(&w);
}

static void texts_are_cut_at_them(void **state)
{
    (void)state;
    static world w;
    uint64_t random = 5;
    world_open(&w);
    for (int i = 0; i < TEXTS / 4; i++) {
        base_error error;
        char text[TEXT_BYTES + 1];
        int32_t expected[IDS_MAX];
        int32_t at[IDS_MAX];
        rank_ids plain = {.at = expected, .capacity = IDS_MAX};
        rank_ids ids = {.at = at, .capacity = IDS_MAX};
        make_text(&random, text);
        encode_plainly(&w, 0, text, TEXT_BYTES, &plain);
        assert_ok(rank_tokenizer_encode(w.tokenizer, text, TEXT_BYTES, &ids, &error), &error);
        assert_int_equal(ids.count, plain.count);
        assert_memory_equal(at, expected, plain.count * sizeof *at);
    }
    world_close(&w);
}

/* A place where none stands costs the bytes that some begin with, not the tokens that begin with them. */
static void a_place_costs_a_few_bytes(void **state)
{
    (void)state;
    static world w;
    static const char text[] = "<unusex<unusex";
    world_open(&w);
    hub_added_search search = hub_added_at(w.tokenizer, (const uint8_t *)text, sizeof text - 1);
    int found = 0;
    while (hub_added_next(&search) != NULL) {
        found++; /* such as "<un" */
    }
    assert_true(found < 20);
    assert_int_equal(search.matched, strlen("<unusex"));
    assert_int_equal(search.begin, search.end);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_is_found),
        cmocka_unit_test(texts_are_cut_at_them),
        cmocka_unit_test(a_place_costs_a_few_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
