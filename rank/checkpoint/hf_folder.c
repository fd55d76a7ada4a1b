/* A folder that Hugging Face's transformers reads: GPT2LMHeadModel and its tokenizer. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "rank/checkpoint.h"

enum {
    CONFIG_BYTES_MAX = 1 << 20,
    TOKENIZER_BYTES_MAX = 64 << 20,
    FILE_PATH_BYTES = BASE_PATH_BYTES + 64,
};

static const char END_TOKEN[] = "<|endoftext|>";
static const double NORM_EPSILON = 1e-5;

static void join(char path[FILE_PATH_BYTES], const char *folder, const char *name)
{
    (void)snprintf(path, FILE_PATH_BYTES, "%s/%s", folder, name);
}

/* Writes the object, indented, with a final newline; takes the reference. */
static base_status write_json(const char *folder, const char *name, json_t *object,
                              base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    join(path, folder, name);
    char *text =
        object != NULL ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    const size_t length = strlen(text);
    text[length] = '\n'; /* in place of the NUL, which is not written */
    const base_status status = base_file_write(path, text, length + 1, reterr);
    free(text);
    return status;
}

static json_t *model_config(const rank_model_config *config)
{
    const int end_id = config->vocab_size - 1;
    json_t *object = json_pack("{s:[s], s:s, s:s, s:b}", "architectures", "GPT2LMHeadModel",
                               "model_type", "gpt2", "dtype", "float32", "tie_word_embeddings", 1);
    json_t *shape =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:n, s:i}", "n_embd", config->width, "n_layer",
                  config->layers, "n_head", config->heads, "n_positions", config->context, "n_ctx",
                  config->context, "n_inner", "vocab_size", config->vocab_size);
    json_t *rest =
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:i, s:i}", "activation_function",
                  "gelu_new", "layer_norm_epsilon", NORM_EPSILON, "initializer_range", 0.02,
                  "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0, "scale_attn_weights", 1,
                  "use_cache", 1, "bos_token_id", end_id, "eos_token_id", end_id);
    if (object == NULL || json_object_update(object, shape) != 0 ||
        json_object_update(object, rest) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(shape);
    json_decref(rest);
    return object;
}

static base_status copy_tokenizer(const char *folder, const char *tokenizer_path,
                                  base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    void *data = NULL;
    size_t size_bytes = 0;
    join(path, folder, "tokenizer.json");
    base_status status =
        base_file_read(tokenizer_path, TOKENIZER_BYTES_MAX, &data, &size_bytes, reterr);
    if (status == BASE_OK) {
        status = base_file_write(path, data, size_bytes, reterr);
        free(data);
    }
    return status;
}

base_status rank_checkpoint_write(const char *folder, const rank_model_config *config,
                                  const float *params, const char *tokenizer_path,
                                  base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    const int end_id = config->vocab_size - 1;
    base_status status = copy_tokenizer(folder, tokenizer_path, reterr);
    if (status == BASE_OK) {
        status = write_json(folder, "tokenizer_config.json",
                            json_pack("{s:s, s:s, s:s, s:i, s:b}", "tokenizer_class",
                                      "PreTrainedTokenizerFast", "bos_token", END_TOKEN,
                                      "eos_token", END_TOKEN, "model_max_length", config->context,
                                      "clean_up_tokenization_spaces", 0),
                            reterr);
    }
    if (status == BASE_OK) {
        status = write_json(folder, "generation_config.json",
                            json_pack("{s:i, s:i, s:b}", "bos_token_id", end_id, "eos_token_id",
                                      end_id, "do_sample", 0),
                            reterr);
    }
    if (status == BASE_OK) {
        status = write_json(folder, "config.json", model_config(config), reterr);
    }
    if (status == BASE_OK) {
        join(path, folder, "model.safetensors");
        status = rank_safetensors_write(path, config, params, "transformer.", reterr);
    }
    return status;
}

/* One positive integer of config.json. */
static base_status read_int(const json_t *object, const char *key, int *value, base_error *reterr)
{
    const json_t *entry = json_object_get(object, key);
    const json_int_t number = json_integer_value(entry);
    if (!json_is_integer(entry) || number < 1 || number > INT32_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is missing or no positive integer", key);
    }
    *value = (int)number;
    return BASE_OK;
}

static base_status want_string(const json_t *object, const char *key, const char *wanted,
                               base_error *reterr)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL || strcmp(value, wanted) != 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be \"%s\"", key, wanted);
    }
    return BASE_OK;
}

/* What our model has no switch for must be as our model is. */
static base_status check_fixed(const json_t *object, int width, base_error *reterr)
{
    const json_t *inner = json_object_get(object, "n_inner");
    const json_t *epsilon = json_object_get(object, "layer_norm_epsilon");
    base_status status = want_string(object, "model_type", "gpt2", reterr);
    if (status == BASE_OK) {
        status = want_string(object, "activation_function", "gelu_new", reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (inner != NULL && !json_is_null(inner) &&
        json_integer_value(inner) != 4 * (json_int_t)width) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "n_inner must be null or 4 x n_embd");
    }
    if (epsilon != NULL && !(fabs(json_number_value(epsilon) - NORM_EPSILON) < 1e-12)) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "layer_norm_epsilon must be 1e-5");
    }
    if (json_is_false(json_object_get(object, "tie_word_embeddings"))) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "tie_word_embeddings must be true");
    }
    return BASE_OK;
}

static base_status parse_config(const void *text, size_t text_bytes, rank_model_config *config,
                                base_error *reterr)
{
    json_error_t flaw;
    rank_model_config read = {0};
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &flaw);
    if (!json_is_object(object)) {
        json_decref(object);
        return base_fail(reterr, BASE_ERR_INVALID, "no JSON object");
    }
    const struct {
        const char *key;
        int *value;
    } fields[] = {
        {"vocab_size", &read.vocab_size}, {"n_embd", &read.width},        {"n_layer", &read.layers},
        {"n_head", &read.heads},          {"n_positions", &read.context},
    };
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof fields / sizeof fields[0]; i++) {
        status = read_int(object, fields[i].key, fields[i].value, reterr);
    }
    if (status == BASE_OK) {
        status = check_fixed(object, read.width, reterr);
    }
    if (status == BASE_OK) {
        status = rank_model_config_check(&read, reterr);
    }
    if (status == BASE_OK) {
        *config = read;
    }
    json_decref(object);
    return status;
}

base_status rank_checkpoint_config(const char *folder, rank_model_config *config,
                                   base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    void *text = NULL;
    size_t text_bytes = 0;
    join(path, folder, "config.json");
    base_status status = base_file_read(path, CONFIG_BYTES_MAX, &text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = parse_config(text, text_bytes, config, reterr);
    free(text);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}
