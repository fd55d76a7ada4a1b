/* Adapters in PEFT's form: what PEFT has saved computes here what it computes there (make_adapter_fixture.py),
 * ours are read back, and what is no such adapter is refused. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/shards.h"
#include "difference.h"
#include "fixture.h"
#include "model/family.h"
#include "rank/adapters.h"
#include "rank/checkpoint.h"
#include "support.h"
#include "tiny.h"

static const double TOLERANCE = 2e-5; /* see test_oracle.c */
static const double LOSS_TOLERANCE = 2e-6;

enum { PATH_BYTES = 4096, VOCAB_LEAF = 32 };

typedef struct peft {
    const char *name;
    const char *config;
    const char *names; /* of the layers that have adapters */
} peft;

static const peft models[] = {
    {"gpt2", NULL, "c_attn,c_proj,c_fc"},
    {"tied", TINY_LLAMA_TIED, "q_proj,v_proj"},
    {"qwen2", TINY_QWEN2, "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"},
    {"qwen3", TINY_QWEN3, "k_proj,o_proj,down_proj"},
    {"gemma3", TINY_GEMMA3, "q_proj,v_proj,o_proj,gate_proj,down_proj"},
};

enum { MODELS = sizeof models / sizeof *models };

/* A model, its parameters, and the adapters that PEFT has saved. */
typedef struct adapted {
    const peft *of;
    fixture file;
    rank_model_config config;
    float *params;
    size_t param_count;
    float *adapters;
    size_t adapter_count;
} adapted;

static const char *saved(const char *name)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/adapter_%s", FIXTURE_DIRECTORY, name);
    return path;
}

static void open_adapted(adapted *made, const peft *of)
{
    base_error error;
    fixture others;
    *made = (adapted){.of = of};
    fixture_open(&made->file, "adapters.fixture");
    fixture_open(&others, strcmp(of->name, "gemma3") == 0 ? "gemma3.fixture" : "llama.fixture");
    tiny_config(&made->config, of->config);
    made->params = fixture_get(of->config == NULL ? &made->file : &others, &made->param_count,
                               "%s.params", of->name);
    fixture_close(&others);
    assert_int_equal(made->param_count, rank_model_param_count(&made->config));
    assert_ok(rank_adapter_load(saved(of->name), &made->config, &made->adapters, &error), &error);
    const rank_model_config config = rank_adapters_config(&made->config);
    made->adapter_count = rank_model_param_count(&config);
}

static void close_adapted(adapted *made)
{
    fixture_close(&made->file);
    free(made->params);
    free(made->adapters);
}

/* Gradients and logits of the fixture's sequence. */
static void check_passes(const adapted *of, rank_model *model)
{
    base_error error;
    rank_result result;
    size_t count = 0;
    size_t logit_count = 0;
    const rank_model_config adapters = rank_adapters_config(&of->config);
    rank_hooks hooks = rank_hooks_flat(of->params);
    int32_t *ids = fixture_get_ints(&of->file, &count, "%s.ids", of->of->name);
    int32_t *targets = fixture_get_ints(&of->file, &count, "%s.targets", of->of->name);
    float *loss = fixture_get(&of->file, &logit_count, "%s.loss", of->of->name);
    float *expected = fixture_get(&of->file, &logit_count, "%s.logits", of->of->name);
    const int32_t segments[] = {0, (int32_t)count};
    const rank_batch batch = {.token_count = (int)count,
                              .ids = ids,
                              .targets = targets,
                              .segment_count = 1,
                              .segment_start = segments};
    float *grads = malloc(of->adapter_count * sizeof *grads);
    float *logits = malloc(logit_count * sizeof *logits);
    int32_t *rows = malloc(count * sizeof *rows);
    assert_non_null(grads);
    assert_non_null(logits);
    assert_non_null(rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (int32_t)i;
    }
    hooks.adapters = of->adapters;
    assert_ok(rank_model_forward(model, &hooks, &batch, &(rank_logits){rows, (int)count, logits},
                                 &result, &error),
              &error);
    test_check_close("logits", logits, expected, logit_count, TOLERANCE);
    assert_ok(rank_model_train(model, &hooks, &batch, grads, &result, &error), &error);
    if (!(fabs(result.loss_sum - (double)loss[0]) <= LOSS_TOLERANCE * (double)loss[0])) {
        fail_msg("%s: the loss is %.9g, expected %.9g", of->of->name, result.loss_sum,
                 (double)loss[0]);
    }
    free(loss);
    loss = fixture_get(&of->file, &count, "%s.grads", of->of->name);
    assert_int_equal(count, of->adapter_count);
    for (int i = 0; i < rank_model_tensor_count(&adapters); i++) {
        rank_tensor tensor;
        rank_model_tensor(&adapters, i, &tensor);
        test_check_close(tensor.name, grads + tensor.offset, loss + tensor.offset, tensor.count,
                         TOLERANCE);
    }
    free(ids);
    free(targets);
    free(loss);
    free(expected);
    free(grads);
    free(logits);
    free(rows);
}

static void what_peft_saves_is_what_it_computes(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        base_error error;
        adapted of;
        rank_device device;
        rank_model *model = NULL;
        char names[RANK_ADAPTERS_NAMES_BYTES];
        open_adapted(&of, &models[i]);
        rank_adapters_names(&of.config, names);
        assert_string_equal(names, models[i].names);
        assert_ok(rank_device_open("cpu", &device, &error), &error);
        assert_ok(rank_model_create(&(rank_model_options){.config = &of.config,
                                                          .device = &device,
                                                          .token_count_max = 32,
                                                          .training = true},
                                    &model, &error),
                  &error);
        check_passes(&of, model);
        rank_model_destroy(model);
        rank_device_close(&device);
        close_adapted(&of);
    }
}

/* Weights that are merged as they are read are those of the merged model, on each of so many ranks. */
static void check_cut(const adapted *of, const float *merged, const char *path, int ranks, int rank)
{
    base_error error;
    rank_device device;
    rank_shards *read = NULL;
    rank_shards *made = NULL;
    rank_flat_params flat = {&of->config, merged};
    const rank_tensor_source source = rank_flat_source(&flat);
    const int32_t ids = RANK_TP_LEAVES * VOCAB_LEAF / ranks;
    const rank_tp tp = {
        .rank = rank, .ranks = ranks, .vocab_first = rank * ids, .vocab_count = ids};
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    rank_shards_options options = {.config = &of->config,
                                   .device = &device,
                                   .tp = &tp,
                                   .type = RANK_FLOAT32,
                                   .adapters = of->adapters};
    assert_ok(rank_shards_load(&options, path, &read, &error), &error);
    assert_ok(rank_shards_create(&options, &source, &made, &error), &error);
    const rank_hooks from_read = rank_shards_hooks(read);
    const rank_hooks from_made = rank_shards_hooks(made);
    for (int i = 0; i < rank_model_tensor_count(&of->config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&of->config, i, &tensor);
        const size_t here =
            tensor.cut.kind == RANK_CUT_NONE ? tensor.count : tensor.count / (size_t)ranks;
        assert_memory_equal(from_read.need(from_read.weights, tensor.offset, tensor.count),
                            from_made.need(from_made.weights, tensor.offset, tensor.count),
                            here * sizeof(float));
    }
    rank_shards_destroy(read);
    rank_shards_destroy(made);
    rank_device_close(&device);
}

static void ranks_read_parts_of_the_merged_model(void **state)
{
    (void)state;
    const char *path = test_shared_path("model.safetensors");
    for (int i = 0; i < MODELS; i++) {
        base_error error;
        adapted of;
        open_adapted(&of, &models[i]);
        assert_ok(rank_safetensors_write(path, &of.config, of.params, "", RANK_FLOAT32, &error),
                  &error);
        float *merged = malloc(of.param_count * sizeof *merged);
        assert_non_null(merged);
        memcpy(merged, of.params, of.param_count * sizeof *merged);
        rank_adapters_merge(&of.config, of.adapters, merged);
        assert_true(memcmp(merged, of.params, of.param_count * sizeof *merged) != 0);
        check_cut(&of, merged, path, 1, 0);
        check_cut(&of, merged, path, 2, 0);
        check_cut(&of, merged, path, 2, 1);
        free(merged);
        close_adapted(&of);
    }
}

static void ours_are_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        base_error error;
        adapted of;
        test_directory scratch;
        float *back = NULL;
        test_directory_make(&scratch);
        open_adapted(&of, &models[i]);
        rank_model_config config = of.config;
        config.adapters = (rank_adapters){.rank = 0};
        const rank_adapter_about about = {
            .checkpoint = {.config = &of.config, .prompt_suffix = " → "},
            .alpha = (double)of.config.adapters.scale * of.config.adapters.rank};
        assert_ok(rank_adapter_write(scratch.path, &about, of.adapters, &error), &error);
        assert_ok(rank_adapter_load(scratch.path, &config, &back, &error), &error);
        assert_int_equal(config.adapters.rank, of.config.adapters.rank);
        assert_int_equal(config.adapters.targets, of.config.adapters.targets);
        assert_true(fabsf(config.adapters.scale - of.config.adapters.scale) <= 1e-6f);
        assert_memory_equal(back, of.adapters, of.adapter_count * sizeof *back);
        free(back);
        close_adapted(&of);
        test_directory_remove(&scratch);
    }
}

/* No digit is lost that PEFT would compute with, and none is written that says nothing. */
static void alpha_is_written_as_it_is(void **state)
{
    static const struct {
        double alpha;
        const char *text;
    } cases[] = {
        {16.0, "\"lora_alpha\": 16,"},
        {0.1, "\"lora_alpha\": 0.1,"},
        {1.0 / 3.0, "\"lora_alpha\": 0.3333333333333333,"},
        {12.3456789012, "\"lora_alpha\": 12.3456789012,"},
        {0.1 + 0.2, "\"lora_alpha\": 0.30000000000000004,"},
    };
    (void)state;
    adapted of;
    open_adapted(&of, &models[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error;
        const rank_adapter_about about = {.checkpoint = {.config = &of.config, .prompt_suffix = ""},
                                          .alpha = cases[i].alpha};
        assert_ok(rank_adapter_write(test_shared_directory.path, &about, of.adapters, &error),
                  &error);
        char *text = test_file_read(test_shared_path("adapter_config.json"), NULL);
        assert_has(text, cases[i].text);
        free(text);
    }
    close_adapted(&of);
}

/* The saved configuration with one member that is another; value NULL: without it. */
static base_status load_with(const test_directory *scratch, const char *key, const char *value,
                             base_error *error)
{
    char path[PATH_BYTES];
    rank_model_config config;
    float *adapters = NULL;
    (void)snprintf(path, sizeof path, "%s/adapter_config.json", saved("qwen3"));
    json_t *object = json_load_file(path, 0, NULL);
    assert_non_null(object);
    if (value != NULL) {
        json_t *made = json_loads(value, JSON_DECODE_ANY, NULL);
        assert_non_null(made);
        assert_int_equal(json_object_set_new(object, key, made), 0);
    } else {
        assert_int_equal(json_object_del(object, key), 0);
    }
    char *text = json_dumps(object, 0);
    test_directory_put(scratch, "adapter_config.json", text);
    free(text);
    json_decref(object);
    tiny_config(&config, TINY_QWEN3);
    const base_status status = rank_adapter_load(scratch->path, &config, &adapters, error);
    assert_true((status == BASE_OK) == (adapters != NULL));
    free(adapters);
    return status;
}

static void other_adapters_are_refused(void **state)
{
    static const struct {
        const char *key;
        const char *value;
        const char *says; /* NULL: it is taken */
    } cases[] = {
        {"peft_version", "\"9\"", NULL},
        {"bias", "\"none\"", NULL},
        {"lora_alpha", "0.5", NULL},
        {"peft_type", "\"IA3\"", "peft_type"},
        {"peft_type", NULL, "peft_type"},
        {"bias", "\"all\"", "bias"},
        {"use_dora", "true", "use_dora"},
        {"use_qalora", "true", "use_qalora"},
        {"alora_invocation_tokens", "[1]", "alora_invocation_tokens"},
        {"init_lora_weights", "\"gaussian\"", NULL},
        {"init_lora_weights", "false", NULL},
        {"init_lora_weights", "\"pissa_niter_4\"", "init_lora_weights \"pissa_niter_4\""},
        {"layers_to_transform", "null", NULL},
        {"layers_to_transform", "[0, 1]", NULL},
        {"layers_to_transform", "[1]", "layers_to_transform is not supported"},
        {"layers_to_transform", "1", "layers_to_transform is not supported"},
        {"rank_pattern", "{\"q_proj\": 4}", "rank_pattern"},
        {"modules_to_save", "[\"lm_head\"]", "modules_to_save"},
        {"r", "0", "r must"},
        {"r", "3", "lora_A.weight"}, /* another shape */
        {"r", "\"2\"", "r must"},
        {"lora_alpha", "null", "lora_alpha"},
        {"lora_alpha", "1e39", "lora_alpha"},
        {"target_modules", "\".*_proj\"", "target_modules"},
        {"target_modules", "[]", "target_modules"},
        {"target_modules", "[\"model.layers.0.\"]", "target_modules"},
        {"target_modules", "[\"embed_tokens\"]", "embed_tokens"},
        {"target_modules", "[\"k_proj\", \"o_proj\"]", "12 tensors in it"}, /* not 8 */
        {"target_modules", "[\"q_proj\", \"k_proj\", \"o_proj\", \"down_proj\"]", "q_proj"},
    };
    (void)state;
    char weights[PATH_BYTES];
    char command[3 * PATH_BYTES];
    (void)snprintf(weights, sizeof weights, "%s/adapter_model.safetensors", saved("qwen3"));
    (void)snprintf(command, sizeof command, "cp '%s' '%s'", weights, test_shared_directory.path);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error = {.message = ""};
        const base_status status =
            load_with(&test_shared_directory, cases[i].key, cases[i].value, &error);
        if ((status == BASE_OK) != (cases[i].says == NULL) ||
            (cases[i].says != NULL && strstr(error.message, cases[i].says) == NULL)) {
            fail_msg("%s %s: %s", cases[i].key, cases[i].value != NULL ? cases[i].value : "-",
                     error.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_peft_saves_is_what_it_computes),
        TEST_IN_DIRECTORY(ranks_read_parts_of_the_merged_model),
        cmocka_unit_test(ours_are_read_back),
        TEST_IN_DIRECTORY(alpha_is_written_as_it_is),
        TEST_IN_DIRECTORY(other_adapters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
