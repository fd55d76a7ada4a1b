/* Adapters: their gradients against differences of the loss, and what a model is without them, with them,
 * and with them merged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rank/adapters.h"
#include "support.h"
#include "tiny.h"

enum { RANK = 3 };

/* A model with adapters. */
typedef struct adapted {
    tiny t;
    rank_model_config config; /* of the adapters */
    float *adapters;
    size_t count;
} adapted;

static void open_adapted(adapted *made, const char *config, const char *targets)
{
    base_error error;
    tiny_open_as(&made->t, config);
    made->t.config.adapters = (rank_adapters){.rank = RANK, .scale = 1.5f};
    assert_ok(
        rank_adapters_choose(&made->t.config, targets, &made->t.config.adapters.targets, &error),
        &error);
    made->config = rank_adapters_config(&made->t.config);
    made->count = rank_model_param_count(&made->config);
    made->adapters = malloc(made->count * sizeof *made->adapters);
    assert_non_null(made->adapters);
    assert_true(made->count <= made->t.param_count);
    rank_model_init(&made->config, 7, made->adapters);
    made->t.hooks.adapters = made->adapters;
    tiny_make_model(&made->t, false);
    tiny_fill(&made->t, (const int[]){24, 3, 11, 1, 0}, 5);
    for (int i = 0; i < made->t.batch.token_count; i += 3) {
        made->t.targets[i] = -1;
    }
}

static void close_adapted(adapted *made)
{
    tiny_close(&made->t);
    free(made->adapters);
}

/* B is not zero any more. */
static void fill_b(adapted *made)
{
    for (int i = 1; i < rank_model_tensor_count(&made->config); i += 2) {
        rank_tensor b;
        rank_model_tensor(&made->config, i, &b);
        for (size_t j = 0; j < b.count; j++) {
            made->adapters[b.offset + j] = (float)((int)(j * 7 + (size_t)i) % 11 - 5) * 0.04f;
        }
    }
}

static void gradients_are_differences(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        adapted of;
        open_adapted(&of, tiny_configs[i], "all-linear");
        fill_b(&of);
        (void)tiny_train(&of.t);
        tiny_check_gradients(&of.t, &of.config, of.adapters, 5, tiny_loss);
        for (size_t j = of.count; j < of.t.param_count; j++) {
            assert_true(isnan(of.t.grads[j])); /* frozen weights have no gradients */
        }
        close_adapted(&of);
    }
}

/* Some layers only, and activations that are computed again. */
static void chosen_layers_have_the_same_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        adapted of;
        open_adapted(&of, tiny_configs[i], "");
        fill_b(&of);
        const double loss = tiny_train(&of.t);
        float *grads = malloc(of.count * sizeof *grads);
        assert_non_null(grads);
        memcpy(grads, of.t.grads, of.count * sizeof *grads);
        tiny_make_model(&of.t, true);
        assert_true(tiny_train(&of.t) == loss);
        assert_memory_equal(of.t.grads, grads, of.count * sizeof *grads);
        for (int j = 0; j < of.t.batch.token_count; j++) {
            of.t.targets[j] = -1;
        }
        assert_true(tiny_train(&of.t) == 0.0);
        for (size_t j = 0; j < of.count; j++) {
            assert_true(of.t.grads[j] == 0.0f);
        }
        free(grads);
        close_adapted(&of);
    }
}

static void new_adapters_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        adapted of;
        open_adapted(&of, tiny_configs[i], "all-linear");
        const double with = tiny_loss(&of.t);
        of.t.hooks.adapters = NULL;
        assert_true(tiny_loss(&of.t) == with);
        of.t.hooks.adapters = of.adapters;
        fill_b(&of);
        assert_true(tiny_loss(&of.t) != with);
        close_adapted(&of);
    }
}

static void merged_weights_have_their_loss(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        adapted of;
        open_adapted(&of, tiny_configs[i], "all-linear");
        const double before = tiny_loss(&of.t);
        fill_b(&of);
        const double loss = tiny_loss(&of.t);
        rank_adapters_merge(&of.t.config, of.adapters, of.t.params);
        of.t.hooks.adapters = NULL;
        const double merged = tiny_loss(&of.t);
        if (!(fabs(merged - loss) < 1e-5 * loss && fabs(before - loss) > 1e-3 * loss)) {
            fail_msg("loss %.9g with adapters, %.9g merged, %.9g without", loss, merged, before);
        }
        close_adapted(&of);
    }
}

static void layers_are_chosen_by_name(void **state)
{
    static const struct {
        const char *config;
        const char *names;
        const char *found; /* NULL: refused */
    } cases[] = {
        {NULL, "", "c_attn"},
        {NULL, "c_proj", "c_proj"},
        {NULL, "c_attn,mlp.c_proj", "c_attn,mlp.c_proj"},
        {NULL, "all-linear", "c_attn,c_proj,c_fc"},
        {NULL, "proj", NULL},
        {NULL, "q_proj", NULL},
        {NULL, "c_attn,", NULL},
        {NULL, "wpe", NULL},
        {NULL, "lm_head", NULL},
        {TINY_QWEN3, "", "q_proj,v_proj"},
        {TINY_QWEN2, "self_attn.k_proj,mlp.down_proj", "k_proj,down_proj"},
        {TINY_LLAMA_TIED, "all-linear", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"},
        {TINY_LLAMA_LINEAR, "embed_tokens", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank_model_config config;
        base_error error;
        char names[RANK_ADAPTERS_NAMES_BYTES];
        tiny_config(&config, cases[i].config);
        const base_status status =
            rank_adapters_choose(&config, cases[i].names, &config.adapters.targets, &error);
        assert_status(status, cases[i].found != NULL ? BASE_OK : BASE_ERR_INVALID);
        if (status == BASE_OK) {
            rank_adapters_names(&config, names);
            assert_string_equal(names, cases[i].found);
        }
    }
}

static void models_with_experts_have_none(void **state)
{
    (void)state;
    base_error error;
    uint32_t targets = 0;
    rank_model_config config;
    tiny_config(&config, TINY_MIXTRAL);
    assert_status(rank_adapters_choose(&config, "", &targets, &error), BASE_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(chosen_layers_have_the_same_gradients),
        cmocka_unit_test(new_adapters_change_no_bit),
        cmocka_unit_test(merged_weights_have_their_loss),
        cmocka_unit_test(layers_are_chosen_by_name),
        cmocka_unit_test(models_with_experts_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
