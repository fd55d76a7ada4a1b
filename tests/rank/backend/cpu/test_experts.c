/* Routing: which experts rows go to, with what weights, where they stand; and that a row's routing is its own.
 * Gradients are compared with PyTorch's in tests/rank/model/test_oracle.c. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "support.h"

enum { ROWS = 9, EXPERTS = 5, CHOSEN = 3 };

typedef struct bed {
    float scores[ROWS * EXPERTS];
    float weights[ROWS * CHOSEN];
    int32_t choices[ROWS * CHOSEN];
    int32_t places[ROWS * CHOSEN];
    int32_t at[ROWS * CHOSEN];
    int32_t begins[EXPERTS + 1];
    rank_routing routing;
} bed;

static void route(bed *b, const float *logits, size_t rows, bool normed)
{
    memset(b, 0xff, sizeof *b);
    memcpy(b->scores, logits, rows * EXPERTS * sizeof *logits);
    b->routing = (rank_routing){b->scores, b->weights, b->choices, b->places, b->at, b->begins};
    rank_kernels_get()->route(&(rank_route){.rows = rows,
                                            .experts = EXPERTS,
                                            .chosen = CHOSEN,
                                            .normed = normed,
                                            .routing = &b->routing});
}

static void fill(float *logits)
{
    for (size_t i = 0; i < ROWS * EXPERTS; i++) {
        logits[i] = (float)(i * 2654435761u % 1000) / 200.0f;
    }
}

static void ties_go_to_the_lower_expert(void **state)
{
    static const float logits[] = {1, 2, 2, 2, 2};
    static const int32_t expected[] = {1, 2, 3};
    bed b;
    (void)state;
    route(&b, logits, 1, true);
    assert_memory_equal(b.choices, expected, sizeof expected);
    assert_true(b.weights[0] == b.weights[1] && b.weights[1] == b.weights[2]);
}

static void logits_that_are_no_numbers_choose_experts_all_the_same(void **state)
{
    static const float logits[] = {NAN, NAN, NAN, NAN, NAN};
    bed b;
    (void)state;
    route(&b, logits, 1, true);
    for (int k = 0; k < CHOSEN; k++) {
        assert_true(b.choices[k] == k);
        assert_true(isnan(b.weights[k]));
    }
}

static void weights_are_the_softmax_of_the_largest(void **state)
{
    float logits[ROWS * EXPERTS];
    bed b;
    (void)state;
    fill(logits);
    for (int normed = 0; normed < 2; normed++) {
        route(&b, logits, ROWS, normed == 1);
        for (size_t row = 0; row < ROWS; row++) {
            const int32_t *choices = b.choices + row * CHOSEN;
            double all = 0.0;
            double chosen = 0.0;
            for (size_t e = 0; e < EXPERTS; e++) {
                const double exponential = exp((double)logits[row * EXPERTS + e]);
                all += exponential;
                for (size_t k = 0; k < CHOSEN; k++) {
                    chosen += choices[k] == (int32_t)e ? exponential : 0.0;
                }
            }
            for (size_t k = 0; k < CHOSEN; k++) {
                const float logit = logits[row * EXPERTS + (size_t)choices[k]];
                const double weight = exp((double)logit) / (normed == 1 ? chosen : all);
                assert_true(fabs((double)b.weights[row * CHOSEN + k] - weight) < 1e-6);
                assert_true(k == 0 || choices[k] > choices[k - 1]);
            }
        }
    }
}

static void places_are_sorted_by_expert_and_row(void **state)
{
    float logits[ROWS * EXPERTS];
    bed b;
    (void)state;
    fill(logits);
    route(&b, logits, ROWS, true);
    assert_int_equal(b.begins[0], 0);
    assert_int_equal(b.begins[EXPERTS], ROWS * CHOSEN);
    for (int32_t e = 0; e < EXPERTS; e++) {
        for (int32_t place = b.begins[e]; place < b.begins[e + 1]; place++) {
            assert_int_equal(b.choices[b.at[place]], e);
            assert_int_equal(b.places[b.at[place]], place);
            assert_true(place == b.begins[e] || b.at[place] > b.at[place - 1]);
        }
    }
}

static void a_row_is_routed_as_it_is_alone(void **state)
{
    float logits[ROWS * EXPERTS];
    bed together;
    bed alone;
    (void)state;
    fill(logits);
    route(&together, logits, ROWS, true);
    for (size_t row = 0; row < ROWS; row++) {
        route(&alone, logits + row * EXPERTS, 1, true);
        assert_memory_equal(alone.choices, together.choices + row * CHOSEN,
                            CHOSEN * sizeof(int32_t));
        assert_memory_equal(alone.weights, together.weights + row * CHOSEN, CHOSEN * sizeof(float));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_lower_expert),
        cmocka_unit_test(logits_that_are_no_numbers_choose_experts_all_the_same),
        cmocka_unit_test(weights_are_the_softmax_of_the_largest),
        cmocka_unit_test(places_are_sorted_by_expert_and_row),
        cmocka_unit_test(a_row_is_routed_as_it_is_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
