/* The learner beside one that counts all pairs anew for each merge. */
#include "tokenizer/learn.h"

#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "support.h"

enum {
    TRIALS = 300,
    PIECES_MAX = 60,
    PIECE_BYTES_MAX = 40,
    MERGES_MAX = 80,
    IDS_MAX = RANK_BPE_BYTES + MERGES_MAX,
    LEAST = 0xfc, /* no piece has a byte below it, so that pairs of fewer ids are counted */
};

typedef struct naive_piece {
    int ids[PIECE_BYTES_MAX];
    int count;
} naive_piece;

/* All pieces, each as often as it occurs, in the order of the texts. */
typedef struct naive_learner {
    naive_piece pieces[PIECES_MAX];
    int piece_count;
    int token_bytes[IDS_MAX];
    int merge_count;
} naive_learner;

static bool naive_next(naive_learner *naive, rank_bpe_pair *merge)
{
    static int counts[IDS_MAX - LEAST][IDS_MAX - LEAST];
    const int id_count = RANK_BPE_BYTES + naive->merge_count;
    int most = 1;
    memset(counts, 0, sizeof counts);
    for (int p = 0; p < naive->piece_count; p++) {
        for (int i = 0; i + 1 < naive->pieces[p].count; i++) {
            counts[naive->pieces[p].ids[i] - LEAST][naive->pieces[p].ids[i + 1] - LEAST]++;
        }
    }
    for (int left = LEAST; left < id_count; left++) {
        for (int right = LEAST; right < id_count; right++) {
            const int bytes = naive->token_bytes[left] + naive->token_bytes[right];
            const int count = counts[left - LEAST][right - LEAST];
            if (count > most && bytes <= RANK_BPE_TOKEN_BYTES_MAX) {
                most = count;
                *merge = (rank_bpe_pair){(uint16_t)left, (uint16_t)right};
            }
        }
    }
    if (most < 2) {
        return false;
    }
    naive->token_bytes[id_count] =
        naive->token_bytes[merge->left] + naive->token_bytes[merge->right];
    naive->merge_count++;
    for (int p = 0; p < naive->piece_count; p++) {
        naive_piece *piece = &naive->pieces[p];
        int kept = 0;
        for (int i = 0; i < piece->count; i++) {
            const bool joins = i + 1 < piece->count && piece->ids[i] == merge->left &&
                               piece->ids[i + 1] == merge->right;
            piece->ids[kept++] = joins ? id_count : piece->ids[i];
            i += joins ? 1 : 0;
        }
        piece->count = kept;
    }
    return true;
}

/* Random pieces of a few letters, so that pairs repeat and runs of one letter are common. */
static void draw(uint64_t *state, naive_learner *naive, rank_piece_table *table)
{
    base_error error;
    const uint64_t letters = 1 + base_splitmix_next(state) % 4;
    memset(naive, 0, sizeof *naive);
    naive->piece_count = (int)(1 + base_splitmix_next(state) % PIECES_MAX);
    for (int i = 0; i < RANK_BPE_BYTES; i++) {
        naive->token_bytes[i] = 1;
    }
    for (int p = 0; p < naive->piece_count; p++) {
        uint8_t bytes[PIECE_BYTES_MAX];
        naive_piece *piece = &naive->pieces[p];
        piece->count = (int)(1 + base_splitmix_next(state) % PIECE_BYTES_MAX);
        for (int i = 0; i < piece->count; i++) {
            bytes[i] = (uint8_t)(LEAST + base_splitmix_next(state) % letters);
            piece->ids[i] = bytes[i];
        }
        assert_ok(rank_piece_table_add(table, bytes, (size_t)piece->count, &error), &error);
    }
}

static uint64_t naive_id_count(const naive_learner *naive)
{
    uint64_t count = 0;
    for (int p = 0; p < naive->piece_count; p++) {
        count += (uint64_t)naive->pieces[p].count;
    }
    return count;
}

static void merges_are_those_of_counting_anew(void **state)
{
    (void)state;
    base_error error;
    uint64_t random = 35000;
    static naive_learner naive;
    int ended = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        rank_piece_table table = {.piece_count = 0};
        rank_learner *learner = NULL;
        bool found = true;
        draw(&random, &naive, &table);
        assert_ok(rank_learner_create(&table, &learner, &error), &error);
        for (int m = 0; m < MERGES_MAX && found; m++) {
            rank_bpe_pair expected = {0, 0};
            rank_bpe_pair merge;
            assert_ok(rank_learner_next(learner, &merge, &found, &error), &error);
            assert_int_equal(found, naive_next(&naive, &expected));
            if (found && (merge.left != expected.left || merge.right != expected.right)) {
                fail_msg("trial %d, merge %d: %d %d, expected %d %d", trial, m, merge.left,
                         merge.right, expected.left, expected.right);
            }
            assert_int_equal(rank_learner_id_count(learner), naive_id_count(&naive));
        }
        ended += !found;
        rank_learner_destroy(learner);
        rank_piece_table_fini(&table);
    }
    assert_in_range(ended, 1, TRIALS - 1); /* some texts are used up, some are not */
}

static void add(rank_piece_table *table, const char *piece, int times)
{
    base_error error;
    for (int i = 0; i < times; i++) {
        assert_ok(rank_piece_table_add(table, (const uint8_t *)piece, strlen(piece), &error),
                  &error);
    }
}

/* Equal counts: the smaller left id, then the smaller right one, whatever came first. */
static void ties_go_to_the_smaller_ids(void **state)
{
    (void)state;
    static const char *const pieces[] = {"bc", "ba", "ab", "xy"};
    const rank_bpe_pair expected[] = {{'x', 'y'}, {'a', 'b'}, {'b', 'a'}, {'b', 'c'}};
    for (size_t first = 0; first < 4; first++) {
        base_error error;
        rank_piece_table table = {.piece_count = 0};
        rank_learner *learner = NULL;
        for (size_t i = 0; i < 4; i++) {
            const size_t piece = (first + i) % 4;
            add(&table, pieces[piece], piece == 3 ? 3 : 2);
        }
        assert_ok(rank_learner_create(&table, &learner, &error), &error);
        for (size_t m = 0; m <= 4; m++) {
            rank_bpe_pair merge;
            bool found = false;
            assert_ok(rank_learner_next(learner, &merge, &found, &error), &error);
            assert_int_equal(found, m < 4);
            if (found) {
                assert_memory_equal(&merge, &expected[m], sizeof merge);
            }
        }
        rank_learner_destroy(learner);
        rank_piece_table_fini(&table);
    }
}

/* A long run of one letter: tokens double in size up to the limit, in time that grows with the run. */
static void tokens_are_not_too_long(void **state)
{
    (void)state;
    enum { RUN_BYTES = 1 << 20 };
    base_error error;
    rank_piece_table table = {.piece_count = 0};
    rank_learner *learner = NULL;
    bool found = true;
    int merges = 0;
    uint8_t *run = malloc(RUN_BYTES);
    assert_non_null(run);
    memset(run, '-', RUN_BYTES);
    assert_ok(rank_piece_table_add(&table, run, RUN_BYTES, &error), &error);
    assert_ok(rank_learner_create(&table, &learner, &error), &error);
    while (found) {
        rank_bpe_pair merge;
        assert_ok(rank_learner_next(learner, &merge, &found, &error), &error);
        merges += found;
    }
    assert_int_equal(1 << merges, RANK_BPE_TOKEN_BYTES_MAX);
    assert_int_equal(rank_learner_id_count(learner), RUN_BYTES / RANK_BPE_TOKEN_BYTES_MAX);
    rank_learner_destroy(learner);
    rank_piece_table_fini(&table);
    free(run);
}

static void no_text_has_no_merge(void **state)
{
    (void)state;
    base_error error;
    rank_piece_table table = {.piece_count = 0};
    rank_learner *learner = NULL;
    rank_bpe_pair merge;
    bool found = true;
    add(&table, "", 3);
    assert_int_equal(table.piece_count, 0);
    assert_ok(rank_learner_create(&table, &learner, &error), &error);
    assert_ok(rank_learner_next(learner, &merge, &found, &error), &error);
    assert_false(found);
    rank_learner_destroy(learner);
    rank_piece_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_those_of_counting_anew),
        cmocka_unit_test(ties_go_to_the_smaller_ids),
        cmocka_unit_test(tokens_are_not_too_long),
        cmocka_unit_test(no_text_has_no_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
