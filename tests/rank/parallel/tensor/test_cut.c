/* Cutting tensors between ranks, as GPT-2 describes them: every element has one owner. */
#include "parallel/tensor/cut.h"

#include <stdlib.h>
#include <string.h>

#include "model/family.h"
#include "model/gpt2/gpt2.h"
#include "model/llama/parts.h"
#include "support.h"

static const rank_model_config config = {
    .family = &rank_gpt2, .vocab_size = 24, .width = 24, .layers = 1, .heads = 6, .context = 8};

static void check_tensor(const rank_tensor *tensor, int ranks)
{
    const size_t extent = tensor->shape[tensor->cut.axis];
    int *owner = malloc(extent * sizeof *owner);
    assert_non_null(owner);
    memset(owner, 0xff, extent * sizeof *owner);
    for (int rank = 0; rank < ranks; rank++) {
        for (int part = 0; part < tensor->cut.parts; part++) {
            const rank_cut_range range =
                rank_cut_range_make(&tensor->cut, extent, part, rank, ranks);
            assert_int_equal(range.first % tensor->cut.unit, 0);
            for (size_t i = range.first; i < range.first + range.count; i++) {
                assert_true(i < extent);
                assert_int_equal(owner[i], -1);
                owner[i] = rank;
            }
        }
    }
    for (size_t i = 0; i < extent; i++) {
        assert_true(owner[i] >= 0);
    }
    free(owner);
}

static void every_element_has_one_owner(void **state)
{
    (void)state;
    static const int worlds[] = {1, 2, 3, 6};
    int cut = 0;
    for (int i = 0; i < rank_model_tensor_count(&config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&config, i, &tensor);
        for (size_t w = 0; tensor.cut.kind != RANK_CUT_NONE && w < 4; w++) {
            check_tensor(&tensor, worlds[w]);
            cut++;
        }
    }
    assert_int_equal(cut, 4 * 7); /* wte, q-k-v and up with their biases, both projections back */
}

/* The second rank of two has the last three heads of q, of k and of v. */
static void fused_parts_are_cut_alike(void **state)
{
    (void)state;
    rank_tensor qkv;
    rank_model_tensor(&config, 4, &qkv);
    assert_string_equal(qkv.name, "h.0.attn.c_attn.weight");
    for (int part = 0; part < 3; part++) {
        const rank_cut_range range = rank_cut_range_make(&qkv.cut, 72, part, 1, 2);
        assert_int_equal(range.first, part * 24 + 12);
        assert_int_equal(range.count, 12);
    }
}

/* Two heads of keys and values between four ranks. */
static void more_ranks_than_heads_of_keys_share_them(void **state)
{
    (void)state;
    const rank_cut cut = {.kind = RANK_CUT_KV_HEADS, .parts = 1, .unit = 6};
    for (int rank = 0; rank < 4; rank++) {
        const rank_cut_range range = rank_cut_range_make(&cut, 12, 0, rank, 4);
        assert_int_equal(range.first, rank / 2 * 6);
        assert_int_equal(range.count, 6);
    }
    assert_int_equal(rank_cut_range_make(&cut, 12, 0, 1, 2).first, 6);
}

/* Of 12 heads, and 2 or 3 of keys and values. */
static void heads_of_keys_limit_the_ranks(void **state)
{
    (void)state;
    base_error error;
    rank_model_config llama = {.family = &rank_llama,
                               .vocab_size = 600,
                               .width = 24,
                               .layers = 1,
                               .heads = 12,
                               .context = 8,
                               .settings = {[LLAMA_KV_HEADS] = 2,
                                            [LLAMA_HEAD_WIDTH] = 4,
                                            [LLAMA_HIDDEN] = 192,
                                            [LLAMA_EPSILON] = 1e-6,
                                            [LLAMA_THETA] = 1e4}};
    static const int fitting[] = {1, 2, 4, 6, 12};
    for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++) {
        assert_ok(rank_model_check_world(&llama, fitting[i], &error), &error);
    }
    assert_status(rank_model_check_world(&llama, 3, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "12 heads, and 2 of keys and values, cannot be cut "
                                          "between 3 ranks; it can between 1, 2, 4, 6, 12"));
    assert_status(rank_model_check_tensor_ranks(&llama, 4, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "2 of keys and values, cannot be cut between 4 ranks; it "
                                          "can between 1, 2"));
    llama.settings[LLAMA_KV_HEADS] = 3;
    assert_status(rank_model_check_world(&llama, 2, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "it can between 1, 3, 6, 12"));
}

static void ranks_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    base_error error;
    assert_ok(rank_model_check_world(&config, 6, &error), &error);
    assert_status(rank_model_check_world(&config, 4, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "6 heads cannot be cut between 4 ranks; it can between "
                                          "1, 2, 3, 6"));
    assert_status(rank_model_check_world(&config, 0, &error), BASE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_one_owner),
        cmocka_unit_test(fused_parts_are_cut_alike),
        cmocka_unit_test(more_ranks_than_heads_of_keys_share_them),
        cmocka_unit_test(heads_of_keys_limit_the_ranks),
        cmocka_unit_test(ranks_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
