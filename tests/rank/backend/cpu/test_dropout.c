/* Dropout: the generator's published answers, each element against another evaluation, how many are dropped, and
 * that masks of different places are different. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "philox.h"
#include "support.h"

/* From Random123's kat_vectors. */
static const struct {
    uint32_t counter[4];
    uint32_t key[2];
    uint32_t words[4];
} answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};
enum { ANSWERS = sizeof answers / sizeof answers[0], WIDTH_MAX = 200, ROWS = 3 };

static void the_reference_gives_the_published_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ANSWERS; i++) {
        uint32_t words[4];
        test_philox(answers[i].counter, answers[i].key, words);
        assert_memory_equal(words, answers[i].words, sizeof words);
    }
}

/* A word is found by two limits: it is not less than itself, and less than the number behind it. */
static void kernels_give_the_published_answers(void **state)
{
    (void)state;
    float *ones = malloc(2 * RANK_DROPOUT_WIDTH_MAX * sizeof *ones);
    assert_non_null(ones);
    float *got = ones + RANK_DROPOUT_WIDTH_MAX;
    for (size_t i = 0; i < RANK_DROPOUT_WIDTH_MAX; i++) {
        ones[i] = 1.0f;
    }
    for (int k = 0; rank_kernels_at(k) != NULL; k++) {
        for (size_t i = 0; i < ANSWERS; i++) {
            const uint32_t *counter = answers[i].counter;
            const size_t call = counter[0] % RANK_DROPOUT_ROW_CALLS;
            rank_dropout args = {.rows = 1,
                                 .width = RANK_DROPOUT_WIDTH_MAX,
                                 .from = ones,
                                 .to = got,
                                 .first_token = counter[0] / RANK_DROPOUT_ROW_CALLS,
                                 .site = counter[1],
                                 .step = counter[2] | (uint64_t)counter[3] << 32,
                                 .seed = answers[i].key[0] | (uint64_t)answers[i].key[1] << 32,
                                 .scale = 2.0f};
            for (size_t word = 0; word < 4; word++) {
                const float *at = got + call / 16 * 64 + call % 16 + 16 * word;
                args.below = answers[i].words[word];
                rank_kernels_at(k)->dropout(&args);
                assert_true(*at == 2.0f);
                args.below++;
                rank_kernels_at(k)->dropout(&args);
                assert_true(*at == 0.0f);
            }
        }
    }
    free(ones);
}

/* What the kernel should make of a row's element. */
static float expected(const rank_dropout *args, size_t row, size_t column)
{
    const size_t own = args->tokens != NULL ? (size_t)args->tokens[row] : row;
    const test_mask mask = {args->seed, args->step, args->site,
                            (uint32_t)(args->first_token + own)};
    float x = args->from[row * args->width + column];
    if (args->bias != NULL) {
        x = x + args->bias[column];
    }
    return test_mask_word(&mask, column) < args->below ? 0.0f : x * args->scale;
}

static void check_elements(const rank_kernels *kernels, size_t width, const int32_t *tokens,
                           const float *bias, bool in_place)
{
    static const float guard = 77.0f;
    float from[ROWS * WIDTH_MAX + 1];
    float to[ROWS * WIDTH_MAX + 1];
    float wanted[ROWS * WIDTH_MAX];
    for (size_t i = 0; i < ROWS * width; i++) {
        from[i] = (float)(i % 17) - 8.3f;
    }
    from[ROWS * width] = guard;
    to[ROWS * width] = guard;
    const rank_dropout args = {.rows = ROWS,
                               .width = width,
                               .from = from,
                               .bias = bias,
                               .to = in_place ? from : to,
                               .tokens = tokens,
                               .first_token = 1000,
                               .site = 0x12345678,
                               .step = UINT64_C(0x1234567890),
                               .seed = UINT64_C(35000) << 20,
                               .below = UINT32_C(1) << 30,
                               .scale = 4.0f / 3.0f};
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t column = 0; column < width; column++) {
            wanted[row * width + column] = expected(&args, row, column);
        }
    }
    kernels->dropout(&args);
    assert_memory_equal(args.to, wanted, ROWS * width * sizeof *wanted);
    assert_true(from[ROWS * width] == guard && to[ROWS * width] == guard);
}

static void elements_are_those_of_the_reference(void **state)
{
    (void)state;
    static const int32_t tokens[ROWS] = {0, 4, 999};
    float bias[WIDTH_MAX];
    for (size_t i = 0; i < WIDTH_MAX; i++) {
        bias[i] = 0.3f * (float)(i % 5);
    }
    for (int k = 0; rank_kernels_at(k) != NULL; k++) {
        for (size_t width = 1; width <= WIDTH_MAX; width++) {
            const bool odd = width % 2 == 1;
            check_elements(rank_kernels_at(k), width, odd ? tokens : NULL,
                           width % 3 == 0 ? bias : NULL, odd);
        }
    }
}

enum { MANY_ROWS = 1024, MANY_WIDTH = 256, MANY = MANY_ROWS * MANY_WIDTH };

/* The mask of many rows of ones, as what the kernel makes of them. */
static float *mask_of(rank_dropout args)
{
    float *at = malloc(MANY * sizeof *at);
    assert_non_null(at);
    for (size_t i = 0; i < MANY; i++) {
        at[i] = 1.0f;
    }
    args.rows = MANY_ROWS;
    args.width = MANY_WIDTH;
    args.from = at;
    args.to = at;
    rank_kernels_get()->dropout(&args);
    return at;
}

static rank_dropout of_rate(double rate)
{
    return (rank_dropout){.site = 7,
                          .step = 3,
                          .seed = 35000,
                          .below = (uint32_t)(rate * 0x1p32),
                          .scale = (float)(1.0 / (1.0 - rate))};
}

/* Five standard deviations of that many draws. */
static void check_share(double share, double probability)
{
    const double deviation = sqrt(probability * (1.0 - probability) / MANY);
    if (!(fabs(share - probability) <= 5.0 * deviation)) {
        fail_msg("a share of %g, of %g ± %g", share, probability, deviation);
    }
}

static void as_many_are_dropped_as_asked_for(void **state)
{
    (void)state;
    static const double rates[] = {0.01, 0.1, 0.5, 0.9};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        double sum = 0.0;
        size_t zeros = 0;
        float *mask = mask_of(of_rate(rates[i]));
        for (size_t j = 0; j < MANY; j++) {
            sum += (double)mask[j];
            zeros += mask[j] == 0.0f;
        }
        free(mask);
        check_share((double)zeros / MANY, rates[i]);
        check_share(sum / MANY * (1.0 - rates[i]), 1.0 - rates[i]); /* the mean stays 1 */
    }
}

/* Two masks that do not depend on each other agree where both keep, or both drop. */
static void check_independent(const float *a, const float *b, size_t count, double rate)
{
    size_t equal = 0;
    for (size_t i = 0; i < count; i++) {
        equal += (a[i] == 0.0f) == (b[i] == 0.0f);
    }
    check_share((double)equal / (double)count, rate * rate + (1.0 - rate) * (1.0 - rate));
}

static void masks_of_other_places_are_others(void **state)
{
    (void)state;
    static const double rate = 0.3;
    const rank_dropout of = of_rate(rate);
    rank_dropout others[] = {of, of, of, of, of};
    others[0].first_token = MANY_ROWS;
    others[1].site++;
    others[2].step++;
    others[3].step |= UINT64_C(1) << 32;
    others[4].seed++;
    float *mask = mask_of(of);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        float *other = mask_of(others[i]);
        check_independent(mask, other, MANY, rate);
        free(other);
    }
    check_independent(mask, mask + MANY_WIDTH, MANY - MANY_WIDTH, rate); /* the row behind */
    check_independent(mask, mask + 1, MANY - 1, rate);                   /* the column behind */
    check_independent(mask, mask + 16, MANY - 16, rate); /* the same call's next word */
    free(mask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_gives_the_published_answers),
        cmocka_unit_test(kernels_give_the_published_answers),
        cmocka_unit_test(elements_are_those_of_the_reference),
        cmocka_unit_test(as_many_are_dropped_as_asked_for),
        cmocka_unit_test(masks_of_other_places_are_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
