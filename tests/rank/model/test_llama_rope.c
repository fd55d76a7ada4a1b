/* Longrope, and a rope that turns a part of each head, in config.json: what is read, written and refused. Logits are
 * in test_decode.c. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "model/llama/parts.h"
#include "support.h"

/* Members come last, so that they take the place of those before. */
#define MODEL(type, more)                                                                          \
    "{\"model_type\":\"" type "\",\"vocab_size\":37,\"hidden_size\":80,\"intermediate_size\":48,"  \
    "\"num_hidden_layers\":2,\"num_attention_heads\":10,\"num_key_value_heads\":5,"                \
    "\"max_position_embeddings\":8192" more "}"
#define PHI3(more)       MODEL("phi3", ",\"partial_rotary_factor\":0.5" more)
#define SCALED(members)  ",\"rope_scaling\":{\"type\":\"longrope\"," members "}"
#define LONGROPE(more)   SCALED("\"short_factor\":[1,1.5],\"long_factor\":[2,4]" more)
#define ORIGINAL(tokens) ",\"original_max_position_embeddings\":" tokens

static base_status configure(const char *text, rank_model_config *config, base_error *reterr)
{
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    const base_status status = llama_configure(object, config, reterr);
    json_decref(object);
    return status;
}

/* The context before it was made longer is looked for where transformers looks; by default the attention factor follows
 * from it. */
static void longrope_is_read(void **state)
{
    static const struct {
        const char *text;
        int original;
        double attention_factor;
    } cases[] = {
        {PHI3(LONGROPE("")), 4096, 1.0408329997330663},
        {PHI3(LONGROPE(ORIGINAL("2048"))), 4096, 1.0408329997330663},
        {PHI3(ORIGINAL("2048") LONGROPE("")), 2048, 1.087114613009218},
        {PHI3(",\"max_position_embeddings\":4096" LONGROPE("")), 4096, 1.0},
        {PHI3(LONGROPE(",\"factor\":32,\"attention_factor\":null")), 4096, 1.1902380714238083},
        {PHI3(LONGROPE(",\"attention_factor\":1.5")), 4096, 1.5},
        {MODEL("llama", ",\"head_dim\":4" LONGROPE("")), 8192, 1.0},
        {MODEL("llama", ",\"head_dim\":4" LONGROPE(ORIGINAL("2048"))), 2048, 1.087114613009218},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error;
        rank_model_config config;
        assert_ok(configure(cases[i].text, &config, &error), &error);
        assert_int_equal((int)config.settings[LLAMA_ORIGINAL], cases[i].original);
        assert_true(fabs(config.settings[LLAMA_ATTENTION_FACTOR] - cases[i].attention_factor) <
                    1e-15);
        assert_int_equal(llama_rotated(&config), 4);
    }
}

/* The longest text that a job may have says which factors there are. */
static void long_texts_have_factors_of_their_own(void **state)
{
    static const struct {
        int tokens_max;
        int context;
        float factor; /* of the second pair */
    } cases[] = {
        {0, 4096, 1.5f}, {0, 4097, 4.0f}, {4096, 8192, 1.5f}, {4097, 8192, 4.0f}, {0, 8192, 4.0f}};
    base_error error;
    rank_model_config config;
    float frequency[RANK_ROPE_PAIRS_MAX];
    (void)state;
    assert_ok(configure(PHI3(LONGROPE("")), &config, &error), &error);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config.tokens_max = cases[i].tokens_max;
        config.context = cases[i].context;
        llama_frequencies(&config, frequency);
        assert_true(frequency[1] == 1.0f / (cases[i].factor * 100.0f)); /* 10000^(1/2) */
    }
}

/* Also what a shorter window makes of the context, so that the attention factor no longer follows from it. */
static void what_is_written_is_read_again(void **state)
{
    static const char *const cases[] = {
        PHI3(LONGROPE("")),
        PHI3(",\"sliding_window\":6000" LONGROPE("")),
        PHI3(",\"rope_theta\":5e5" ORIGINAL("2048") LONGROPE("")),
        PHI3(LONGROPE(",\"attention_factor\":1.5")),
        PHI3(""),
        MODEL("llama", ",\"head_dim\":4" LONGROPE(ORIGINAL("2048"))),
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error;
        rank_model_config config;
        rank_model_config again;
        assert_ok(configure(cases[i], &config, &error), &error);
        json_t *written = llama_describe(&config);
        assert_ok(llama_configure(written, &again, &error), &error);
        assert_memory_equal(again.settings, config.settings, sizeof config.settings);
        assert_memory_equal(again.rope_factors, config.rope_factors, sizeof config.rope_factors);
        assert_int_equal(again.context, config.context);
        json_decref(written);
    }
}

static void rope_that_cannot_be_is_refused(void **state)
{
    static const char *const wrong[][2] = {
        {PHI3(SCALED("\"short_factor\":[1,1.5]")), "long_factor is no list of 2 numbers"},
        {PHI3(SCALED("\"short_factor\":[1,1,1],\"long_factor\":[1,1]")),
         "short_factor is no list of 2 numbers"},
        {PHI3(SCALED("\"short_factor\":[1,0],\"long_factor\":[1,1]")),
         "short_factor: number 1 is not positive"},
        {PHI3(SCALED("\"short_factor\":[1,1],\"long_factor\":[1,\"1\"]")),
         "long_factor: number 1 is not positive"},
        {PHI3(SCALED("\"short_factor\":[1,0.001],\"long_factor\":[1,1]")),
         "a factor of longrope is 0.001, for 8192 tokens it must be 0.0078125 or more"},
        {PHI3(LONGROPE(",\"attention_factor\":0")), "attention_factor"},
        {PHI3(LONGROPE(",\"attention_factor\":1e300")), "attention_factor is 1e+300"},
        {PHI3(ORIGINAL("1") LONGROPE("")), "attention_factor is inf"},
        {PHI3(ORIGINAL("0") LONGROPE("")), "original_max_position_embeddings"},
        {PHI3(",\"head_dim\":6"),
         "rope turns 3 of a head's 6 elements (partial_rotary_factor 0.5)"},
        {PHI3(",\"partial_rotary_factor\":0.1"), "rope turns 0 of a head's 8 elements"},
        {PHI3(",\"partial_rotary_factor\":1.5"),
         "partial_rotary_factor is 1.5, it must be above 0"},
        {PHI3(",\"partial_rotary_factor\":0"), "partial_rotary_factor is 0, it must be above 0"},
        {MODEL("llama", ",\"partial_rotary_factor\":0.5"), "partial_rotary_factor must be 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        base_error error;
        rank_model_config config;
        assert_int_not_equal(configure(wrong[i][0], &config, &error), BASE_OK);
        assert_non_null(strstr(error.message, wrong[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longrope_is_read),
        cmocka_unit_test(long_texts_have_factors_of_their_own),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(rope_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
