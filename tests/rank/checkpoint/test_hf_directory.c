/* Hugging Face directories: written, read back, and refused where they do not fit. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "model/gpt2/gpt2.h"
#include "rank/checkpoint.h"
#include "support.h"

static const rank_model_config SMALL = {
    .family = &rank_gpt2, .vocab_size = 512, .width = 8, .layers = 2, .heads = 2, .context = 5};
static const char TOKENIZER[] = ORACLE_DIRECTORY "/tokenizer.json";

static test_directory scratch;

/* A directory with a checkpoint of the small model. */
static int make_checkpoint(void **state)
{
    (void)state;
    base_error error;
    float *params = malloc(rank_model_param_count(&SMALL) * sizeof *params);
    assert_non_null(params);
    test_directory_make(&scratch);
    rank_model_init(&SMALL, 7, params);
    assert_ok(rank_checkpoint_write(scratch.path,
                                    &(rank_checkpoint_about){.config = &SMALL,
                                                             .tokenizer_path = TOKENIZER,
                                                             .end_id = SMALL.vocab_size - 1,
                                                             .prompt_suffix = " ->",
                                                             .type = RANK_FLOAT32},
                                    params, &error),
              &error);
    free(params);
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    test_directory_remove(&scratch);
    return 0;
}

static json_t *load(const char *name)
{
    json_t *object =
        json_load_file(test_directory_path(&scratch, name), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    return object;
}

static void the_model_comes_back(void **state)
{
    (void)state;
    base_error error;
    rank_model_config config = {0};
    assert_ok(rank_checkpoint_config(scratch.path, &config, &error), &error);
    assert_memory_equal(&config, &SMALL, sizeof config);
    float *params = malloc(2 * rank_model_param_count(&SMALL) * sizeof *params);
    assert_non_null(params);
    float *back = params + rank_model_param_count(&SMALL);
    rank_model_init(&SMALL, 7, params);
    assert_ok(rank_safetensors_read(test_directory_path(&scratch, "model.safetensors"), &config,
                                    back, &error),
              &error);
    assert_memory_equal(back, params, rank_model_param_count(&SMALL) * sizeof *params);
    free(params);
}

static void transformers_finds_what_it_looks_for(void **state)
{
    (void)state;
    json_t *config = load("config.json");
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(config, "architectures"), 0)),
        "GPT2LMHeadModel");
    assert_string_equal(json_string_value(json_object_get(config, "model_type")), "gpt2");
    assert_string_equal(json_string_value(json_object_get(config, "activation_function")),
                        "gelu_new");
    assert_true(json_is_true(json_object_get(config, "tie_word_embeddings")));
    assert_true(json_is_null(json_object_get(config, "n_inner")));
    assert_true(json_real_value(json_object_get(config, "layer_norm_epsilon")) == 1e-5);
    assert_int_equal(json_integer_value(json_object_get(config, "n_ctx")), 5);
    assert_int_equal(json_integer_value(json_object_get(config, "eos_token_id")), 511);
    json_decref(config);

    json_t *tokenizer = load("tokenizer_config.json");
    assert_string_equal(json_string_value(json_object_get(tokenizer, "tokenizer_class")),
                        "PreTrainedTokenizerFast");
    json_decref(tokenizer);
    json_t *generation = load("generation_config.json");
    assert_int_equal(json_integer_value(json_object_get(generation, "bos_token_id")), 511);
    json_decref(generation);
}

static void the_tokenizer_is_copied(void **state)
{
    (void)state;
    size_t our_bytes = 0;
    size_t their_bytes = 0;
    void *ours = test_file_read(test_directory_path(&scratch, "tokenizer.json"), &our_bytes);
    void *theirs = test_file_read(TOKENIZER, &their_bytes);
    assert_int_equal(our_bytes, their_bytes);
    assert_memory_equal(ours, theirs, our_bytes);
    free(ours);
    free(theirs);
}

static void configurations_that_are_not_ours_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *value;
        base_status status;
    } CASES[] = {
        {"model_type", "\"mamba\"", BASE_ERR_UNSUPPORTED},
        {"activation_function", "\"relu\"", BASE_ERR_UNSUPPORTED},
        {"layer_norm_epsilon", "1e-6", BASE_ERR_UNSUPPORTED},
        {"tie_word_embeddings", "false", BASE_ERR_UNSUPPORTED},
        {"n_inner", "7", BASE_ERR_UNSUPPORTED},
        {"scale_attn_weights", "false", BASE_ERR_UNSUPPORTED},
        {"scale_attn_by_inverse_layer_idx", "true", BASE_ERR_UNSUPPORTED},
        {"n_embd", "\"8\"", BASE_ERR_INVALID},
        {"n_embd", "0", BASE_ERR_INVALID},
        {"n_head", "3", BASE_ERR_INVALID},
        {"n_layer", "4294967298", BASE_ERR_INVALID},
        {"vocab_size", "-1", BASE_ERR_INVALID},
    };
    const char *path = test_directory_path(&scratch, "config.json");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        base_error error = {0};
        rank_model_config config = {.width = 42};
        json_t *object = load("config.json");
        json_t *kept = json_deep_copy(object);
        assert_int_equal(json_object_set_new(object, CASES[i].key,
                                             json_loads(CASES[i].value, JSON_DECODE_ANY, NULL)),
                         0);
        assert_int_equal(json_dump_file(object, path, 0), 0);
        assert_status(rank_checkpoint_config(scratch.path, &config, &error), CASES[i].status);
        assert_non_null(strstr(error.message, "config.json: "));
        assert_int_equal(config.width, 42);
        assert_int_equal(json_dump_file(kept, path, 0), 0);
        json_decref(object);
        json_decref(kept);
    }
}

static void gelu_with_tanh_has_two_names(void **state)
{
    (void)state;
    base_error error;
    rank_model_config config;
    json_t *object = load("config.json");
    assert_int_equal(
        json_object_set_new(object, "activation_function", json_string("gelu_pytorch_tanh")), 0);
    assert_int_equal(json_dump_file(object, test_directory_path(&scratch, "config.json"), 0), 0);
    assert_ok(rank_checkpoint_config(scratch.path, &config, &error), &error);
    json_decref(object);
}

static void broken_configurations_are_refused(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"", "{", "[]", "3", "{\"n_embd\":8,\"n_embd\":8}", "{}"};
    base_error error;
    rank_model_config config;
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        assert_ok(base_file_write(test_directory_path(&scratch, "config.json"), TEXTS[i],
                                  strlen(TEXTS[i]), &error),
                  &error);
        assert_status(rank_checkpoint_config(scratch.path, &config, &error), BASE_ERR_INVALID);
    }
    assert_status(rank_checkpoint_config("/nowhere", &config, &error), BASE_ERR_NOTFOUND);
}

/* A rank that waited for a writer of it would do so for good. */
static void a_pipe_is_no_configuration(void **state)
{
    (void)state;
    test_directory directory;
    base_error error;
    rank_model_config config;
    rank_generation_config generation;
    test_directory_make(&directory);
    assert_int_equal(mkfifo(test_directory_path(&directory, "config.json"), 0600), 0);
    assert_int_equal(mkfifo(test_directory_path(&directory, "generation_config.json"), 0600), 0);
    assert_status(rank_checkpoint_config(directory.path, &config, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "config.json is not a regular file"));
    assert_status(rank_checkpoint_generation(directory.path, 512, &generation, &error),
                  BASE_ERR_INVALID);
    test_directory_remove(&directory);
}

static void write_file(const char *name, const char *text)
{
    base_error error;
    assert_ok(base_file_write(test_directory_path(&scratch, name), text, strlen(text), &error),
              &error);
}

static void write_generation(const char *text)
{
    write_file("generation_config.json", text);
}

/* A model that was trained on keeps what its source says of the ends of texts, of drawing and chats. */
static void what_the_source_says_is_kept(void **state)
{
    (void)state;
    base_error error;
    test_directory out;
    char tokenizer[BASE_PATH_BYTES];
    rank_generation_config config;
    float *params = calloc(rank_model_param_count(&SMALL), sizeof *params);
    assert_non_null(params);
    test_directory_make(&out);
    write_file("config.json", "{\"model_type\":\"gpt2\",\"bos_token_id\":7,\"eos_token_id\":8}");
    write_file("tokenizer_config.json", "{\"chat_template\":\"a\"}");
    write_file("chat_template.jinja", "b");
    (void)snprintf(tokenizer, sizeof tokenizer, "%s",
                   test_directory_path(&scratch, "tokenizer.json"));
    const rank_checkpoint_about about = {.config = &SMALL,
                                         .tokenizer_path = tokenizer,
                                         .end_id = 511,
                                         .prompt_suffix = "",
                                         .source = scratch.path};
    write_generation("{\"eos_token_id\":8,}"); /* the training is saved in any case */
    assert_ok(rank_checkpoint_write(out.path, &about, params, &error), &error);
    write_generation("{\"eos_token_id\":[8,9],\"top_k\":20}");
    assert_ok(rank_checkpoint_write(out.path, &about, params, &error), &error);
    free(params);
    assert_ok(rank_checkpoint_generation(out.path, 512, &config, &error), &error);
    assert_int_equal(config.stop_count, 3);
    assert_int_equal(config.stops[0], 8);
    assert_int_equal(config.stops[2], 511);
    static const struct {
        const char *name;
        const char *has;
    } files[] = {{"generation_config.json", "\"top_k\": 20"},
                 {"generation_config.json", "\"bos_token_id\": 7"},
                 {"config.json", "\"bos_token_id\": 7"},
                 {"config.json", "8,\n"},
                 {"tokenizer_config.json", "chat_template"},
                 {"chat_template.jinja", "b"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        void *text = test_file_read(test_directory_path(&out, files[i].name), NULL);
        assert_non_null(strstr(text, files[i].has));
        free(text);
    }
    test_directory_remove(&out);
}

static void a_checkpoint_has_stops_and_a_suffix(void **state)
{
    (void)state;
    base_error error;
    rank_generation_config config;
    assert_ok(rank_checkpoint_generation(scratch.path, 512, &config, &error), &error);
    assert_int_equal(config.stop_count, 1);
    assert_int_equal(config.stops[0], 511);
    assert_int_equal(config.suffix, RANK_SUFFIX_GIVEN);
    assert_string_equal(config.prompt_suffix, " ->");

    write_generation("{\"eos_token_id\":[3,0],\"transformers_version\":\"4\"}");
    assert_ok(rank_checkpoint_generation(scratch.path, 512, &config, &error), &error);
    assert_int_equal(config.stop_count, 2);
    assert_int_equal(config.stops[0], 3);
    assert_int_equal(config.stops[1], 0);
    assert_int_equal(config.suffix, RANK_SUFFIX_GIVEN);
    assert_string_equal(config.prompt_suffix, "");

    write_generation("{\"bos_token_id\":511,\"eos_token_id\":511,\"do_sample\":false}");
    assert_ok(rank_checkpoint_generation(scratch.path, 512, &config, &error), &error);
    assert_int_equal(config.suffix, RANK_SUFFIX_NOT_SAID);

    write_file("config.json", "{\"model_type\":\"llama\",\"eos_token_id\":[5,6]}");
    assert_ok(rank_checkpoint_generation(scratch.path, 512, &config, &error), &error);
    assert_int_equal(config.suffix, RANK_SUFFIX_GIVEN); /* somebody wrote that file by hand */

    assert_int_equal(unlink(test_directory_path(&scratch, "generation_config.json")), 0);
    assert_ok(rank_checkpoint_generation(scratch.path, 512, &config, &error), &error);
    assert_int_equal(config.stop_count, 2);
    assert_int_equal(config.stops[1], 6);
    assert_string_equal(config.prompt_suffix, "");
    write_file("config.json", "{\"model_type\":\"llama\",\"eos_token_id\":50256}");
    assert_ok(rank_checkpoint_generation(scratch.path, 512, &config, &error), &error);
    assert_int_equal(config.stop_count, 0);

    assert_ok(rank_checkpoint_generation("/nowhere", 512, &config, &error), &error);
    assert_int_equal(config.stop_count, 0);
    assert_int_equal(config.suffix, RANK_SUFFIX_GIVEN);
}

static void malformed_generation_configs_are_refused(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "[]",
        "{",
        "{\"eos_token_id\":512}",
        "{\"eos_token_id\":-1}",
        "{\"eos_token_id\":[3,\"4\"]}",
        "{\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}",
        "{\"prompt_suffix\":3}",
        "{\"prompt_suffix\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
    };
    base_error error;
    rank_generation_config config;
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        write_generation(TEXTS[i]);
        if (rank_checkpoint_generation(scratch.path, 512, &config, &error) == BASE_OK) {
            fail_msg("accepted: %s", TEXTS[i]);
        }
        assert_non_null(strstr(error.message, "generation_config.json"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_model_comes_back, make_checkpoint, remove_scratch),
        cmocka_unit_test_setup_teardown(transformers_finds_what_it_looks_for, make_checkpoint,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(the_tokenizer_is_copied, make_checkpoint, remove_scratch),
        cmocka_unit_test_setup_teardown(configurations_that_are_not_ours_are_refused,
                                        make_checkpoint, remove_scratch),
        cmocka_unit_test_setup_teardown(gelu_with_tanh_has_two_names, make_checkpoint,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(broken_configurations_are_refused, make_checkpoint,
                                        remove_scratch),
        cmocka_unit_test(a_pipe_is_no_configuration),
        cmocka_unit_test_setup_teardown(a_checkpoint_has_stops_and_a_suffix, make_checkpoint,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(what_the_source_says_is_kept, make_checkpoint,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(malformed_generation_configs_are_refused, make_checkpoint,
                                        remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
