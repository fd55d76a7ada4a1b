/* Log-probabilities: those of torch, those of libm in a plain loop, and what has no probability. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "fixture.h"
#include "generate/logprob.h"
#include "support.h"

enum { VOCAB = 613, BEST = 20, ROWS = 4, PADDED_MAX = RANK_TP_LEAVES * 64 };

static rank_sample_vocab vocab_of(int32_t vocab_size)
{
    return (rank_sample_vocab){
        .vocab_size = vocab_size, .leaf_width = rank_tp_leaf_width(vocab_size), .world_size = 1};
}

/* A copy of the logits whose padding must not be looked at. */
static void pad(const rank_sample_vocab *vocab, const float *logits, float padded[PADDED_MAX])
{
    assert_true(vocab->leaf_width * RANK_TP_LEAVES <= PADDED_MAX);
    for (int32_t i = 0; i < PADDED_MAX; i++) {
        padded[i] = i < vocab->vocab_size ? logits[i] : NAN;
    }
}

/* make_logprob_fixture.py */
static void they_are_those_of_torch(void **state)
{
    (void)state;
    static float padded[PADDED_MAX];
    const rank_sample_vocab vocab = vocab_of(VOCAB);
    fixture file;
    size_t count = 0;
    fixture_open(&file, "logprob.fixture");
    float *logits = fixture_get(&file, &count, "logits");
    assert_int_equal(count, ROWS * VOCAB);
    float *values = fixture_get(&file, &count, "values");
    int32_t *best = fixture_get_ints(&file, &count, "best");
    assert_int_equal(count, ROWS * BEST);
    for (int row = 0; row < ROWS; row++) {
        const float *expected = values + row * VOCAB;
        pad(&vocab, logits + row * VOCAB, padded);
        for (int32_t token = 0; token < VOCAB; token++) {
            rank_logprob found[1 + BEST];
            rank_logprobs_make(&vocab, padded, token, 1 + BEST, found);
            assert_int_equal(found[0].token, token);
            assert_true(fabs(found[0].value - (double)expected[token]) <
                        1e-6 * (1 - (double)expected[token]));
            for (int i = 0; i < BEST; i++) {
                assert_int_equal(found[1 + i].token, best[row * BEST + i]);
                assert_true(fabs(found[1 + i].value - (double)expected[found[1 + i].token]) <
                            1e-6 * (1 - found[1 + i].value));
            }
        }
    }
    free(logits);
    free(values);
    free(best);
    fixture_close(&file);
}

/* The sum is in double: as exact as a loop of long doubles, in vocabularies of which leaves are empty, too. */
static void they_are_exact(void **state)
{
    (void)state;
    static float logits[PADDED_MAX];
    for (int32_t vocab_size = 1; vocab_size <= 1000; vocab_size = vocab_size * 3 + 1) {
        const rank_sample_vocab vocab = vocab_of(vocab_size);
        long double sum = 0;
        for (int32_t i = 0; i < PADDED_MAX; i++) {
            logits[i] = i < vocab_size ? 40 * sinf((float)i * 1.7f) - 500 : NAN;
        }
        for (int32_t i = 0; i < vocab_size; i++) {
            sum += expl((long double)logits[i] + 460);
        }
        for (int32_t i = 0; i < vocab_size; i++) {
            rank_logprob found;
            rank_logprobs_make(&vocab, logits, i, 1, &found);
            const long double expected = (long double)logits[i] + 460 - logl(sum);
            assert_true(fabsl(found.value - expected) < 1e-13L * (1 - expected));
            assert_true(found.value < 0 || (found.value == 0 && !signbit(found.value)));
        }
    }
}

/* Of equals the lowest id comes first; a logit of -infinity has no place; the largest may be any float. */
static void what_has_no_probability_is_left_out(void **state)
{
    (void)state;
    static float logits[PADDED_MAX];
    const rank_sample_vocab vocab = vocab_of(300);
    rank_logprob found[RANK_LOGPROBS_MAX];
    for (int32_t i = 0; i < PADDED_MAX; i++) {
        logits[i] = i < 300 ? -INFINITY : NAN;
    }
    logits[299] = 2;
    rank_logprobs_make(&vocab, logits, 299, RANK_LOGPROBS_MAX, found);
    assert_true(found[0].value == 0 && !signbit(found[0].value));
    assert_int_equal(found[1].token, 299);
    assert_int_equal(found[2].token, -1);
    assert_int_equal(found[RANK_LOGPROBS_MAX - 1].token, -1);
    logits[7] = 2;
    logits[150] = 2;
    rank_logprobs_make(&vocab, logits, 150, 3, found);
    assert_int_equal(found[0].token, 150);
    assert_int_equal(found[1].token, 7);
    assert_int_equal(found[2].token, 150);
    assert_true(fabs(found[0].value + log(3)) < 1e-15);
    assert_true(found[1].value == found[0].value);
    logits[0] = -FLT_MAX;
    logits[1] = FLT_MAX;
    rank_logprobs_make(&vocab, logits, 0, 3, found);
    assert_true(found[0].value == -2 * (double)FLT_MAX);
    assert_int_equal(found[1].token, 1);
    assert_true(found[1].value == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_those_of_torch),
        cmocka_unit_test(they_are_exact),
        cmocka_unit_test(what_has_no_probability_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
