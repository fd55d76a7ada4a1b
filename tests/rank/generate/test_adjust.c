/* Penalties and biases: against the formulas of docs/TENSOR_PARALLEL.md in a plain loop over the vocabulary, and
 * the same bits for every share of it. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "generate/adjust.h"
#include "random.h"
#include "support.h"

enum { VOCAB = 97, TEXT = 60, PROMPT = 25 };

static uint64_t random_state = 11;

static const rank_penalties ways[] = {
    {.presence = 0},
    {.presence = 0.5},
    {.presence = -2},
    {.frequency = 0.7},
    {.frequency = -0.3, .repetition = 1},
    {.repetition = 1.2},
    {.repetition = 0.5},
    {.presence = 0.25, .frequency = 1.9, .repetition = 1.7},
};

/* OpenAI's formula, after that of transformers' RepetitionPenaltyLogitsProcessor, and then the bias. */
static float reference(const rank_adjustment *how, const int32_t *tokens, float logit,
                       int32_t token)
{
    const rank_penalties *of = how->penalties;
    long double value = (long double)logit;
    int times = 0;
    int anywhere = 0;
    for (int i = 0; i < TEXT; i++) {
        anywhere += tokens[i] == token;
        times += i >= PROMPT && tokens[i] == token;
    }
    if (anywhere > 0 && of->repetition != 0) {
        value =
            value < 0 ? value * (long double)of->repetition : value / (long double)of->repetition;
    }
    value -= (long double)times * (long double)of->frequency +
             (times > 0 ? 1.0L : 0.0L) * (long double)of->presence;
    for (int i = 0; i < how->bias_count; i++) {
        value += how->biases[i].token == token ? (long double)how->biases[i].bias : 0;
    }
    return (float)value;
}

static void fill(int32_t tokens[TEXT], float logits[VOCAB])
{
    for (int i = 0; i < TEXT; i++) {
        tokens[i] = (int32_t)(test_random_below(&random_state, i % 2 == 0 ? 7 : VOCAB));
    }
    for (int i = 0; i < VOCAB; i++) {
        logits[i] = (float)((int)test_random_below(&random_state, 2001) - 1000) / 97;
    }
    logits[tokens[3]] = 0;
}

static void they_are_the_formulas(void **state)
{
    (void)state;
    int32_t tokens[TEXT];
    float logits[VOCAB];
    static uint32_t marks[VOCAB];
    static const uint32_t none[VOCAB];
    const rank_logit_bias biases[] = {{3, 2.5F}, {96, -100}, {0, 100}};
    const rank_adjust_text text = {.tokens = tokens, .prompt_count = PROMPT, .count = TEXT};
    int different = 0;
    for (int round = 0; round < 200; round++) {
        const rank_adjustment how = {&ways[round % 8], biases, round % 4};
        float changed[VOCAB];
        fill(tokens, logits);
        memcpy(changed, logits, sizeof changed);
        rank_adjust(&how, &text, &(rank_adjust_row){changed, 0, VOCAB, marks});
        assert_memory_equal(marks, none, sizeof marks);
        assert_int_equal(rank_adjust_any(&how), round % 8 != 0 || round % 4 != 0);
        for (int32_t token = 0; token < VOCAB; token++) {
            const float expected = reference(&how, tokens, logits[token], token);
            assert_true(fabsf(changed[token] - expected) <= 2e-7F * (1 + fabsf(expected)));
            different += changed[token] != logits[token];
        }
        for (int32_t first = 0, parts = 1 + round % 9, part = 0; part < parts; part++) {
            float own[VOCAB];
            const int32_t end = VOCAB * (part + 1) / parts;
            memcpy(own, logits + first, (size_t)(end - first) * sizeof *own);
            rank_adjust(&how, &text, &(rank_adjust_row){own, first, end - first, marks});
            assert_memory_equal(own, changed + first, (size_t)(end - first) * sizeof *own);
            first = end;
        }
    }
    assert_true(different > 1000);
}

static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    uint32_t marks[5] = {0};
    float logits[5] = {-INFINITY, NAN, INFINITY, FLT_MAX, -FLT_MAX};
    const int32_t tokens[5] = {0, 1, 2, 3, 4};
    const rank_penalties penalties = {.presence = -2, .repetition = 0.1};
    const rank_penalties larger = {.presence = 2, .repetition = 10};
    const rank_logit_bias biases[] = {{0, 100}, {1, 100}, {2, -100}, {3, 100}, {4, -100}};
    const rank_adjust_text text = {.tokens = tokens, .count = 5};
    const rank_adjust_row row = {logits, 0, 5, marks};
    rank_adjust(&(rank_adjustment){&penalties, biases, 5}, &text, &row);
    rank_adjust(&(rank_adjustment){&larger, biases, 5}, &text, &row);
    assert_true(logits[0] == -INFINITY);
    assert_true(isnan(logits[1]));
    assert_true(logits[2] == INFINITY);
    assert_true(isfinite(logits[3]) && logits[3] > 0);
    assert_true(isfinite(logits[4]) && logits[4] < 0);
}

static void what_is_out_of_range_is_named(void **state)
{
    (void)state;
    base_error error;
    const rank_penalties none = {.presence = 0};
    const rank_penalties wrong[] = {
        {.presence = 2.1},  {.presence = NAN},     {.frequency = -2.1},
        {.repetition = -1}, {.repetition = 10.01}, {.repetition = 0.09},
    };
    for (int i = 0; i < 6; i++) {
        assert_status(rank_adjust_check(&(rank_adjustment){&wrong[i], NULL, 0}, VOCAB, NULL),
                      BASE_ERR_INVALID);
    }
    for (int i = 0; i < 8; i++) {
        assert_ok(rank_adjust_check(&(rank_adjustment){&ways[i], NULL, 0}, VOCAB, &error), &error);
    }
    const rank_logit_bias biases[] = {{96, 100}, {97, 1}};
    assert_ok(rank_adjust_check(&(rank_adjustment){&none, biases, 1}, VOCAB, &error), &error);
    assert_status(rank_adjust_check(&(rank_adjustment){&none, biases, 2}, VOCAB, &error),
                  BASE_ERR_INVALID);
    assert_string_equal(error.message, "logit_bias: there is no token 97, the vocabulary has 97");
    const rank_logit_bias large[] = {{0, 100.5F}};
    assert_status(rank_adjust_check(&(rank_adjustment){&none, large, 1}, VOCAB, NULL),
                  BASE_ERR_INVALID);
    assert_status(rank_adjust_check(&(rank_adjustment){&none, biases, RANK_LOGIT_BIASES_MAX + 1},
                                    VOCAB, NULL),
                  BASE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_the_formulas),
        cmocka_unit_test(what_is_not_finite_stays_so),
        cmocka_unit_test(what_is_out_of_range_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
