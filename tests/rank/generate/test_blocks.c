/* The block allocator against a naive one, which notes the owner of each block, over random joins
 * and leaves. And, exhaustively: a pool is used to its last block. What is kept of a block, and how long;
 * test_schedule_histories.c has that at random. */
#include <stdlib.h>
#include <string.h>

#include "generate/blocks.h"
#include "random.h"
#include "support.h"

enum { BLOCKS_MAX = 48, SEQUENCES_MAX = 9, HISTORIES = 400, CALLS = 300, FREE = -1 };

/* The naive allocator: its tables are lists, and it searches the whole pool. */
typedef struct naive {
    rank_blocks_options options;
    int owner[BLOCKS_MAX];
    int tokens[SEQUENCES_MAX];
    int table[SEQUENCES_MAX][BLOCKS_MAX]; /* as the other said it was when reserved */
} naive;

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    return test_random_below(&random_state, below);
}

static int naive_needed(const naive *model, int tokens)
{
    int blocks = 0;
    while (blocks * model->options.block_tokens < tokens) {
        blocks++;
    }
    return blocks;
}

static int naive_free(const naive *model)
{
    int count = 0;
    for (int i = 0; i < model->options.block_count; i++) {
        count += model->owner[i] == FREE;
    }
    return count;
}

static void check_sequence(const naive *model, const rank_blocks *blocks, int sequence)
{
    const int held = naive_needed(model, model->tokens[sequence]);
    const int32_t *table = rank_blocks_table(blocks, sequence);
    for (int i = 0; i < naive_needed(model, model->options.context); i++) {
        assert_int_equal(table[i], i < held ? model->table[sequence][i] : RANK_BLOCK_NONE);
        assert_true(i >= held || model->owner[table[i]] == sequence);
    }
}

static void join(naive *model, rank_blocks *blocks, int sequence, int tokens)
{
    const int needed = naive_needed(model, tokens);
    assert_int_equal(rank_blocks_needed(blocks, tokens), needed);
    const bool fits = needed <= naive_free(model);
    assert_int_equal(rank_blocks_reserve(blocks, sequence, tokens), fits);
    if (!fits) {
        return;
    }
    model->tokens[sequence] = tokens;
    for (int i = 0; i < needed; i++) {
        const int32_t block = rank_blocks_table(blocks, sequence)[i];
        assert_in_range(block, 0, model->options.block_count - 1);
        assert_int_equal(model->owner[block], FREE);
        model->owner[block] = sequence;
        model->table[sequence][i] = block;
    }
}

static void leave(naive *model, rank_blocks *blocks, int sequence)
{
    rank_blocks_release(blocks, sequence);
    model->tokens[sequence] = 0;
    for (int i = 0; i < model->options.block_count; i++) {
        model->owner[i] = model->owner[i] == sequence ? FREE : model->owner[i];
    }
}

static void run_history(uint64_t seed)
{
    random_state = seed;
    naive model = {.options = {.block_count = 1 + (int32_t)draw(BLOCKS_MAX),
                               .block_tokens = 1 + (int32_t)draw(8),
                               .sequence_count = 1 + (int32_t)draw(SEQUENCES_MAX),
                               .context = 1 + (int32_t)draw(40)}};
    memset(model.owner, FREE, sizeof model.owner);
    const size_t size_bytes = rank_blocks_bytes(&model.options);
    void *storage = malloc(size_bytes);
    void *other = malloc(size_bytes);
    assert_true(storage != NULL && other != NULL);
    memset(storage, 0x5a, size_bytes);
    memset(other, 0xa5, size_bytes);
    rank_blocks *blocks = rank_blocks_init(storage, &model.options);
    rank_blocks *copy = rank_blocks_init(other, &model.options);
    for (int call = 0; call < CALLS; call++) {
        const int sequence = (int)draw((uint32_t)model.options.sequence_count);
        if (model.tokens[sequence] == 0 && draw(4) != 0) {
            const int tokens = 1 + (int)draw((uint32_t)model.options.context);
            join(&model, blocks, sequence, tokens);
            (void)rank_blocks_reserve(copy, sequence, tokens);
        } else { /* also of what holds nothing */
            leave(&model, blocks, sequence);
            rank_blocks_release(copy, sequence);
        }
        assert_int_equal(rank_blocks_free_count(blocks), naive_free(&model));
        for (int i = 0; i < model.options.sequence_count; i++) {
            check_sequence(&model, blocks, i);
        }
        assert_memory_equal(storage, other, size_bytes);
    }
    for (int i = 0; i < model.options.sequence_count; i++) {
        rank_blocks_release(blocks, i);
    }
    assert_int_equal(rank_blocks_free_count(blocks), model.options.block_count);
    free(storage);
    free(other);
}

static void test_random_joins_and_leaves(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        run_history(seed);
    }
}

/* Two sequences share pools of every small size in every way. */
static void test_every_split_of_small_pools(void **state)
{
    (void)state;
    for (int32_t pool = 1; pool <= 6; pool++) {
        for (int32_t width = 1; width <= 4; width++) {
            const rank_blocks_options options = {
                .block_count = pool, .block_tokens = width, .sequence_count = 2, .context = 24};
            void *storage = malloc(rank_blocks_bytes(&options));
            assert_non_null(storage);
            for (int32_t a = 1; a <= 24; a++) {
                for (int32_t b = 1; b <= 24; b++) {
                    rank_blocks *blocks = rank_blocks_init(storage, &options);
                    const bool a_fits = a <= pool * width;
                    const int32_t left = pool - (a_fits ? (a + width - 1) / width : 0);
                    assert_int_equal(rank_blocks_reserve(blocks, 0, a), a_fits);
                    assert_int_equal(rank_blocks_free_count(blocks), left);
                    assert_int_equal(rank_blocks_reserve(blocks, 1, b), b <= left * width);
                }
            }
            free(storage);
        }
    }
}

/* A text of three full blocks is found when it is free, as far as it is the same; blocks without content are
 * taken before it, and its end before its beginning. */
/* What is shared was said before. */
static int32_t share(rank_blocks *blocks, int32_t sequence, const int32_t *tokens, int32_t count)
{
    const int32_t cached = rank_blocks_cached(blocks, tokens, count);
    const int32_t shared = rank_blocks_share(blocks, sequence, tokens, count);
    assert_int_equal(cached, shared);
    return shared;
}

static void test_contents_are_kept_until_they_are_needed(void **state)
{
    (void)state;
    static const int32_t text[] = {1, 2, 3, 4, 5, 6};
    static const int32_t other[] = {1, 2, 3, 5, 5, 6};
    const rank_blocks_options options = {
        .block_count = 4, .block_tokens = 2, .sequence_count = 3, .context = 8};
    rank_blocks *blocks = rank_blocks_init(malloc(rank_blocks_bytes(&options)), &options);
    assert_true(rank_blocks_reserve(blocks, 0, 6));
    for (int32_t i = 0; i < 3; i++) {
        rank_blocks_fill(blocks, 0, i, text + (ptrdiff_t)i * 2);
    }
    assert_int_equal(share(blocks, 1, text, 5), 2); /* while it runs, too */
    assert_int_equal(rank_blocks_held_alone(blocks, 0), 1);
    assert_int_equal(rank_blocks_held_alone(blocks, 1), 0);
    rank_blocks_release(blocks, 0);
    assert_int_equal(rank_blocks_free_count(blocks), 2);
    rank_blocks_release(blocks, 1);
    assert_int_equal(rank_blocks_free_count(blocks), 4);
    assert_int_equal(share(blocks, 0, other, 6), 1);
    rank_blocks_release(blocks, 0);
    assert_int_equal(share(blocks, 0, text + 2, 4), 0); /* not without what is before it */
    assert_int_equal(share(blocks, 0, text, 6), 3);
    const int32_t last = rank_blocks_table(blocks, 0)[2];
    rank_blocks_release(blocks, 0);
    assert_true(rank_blocks_reserve(blocks, 1, 4)); /* the fourth block, and the text's last */
    assert_int_equal(rank_blocks_table(blocks, 1)[1], last);
    assert_int_equal(share(blocks, 0, text, 6), 2);
    assert_false(rank_blocks_reserve(blocks, 0, 5));
    assert_int_not_equal(rank_blocks_table(blocks, 0)[1], RANK_BLOCK_NONE);
    assert_int_equal(rank_blocks_table(blocks, 0)[2], RANK_BLOCK_NONE);
    assert_true(rank_blocks_reserve(blocks, 0, 4));
    rank_blocks_release(blocks, 0);
    rank_blocks_release(blocks, 1);
    assert_true(rank_blocks_reserve(blocks, 2, 8));
    rank_blocks_release(blocks, 2);
    assert_int_equal(share(blocks, 0, text, 6), 0);
    free(blocks);
}

/* Two sequences compute the same at a time: each fills its own block, and one of them is found. */
static void test_equal_contents_may_be_there_twice(void **state)
{
    (void)state;
    static const int32_t text[] = {7, 7};
    const rank_blocks_options options = {
        .block_count = 2, .block_tokens = 2, .sequence_count = 3, .context = 2};
    rank_blocks *blocks = rank_blocks_init(malloc(rank_blocks_bytes(&options)), &options);
    for (int32_t sequence = 0; sequence < 2; sequence++) {
        assert_true(rank_blocks_reserve(blocks, sequence, 2));
        rank_blocks_fill(blocks, sequence, 0, text);
    }
    for (int32_t sequence = 0; sequence < 2; sequence++) {
        rank_blocks_release(blocks, sequence);
        assert_int_equal(share(blocks, 2, text, 2), 1);
        rank_blocks_release(blocks, 2);
    }
    for (int32_t sequence = 0; sequence < 2; sequence++) { /* both are taken, in any order */
        assert_true(rank_blocks_reserve(blocks, sequence, 2));
    }
    assert_int_equal(share(blocks, 2, text, 2), 0);
    free(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_joins_and_leaves),
        cmocka_unit_test(test_every_split_of_small_pools),
        cmocka_unit_test(test_contents_are_kept_until_they_are_needed),
        cmocka_unit_test(test_equal_contents_may_be_there_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
