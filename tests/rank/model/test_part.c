/* What ranks that share a model have of it: all parts together are the model, and each has the order of its own
 * layout. */
#include <stdlib.h>
#include <string.h>

#include "model/family.h"
#include "support.h"
#include "tiny.h"

enum { RANKS_MAX = 4 };

static void widen(rank_model_config *config, int vocab_size)
{
    config->vocab_size = vocab_size;
}

static rank_model_config part_of(const rank_model_config *config, int ranks, int rank)
{
    rank_model_config part = *config;
    part.tensor_ranks = ranks;
    part.tensor_rank = rank;
    return part;
}

/* Copies one rank's tensors out of `whole` and into `back`; returns how many elements are its own. */
static size_t copy_rank(const rank_model_config *part, const float *whole, float *back)
{
    size_t end = 0;
    float *own = calloc(rank_model_param_count(part), sizeof *own);
    assert_non_null(own);
    for (int i = 0; i < rank_model_tensor_count(part); i++) {
        rank_tensor tensor;
        rank_model_tensor(part, i, &tensor);
        assert_int_equal(tensor.offset, end); /* without holes */
        assert_int_equal(tensor.count, tensor.shape[0] * (tensor.dims > 1 ? tensor.shape[1] : 1));
        rank_model_take_part(part, i, whole, own + tensor.offset);
        rank_model_put_part(part, i, own + tensor.offset, back);
        end += tensor.count;
    }
    assert_int_equal(end, rank_model_param_count(part));
    free(own);
    return end;
}

static void check_parts(const rank_model_config *config, int ranks)
{
    const size_t count = rank_model_param_count(config);
    float *whole = calloc(count, sizeof *whole);
    float *back = calloc(count, sizeof *back);
    const size_t more = (size_t)ranks - 1;
    size_t held_again = 0; /* by ranks behind the first that has it */
    size_t held = 0;
    assert_non_null(whole);
    assert_non_null(back);
    for (size_t i = 0; i < count; i++) {
        whole[i] = (float)(i + 1);
    }
    for (int i = 0; i < rank_model_tensor_count(config); i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        held_again += tensor.cut.kind == RANK_CUT_NONE ? more * tensor.count : 0;
        if (tensor.cut.kind == RANK_CUT_KV_HEADS) {
            const size_t heads = rank_cut_units(&tensor.cut, tensor.shape[tensor.cut.axis]);
            held_again += (size_t)ranks > heads ? ((size_t)ranks / heads - 1) * tensor.count : 0;
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        const rank_model_config part = part_of(config, ranks, rank);
        held += copy_rank(&part, whole, back);
    }
    assert_memory_equal(back, whole, count * sizeof *whole);
    assert_int_equal(held, count + held_again); /* so other elements have one holder */
    free(whole);
    free(back);
}

static void parts_together_are_the_model(void **state)
{
    (void)state;
    base_error error;
    for (int i = 0; i < TINY_CONFIGS; i++) {
        rank_model_config config;
        int possible = 0;
        tiny_config(&config, tiny_configs[i]);
        widen(&config, 401);
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            if (rank_model_check_world(&config, ranks, &error) == BASE_OK) {
                check_parts(&config, ranks);
                possible++;
            }
        }
        assert_in_range(possible, 2, RANKS_MAX);
    }
}

/* The third element of each head of queries, keys and values is with the rank that has the head. */
static void heads_go_with_their_rank(void **state)
{
    (void)state;
    rank_model_config config;
    tiny_config(&config, NULL);
    const size_t width = (size_t)config.width;
    const size_t head_width = width / (size_t)config.heads;
    const size_t columns = 3 * width;
    float *whole = calloc(rank_model_param_count(&config), sizeof *whole);
    float *own = calloc(width * columns, sizeof *own);
    rank_tensor qkv;
    int index = 0;
    assert_non_null(whole);
    assert_non_null(own);
    do {
        rank_model_tensor(&config, index++, &qkv);
    } while (strcmp(qkv.name, "h.0.attn.c_attn.weight") != 0);
    index--;
    for (size_t i = 0; i < width * columns; i++) {
        whole[qkv.offset + i] = (float)(i % columns);
    }
    const rank_model_config part = part_of(&config, config.heads, 1);
    rank_model_take_part(&part, index, whole, own);
    for (size_t row = 0; row < width; row++) {
        for (size_t i = 0; i < 3 * head_width; i++) {
            const size_t due = i / head_width * width + head_width + i % head_width;
            assert_true(own[row * 3 * head_width + i] == (float)due);
        }
    }
    free(whole);
    free(own);
}

static void what_cannot_be_shared_is_named(void **state)
{
    (void)state;
    base_error error;
    rank_model_config config;
    tiny_config(&config, NULL);
    config.heads = 4;
    config.width = 64;
    widen(&config, 512);
    assert_int_equal(rank_model_check_tensor_ranks(&config, 8, &error), BASE_ERR_INVALID);
    assert_has(error.message, "it can between 1, 2, 4");
    assert_int_equal(rank_model_check_tensor_ranks(&config, 3, &error), BASE_ERR_INVALID);
    assert_int_equal(rank_model_check_tensor_ranks(&config, 0, &error), BASE_ERR_INVALID);
    assert_ok(rank_model_check_tensor_ranks(&config, 4, &error), &error);
    widen(&config, 200); /* of 16 leaves of 32 ids the last nine have none */
    assert_int_equal(rank_model_check_tensor_ranks(&config, 2, &error), BASE_ERR_INVALID);
    assert_has(error.message,
               "a vocabulary of 200 tokens cannot be cut between 2 ranks; it can between 1");
    tiny_config(&config, TINY_QWEN3);
    assert_int_equal(rank_model_check_world(&config, 16, &error), BASE_ERR_INVALID);
    assert_has(error.message, "heads, and 2 of keys and values, cannot be cut between 16 ranks");
    tiny_config(&config, NULL);
    config.heads = 2;
    config.width = 12;
    widen(&config, 512);
    assert_int_equal(rank_model_check_tensor_ranks(&config, 2, &error), BASE_ERR_INVALID);
    assert_has(error.message, "a model whose MLP has 48 columns, and is cut by 16, cannot be cut");
    tiny_config(&config, "{\"model_type\":\"llama\",\"vocab_size\":37,\"hidden_size\":20,"
                         "\"intermediate_size\":45,\"num_hidden_layers\":2,\"head_dim\":6,"
                         "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
                         "\"rms_norm_eps\":1e-5,\"max_position_embeddings\":24,"
                         "\"hidden_act\":\"silu\"}");
    assert_int_equal(rank_model_check_world(&config, 2, &error), BASE_ERR_INVALID);
    assert_has(error.message, "a model whose MLP has 45 columns cannot be cut between 2 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_together_are_the_model),
        cmocka_unit_test(heads_go_with_their_rank),
        cmocka_unit_test(what_cannot_be_shared_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
