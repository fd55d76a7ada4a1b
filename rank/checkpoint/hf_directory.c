/* Writes and reads a directory of Hugging Face's transformers: model, configuration, tokenizer.
 * Called by train/ and generate/. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "model/family.h"
#include "rank/checkpoint.h"

enum {
    CONFIG_BYTES_MAX = 1 << 20,
    TOKENIZER_BYTES_MAX = 64 << 20,
    FILE_PATH_BYTES = BASE_PATH_BYTES + 64,
};

static const char END_TOKEN[] = "<|endoftext|>";

static void join(char path[FILE_PATH_BYTES], const char *directory, const char *name)
{
    (void)snprintf(path, FILE_PATH_BYTES, "%s/%s", directory, name);
}

/* Writes the object, indented, with a final newline; takes the reference. */
static base_status write_json(const char *directory, const char *name, json_t *object,
                              base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    join(path, directory, name);
    char *text =
        object != NULL ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    const size_t length = strlen(text);
    text[length] = '\n'; /* replaces the NUL, which is not written */
    const base_status status = base_file_write(path, text, length + 1, reterr);
    free(text);
    return status;
}

static base_status copy_tokenizer(const char *directory, const char *tokenizer_path,
                                  base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    void *data = NULL;
    size_t size_bytes = 0;
    join(path, directory, "tokenizer.json");
    base_status status =
        base_file_read_regular(tokenizer_path, TOKENIZER_BYTES_MAX, &data, &size_bytes, reterr);
    if (status == BASE_OK) {
        status = base_file_write(path, data, size_bytes, reterr);
        free(data);
    }
    return status;
}

/* The family's description, with the tokens that begin and end a text. */
static json_t *describe(const rank_checkpoint_about *about)
{
    json_t *object = about->config->family->describe(about->config);
    json_t *ends = json_pack("{s:i, s:i}", "bos_token_id", (int)about->end_id, "eos_token_id",
                             (int)about->end_id);
    const bool made = object != NULL && ends != NULL && json_object_update(object, ends) == 0;
    json_decref(ends);
    if (!made) {
        json_decref(object);
    }
    return made ? object : NULL;
}

base_status rank_checkpoint_write(const char *directory, const rank_checkpoint_about *about,
                                  const float *params, base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    const rank_model_config *config = about->config;
    const char *end_token = about->end_token != NULL ? about->end_token : END_TOKEN;
    base_status status = copy_tokenizer(directory, about->tokenizer_path, reterr);
    if (status == BASE_OK) {
        status = write_json(directory, "tokenizer_config.json",
                            json_pack("{s:s, s:s, s:s, s:i, s:b}", "tokenizer_class",
                                      "PreTrainedTokenizerFast", "bos_token", end_token,
                                      "eos_token", end_token, "model_max_length", config->context,
                                      "clean_up_tokenization_spaces", 0),
                            reterr);
    }
    if (status == BASE_OK) {
        status = write_json(directory, "generation_config.json",
                            json_pack("{s:i, s:i, s:b, s:s}", "bos_token_id", (int)about->end_id,
                                      "eos_token_id", (int)about->end_id, "do_sample", 0,
                                      "prompt_suffix", about->prompt_suffix),
                            reterr);
    }
    if (status == BASE_OK) {
        status = write_json(directory, "config.json", describe(about), reterr);
    }
    if (status == BASE_OK) {
        join(path, directory, "model.safetensors");
        status = rank_safetensors_write(path, config, params, config->family->file_prefix, reterr);
    }
    return status;
}

static base_status parse_config(const void *text, size_t text_bytes, rank_model_config *config,
                                base_error *reterr)
{
    json_error_t flaw;
    rank_model_config read = {.family = NULL};
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &flaw);
    if (!json_is_object(object)) {
        json_decref(object);
        return base_fail(reterr, BASE_ERR_INVALID, "no JSON object");
    }
    const char *type = json_string_value(json_object_get(object, "model_type"));
    const rank_family *family = type != NULL ? rank_family_find(type) : NULL;
    base_status status =
        family != NULL ? family->configure(object, &read, reterr)
        : type != NULL ? base_fail(reterr, BASE_ERR_UNSUPPORTED,
                                   "model_type \"%s\" is none that "
                                   "this program knows",
                                   type)
                       : base_fail(reterr, BASE_ERR_INVALID, "model_type is missing or no string");
    if (status == BASE_OK) {
        *config = read;
    }
    json_decref(object);
    return status;
}

base_status rank_checkpoint_config(const char *directory, rank_model_config *config,
                                   base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    void *text = NULL;
    size_t text_bytes = 0;
    join(path, directory, "config.json");
    base_status status = base_file_read_regular(path, CONFIG_BYTES_MAX, &text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = parse_config(text, text_bytes, config, reterr);
    free(text);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}
