/* Adapters beside matrices in bfloat16, in int8 and in int4: the same logits to the bit on 1, 2 and 4 ranks, whatever the batch
 * and the chunks of a prompt, and those of the merged model but for rounding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode_world.h"
#include "rank/adapters.h"
#include "support.h"

enum { RANK = 5 };

static const rank_model_config *const models[] = {&config_of_4, &qwen2, &qwen3};
enum { MODELS = sizeof models / sizeof models[0] };

/* What is cut by outputs, what by inputs, and both. */
static const char *const targets[MODELS][3] = {
    {"c_attn,c_fc", "c_proj", "all-linear"},
    {"q_proj,v_proj,up_proj", "o_proj,down_proj", "all-linear"},
    {"k_proj,gate_proj", "o_proj", "all-linear"},
};

static rank_model_config adapted(int model, const char *layers)
{
    base_error error;
    rank_model_config config = *models[model];
    config.family = config.family != NULL ? config.family : rank_family_default();
    config.adapters = (rank_adapters){.rank = RANK, .scale = 1.5f};
    assert_ok(rank_adapters_choose(&config, layers, &config.adapters.targets, &error), &error);
    return config;
}

static void check_worlds(const rank_model_config *config, rank_type type)
{
    static const script scripts[] = {{SEQUENCES, 7}, {1, 1}};
    world w = new_world(config, type);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*alone)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
            run_world(&w, ranks, i == 0 ? COLL_TRANSPORT_TCP : COLL_TRANSPORT_SHM, scripts[i]);
            assert_memory_equal(w.logits, alone, sizeof *alone);
        }
    }
    w.config.adapters.scale = 0; /* they do add something */
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    assert_true(memcmp(w.logits, alone, sizeof *alone) != 0);
    free(alone);
    free_world(&w);
}

/* Under a sanitizer the layers of a model are beside matrices of the one type or of the other. */
static void every_world_has_the_same_bits(void **state)
{
    (void)state;
    for (int model = 0; model < MODELS; model++) {
        for (int i = 0; i < 3; i++) {
            const rank_model_config config = adapted(model, targets[model][i]);
            const rank_type types[] = {RANK_BFLOAT16, model % 2 == i % 2 ? RANK_INT4 : RANK_INT8};
            for (int type = 0; type < 2; type++) {
                if (!TEST_HAS_SANITIZER || (model + i) % 2 == type) {
                    check_worlds(&config, types[type]);
                }
            }
        }
    }
}

/* Numbers that bfloat16 holds. */
static void round_params(world *w)
{
    const size_t count = rank_model_param_count(&w->config);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &w->params[i], sizeof bits);
        bits &= 0xffff0000;
        memcpy(&w->params[i], &bits, sizeof bits);
    }
}

static void logits_are_those_of_the_merged_model(void **state)
{
    (void)state;
    for (int model = 0; model < MODELS; model++) {
        for (int i = 0; i < 3; i++) {
            const rank_model_config config = adapted(model, targets[model][i]);
            world w = new_world(&config, RANK_BFLOAT16);
            round_params(&w);
            run_world(&w, 2, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
            float(*beside)[SEQUENCES][TOKENS][PADDED] = keep(&w);
            rank_adapters_merge(&w.config, w.adapters, w.params);
            w.config.adapters.rank = 0;
            w.type = RANK_FLOAT32;
            run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
            const float *a = (const void *)beside;
            const float *b = (const void *)w.logits;
            for (size_t at = 0; at < sizeof *beside / sizeof *a; at++) {
                if (!(fabsf(a[at] - b[at]) <= 1e-4f * (1.0f + fabsf(b[at])))) {
                    fail_msg("model %d, %s: logit %zu is %g, not %g", model, targets[model][i], at,
                             (double)a[at], (double)b[at]);
                }
            }
            free(beside);
            free_world(&w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_has_the_same_bits),
        cmocka_unit_test(logits_are_those_of_the_merged_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
