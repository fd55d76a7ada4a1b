/* Parts that a thread encodes have the tokens of their text, with a tokenizer of either kind. */
#include "tokenizer/encode_batch.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

enum { IDS_MAX = 256 };

static const char *const kinds[] = {"gpt2", "llama2", "mistral", "metaspace", "gemma"};
static const char *const parts[] = {"to be, or", " not to be:\nthat", " is\n", "the question"};
enum { PARTS = sizeof parts / sizeof *parts };

static rank_tokenizer *load_kind(const char *kind)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    char path[256];
    (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/hub_%s.json", kind);
    assert_ok(rank_tokenizer_load(path, &tokenizer, &error), &error);
    return tokenizer;
}

/* The tokens that rank/data makes of a text in parts (windows.c): the first one begins it, and the others go on. */
static size_t encode_whole(rank_tokenizer *tokenizer, int32_t at[IDS_MAX])
{
    base_error error;
    size_t count = 0;
    const int32_t *prefix = rank_tokenizer_prefix(tokenizer, &count);
    assert_in_range(count, 0, IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        at[i] = prefix[i];
    }
    for (size_t i = 0; i < PARTS; i++) {
        const rank_tokenizer_text part = {
            .at = parts[i],
            .bytes = strlen(parts[i]),
            .place = i == 0 ? RANK_TOKENIZER_BEGINS : RANK_TOKENIZER_GOES_ON,
        };
        rank_ids ids = {.at = at + count, .capacity = IDS_MAX - count};
        assert_ok(rank_tokenizer_encode_text(tokenizer, &part, &ids, &error), &error);
        count += ids.count;
        assert_in_range(count, 0, IDS_MAX - 1);
    }
    at[count++] = rank_tokenizer_end_id(tokenizer);
    return count;
}

static void parts_have_the_tokens_of_their_text(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        base_error error;
        int32_t whole[IDS_MAX];
        rank_tokenizer *tokenizer = load_kind(kinds[kind]);
        rank_encode_batch batch = {.text = NULL};
        for (size_t i = 0; i < PARTS; i++) {
            const rank_text_part part = {.at = parts[i],
                                         .bytes = strlen(parts[i]),
                                         .begins = i == 0,
                                         .ends = i + 1 == PARTS};
            assert_ok(rank_encode_batch_add(&batch, &part, &error), &error);
        }
        rank_encode_batch_run(&batch, tokenizer);
        assert_ok(batch.status, &batch.error);
        assert_int_equal(batch.id_count, encode_whole(tokenizer, whole));
        assert_memory_equal(batch.ids, whole, batch.id_count * sizeof *whole);
        rank_encode_batch_fini(&batch);
        rank_tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_have_the_tokens_of_their_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
