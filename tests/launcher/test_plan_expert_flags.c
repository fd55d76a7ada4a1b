/* `launcher plan` of models with experts: which flags and files they come from, and what is printed of them. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "plan_run.h"
#include "support.h"

static char text[PLAN_TEXT_BYTES];

#define MINI "--model", "minigpt", "--batch", "4", "--global-batch", "64"

/* As many as a block has, and as a token goes to: 2 if nobody says. Names of presets are in test_plan_experts.c. */
static void flags_give_a_model_experts(void **state)
{
    (void)state;
    /* a Mixtral as the launcher begins it: 512 · 128 + 128 + 2 (4 · 128² + 8 · 3 · 128 · 256 + 8 · 128 + 2 · 128) */
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--experts", "8"), text), BASE_EXIT_DONE);
    assert_has(text, "own: 2 layers, width 128, 4 heads of 32, 4 of keys and values, 2 of 8 "
                     "experts of 256, vocabulary 512, context 64; 1772160 parameters, of which a "
                     "token uses 592512\n");
    assert_int_equal(
        plan_run(PLAN_WORDS(MINI, "--width", "64", "--experts", "4", "--experts-per-token", "3"),
                 text),
        BASE_EXIT_DONE);
    assert_has(text, "4 heads of 16, 4 of keys and values, 3 of 4 experts of 128, ");
    /* another MLP is a Llama's */
#define LLAMA "--model", "smollm2-135m", "--memory", "1000", "--context", "64"
    assert_int_equal(plan_run(PLAN_WORDS(LLAMA, "--experts", "6", "--mlp-width", "512"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "own: 30 layers, width 576, 9 heads of 64, 3 of keys and values, 2 of 6 "
                     "experts of 512, ");
#undef LLAMA
#define QWEN "--model", "qwen3-30b-a3b", "--memory", "9999", "--context", "64"
    assert_int_equal(plan_run(PLAN_WORDS(QWEN), text), BASE_EXIT_DONE);
    assert_has(text, "qwen3-30b-a3b: 48 layers, width 2048, 32 heads of 128, 4 of keys and values, "
                     "8 of 128 experts of 768, vocabulary 151936, context 64 of 40960; 30532122624 "
                     "parameters, of which a token uses 3353032704\n");
    assert_int_equal(plan_run(PLAN_WORDS(QWEN, "--experts", "64"), text), BASE_EXIT_DONE);
    assert_has(text, "own: 48 layers, ");
    assert_has(text, "8 of 64 experts of 768, ");
    assert_int_equal(plan_run(PLAN_WORDS(QWEN, "--experts-per-token", "4"), text), BASE_EXIT_DONE);
    assert_has(text, "own: 48 layers, ");
    assert_has(text, "4 of 128 experts of 768, ");
#undef QWEN
}

static void wrong_words_are_refused(void **state)
{
    static const struct {
        const char *words[8];
        const char *error;
    } cases[] = {
        {{"--model", "gpt2", "--experts-per-token", "2"},
         "--experts-per-token goes with --experts"},
        {{"--model", "gpt2", "--experts", "4", "--experts-per-token", "5"}, "not to 5 of 4"},
        {{"--model", "gpt2", "--experts", "1"}, "not to 2 of 1"},
        {{"--model", "gpt2", "--experts", "513"}, "--experts"},
        {{"--model", "gpt2", "--experts", "4", "--mlp-width", "64"}, "--mlp-width are of a Llama"},
        {{"--model", "gpt2", "--expert-ranks", "2"}, "--expert-ranks 2: the model has no experts"},
        {{"--model", "mixtral-8x7b", "--decode", "--expert-ranks", "2"},
         "--expert-ranks is of training: not with --decode"},
        {{"--model", "mixtral-8x7b", "--lora", "8"}, "models with experts have no adapters"},
        {{"--model", "mixtral-8x7b", "--context-ranks", "2"}, "goes without --pipeline and --cont"},
        {{"--model", "mixtral-8x7b", "--pipeline", "2"}, "goes without --pipeline and --cont"},
        {{"--model", "mixtral-8x7b", "--expert-ranks", "16", "--ranks", "16"}, "experts, 8"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *words[PLAN_ARGS_MAX] = {"launcher", "plan"};
        memcpy(words + 2, cases[i].words, sizeof cases[i].words);
        assert_int_equal(plan_run(words, text), BASE_EXIT_USAGE);
        assert_has(plan_warnings, cases[i].error);
    }
}

/* A config.json with more keys behind those that all have. */
static int plan_config(const char *more)
{
    char config[1024];
    (void)snprintf(config, sizeof config,
                   "{\"vocab_size\": 100, \"hidden_size\": 64, \"num_hidden_layers\": 3, "
                   "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"hidden_act\": "
                   "\"silu\", \"max_position_embeddings\": 256, %s}",
                   more);
    plan_write_config(config);
    return plan_run(PLAN_WORDS("--checkpoint", plan_directory, "--json"), text);
}

#define TYPE    "\"model_type\": \"mixtral\", \"intermediate_size\": 96"
#define MIXTRAL TYPE ", \"num_experts_per_tok\": 2"
#define QWEN3                                                                                      \
    "\"model_type\": \"qwen3_moe\", \"intermediate_size\": 1, \"moe_intermediate_size\": 48, "     \
    "\"num_experts_per_tok\": 2"

/* The parameters are 64 (2 · 64 + 2 · 32) + E (3 · 64 · columns + 64) + 2 · 64 in a layer, and 2 · 16 of Qwen3's norms
 * of heads; and two matrices of words, and a norm. */
static void a_config_gives_experts(void **state)
{
    static const struct {
        const char *more;
        int64_t params; /* 0: it is refused */
        const char *error;
    } cases[] = {
        {MIXTRAL ", \"num_local_experts\": 4", 272064, ""},
        {QWEN3 ", \"num_experts\": 6", 217248, ""},
        {QWEN3 ", \"num_local_experts\": 6", 217248, ""}, /* as newer files have it */
        {QWEN3 ", \"num_experts\": 6, \"decoder_sparse_step\": 1, \"mlp_only_layers\": []", 217248,
         ""},
        {QWEN3 ", \"num_experts\": 6, \"decoder_sparse_step\": 2", 0,
         "decoder_sparse_step must be 1"},
        {QWEN3 ", \"num_experts\": 6, \"mlp_only_layers\": [1]", 0,
         "mlp_only_layers must be empty"},
        {QWEN3 ", \"num_experts\": 6, \"mlp_only_layers\": 1", 0, "mlp_only_layers must be empty"},
        {MIXTRAL, 0, "\"num_local_experts\" is missing or no positive integer"},
        {TYPE ", \"num_local_experts\": 4, \"num_experts_per_tok\": 0", 0,
         "\"num_experts_per_tok\" is missing or no positive integer"},
        {MIXTRAL ", \"num_local_experts\": 0", 0,
         "\"num_local_experts\" is missing or no positive integer"},
        {MIXTRAL ", \"num_local_experts\": 1", 0, "not to 2 of 1"},
        {MIXTRAL ", \"num_local_experts\": 1000", 0, "1 to 512 experts"},
        {"\"model_type\": \"qwen3_moe\", \"intermediate_size\": 96, \"num_experts\": 6", 0,
         "\"moe_intermediate_size\" is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char wanted[64];
        assert_int_equal(plan_config(cases[i].more),
                         cases[i].params > 0 ? BASE_EXIT_DONE : BASE_EXIT_USAGE);
        (void)snprintf(wanted, sizeof wanted, "\"parameters\": %lld", (long long)cases[i].params);
        if (strstr(cases[i].params > 0 ? text : plan_warnings,
                   cases[i].params > 0 ? wanted : cases[i].error) == NULL) {
            fail_msg("case %zu: no %s: %s%s", i, cases[i].params > 0 ? wanted : cases[i].error,
                     plan_warnings, text);
        }
        assert_true(cases[i].params == 0 || plan_warnings[0] == '\0'); /* ranks know these models */
    }
    (void)unlink(plan_path("config.json"));
}

/* What is shown, and the commands that train so on CPUs. */
static void expert_ranks_are_shown(void **state)
{
    (void)state;
    assert_int_equal(
        plan_run(PLAN_WORDS(MINI, "--experts", "8", "--ranks", "4", "--data", "4"), text),
        BASE_EXIT_DONE);
    assert_has(text, "\n  data expert-ranks tensor pipeline        step ");
    assert_has(text, "\n     4            4      1        1 ");
    assert_has(text, "\n     4            1      1        1 ");
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--experts", "8", "--ranks", "4", "--data", "4",
                                         "--expert-ranks", "2", "--recompute"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "\nlayout    4 ranks = 4 data x 1 tensor x 1 pipeline, --expert-ranks 2\n");
    assert_has(text, "\n  expert rows     all_to_all         2 inside ");
    assert_has(text, "\n  exchanges of rows ");
    assert_has(text, "\nOn CPUs: launcher --mode ddp-cpu --ranks 4 --expert-ranks 2 --layers 2 "
                     "--width 128 --heads 4 --experts 8 --experts-per-token 2 --context 64 --batch "
                     "4 --micro-batches 4 --recompute\n");
    assert_int_equal(
        plan_run(PLAN_WORDS(MINI, "--experts", "8", "--ranks", "4", "--data", "2", "--tensor", "2"),
                 text),
        BASE_EXIT_DONE);
    assert_has(text, "\nOn CPUs: launcher --mode pp-cpu --ranks 4 --stages 1 --tensor 2 --layers 2 "
                     "--width 128 --heads 4 --experts 8 --experts-per-token 2 --context 64 ");
    /* rope turns pairs of elements */
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--experts", "8", "--width", "66", "--heads", "22",
                                         "--ranks", "1"),
                              text),
                     BASE_EXIT_DONE);
    assert_null(strstr(text, "On CPUs"));
    /* of a Mixtral of another shape there is no new model */
    assert_int_equal(plan_run(PLAN_WORDS("--model", "mixtral-8x7b", "--layers", "1", "--memory",
                                         "9999", "--ranks", "1", "--context", "64"),
                              text),
                     BASE_EXIT_DONE);
    assert_null(strstr(text, "On CPUs"));
    /* a model without experts has no such column */
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--ranks", "4"), text), BASE_EXIT_DONE);
    assert_null(strstr(text, "expert"));
}

static void json_has_experts(void **state)
{
    int experts = 0;
    int chosen = 0;
    int used = 0;
    int ranks = 0;
    double exchanges_s = 0;
    (void)state;
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--experts", "8", "--ranks", "4", "--data", "4",
                                         "--expert-ranks", "2", "--json"),
                              text),
                     BASE_EXIT_DONE);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_unpack(json, "{s:{s:i, s:i, s:i}, s:{s:i}, s:{s:f}}", "model", "experts",
                                 &experts, "experts_per_token", &chosen, "parameters_used", &used,
                                 "layout", "expert_ranks", &ranks, "step", "expert_exchanges_s",
                                 &exchanges_s),
                     0);
    assert_true(experts == 8 && chosen == 2 && used == 592512 && ranks == 2 && exchanges_s > 0);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_give_a_model_experts), cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(a_config_gives_experts),     cmocka_unit_test(expert_ranks_are_shown),
        cmocka_unit_test(json_has_experts),
    };
    return cmocka_run_group_tests(tests, plan_setup, plan_teardown);
}
