/* Writes and reads a directory of Hugging Face's transformers: model, configuration, tokenizer.
 * Called by train/ and generate/. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "checkpoint/hf_json.h"
#include "model/family.h"
#include "rank/checkpoint.h"

enum {
    TOKENIZER_BYTES_MAX = 64 << 20,
    FILE_PATH_BYTES = BASE_PATH_BYTES + 64,
    FAMILIES_BYTES = 256,
};

static const char END_TOKEN[] = "<|endoftext|>";

static void join(char path[FILE_PATH_BYTES], const char *directory, const char *name)
{
    (void)snprintf(path, FILE_PATH_BYTES, "%s/%s", directory, name);
}

static base_status copy_file(const char *from, const char *directory, const char *name,
                             base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    void *data = NULL;
    size_t size_bytes = 0;
    join(path, directory, name);
    base_status status =
        base_file_read_regular(from, TOKENIZER_BYTES_MAX, &data, &size_bytes, reterr);
    if (status == BASE_OK) {
        status = base_file_write(path, data, size_bytes, reterr);
        free(data);
    }
    return status;
}

/* What belongs to the source's tokenizer. *copied: it has a tokenizer_config.json. */
static void copy_from_source(const char *directory, const rank_checkpoint_about *about,
                             bool *copied)
{
    static const char *const names[] = {"tokenizer_config.json", "chat_template.jinja"};
    char path[FILE_PATH_BYTES];
    *copied = false;
    if (about->source == NULL) {
        return;
    }
    join(path, about->source, "tokenizer.json");
    if (strcmp(path, about->tokenizer_path) != 0) {
        return; /* another tokenizer was asked for */
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        join(path, about->source, names[i]);
        base_error error;
        const base_status status = copy_file(path, directory, names[i], &error);
        if (status != BASE_OK && status != BASE_ERR_NOTFOUND) {
            base_log(BASE_LOG_WARNING, "%s is not kept: %s", names[i], error.message);
        }
        *copied = *copied || (i == 0 && status == BASE_OK);
    }
}

/* What the source's file says; an empty object if there is none, or if it cannot be read: a training that
 * is over is saved in any case. */
static base_status read_source(const rank_checkpoint_about *about, const char *name,
                               json_t **object, base_error *reterr)
{
    base_error error;
    const base_status status = about->source != NULL
                                   ? rank_hf_json_read(about->source, name, object, &error)
                                   : BASE_ERR_NOTFOUND;
    if (status == BASE_OK) {
        return BASE_OK;
    }
    if (status != BASE_ERR_NOTFOUND) {
        base_log(BASE_LOG_WARNING, "what it says is not kept: %s", error.message);
    }
    *object = json_object();
    return *object != NULL ? BASE_OK : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %s", name);
}

/* The source's ids that end a text, with end_id. */
static json_t *stops_of(const json_t *said, int end_id)
{
    json_t *ids = json_is_array(said) ? json_copy((json_t *)(uintptr_t)said) : json_array();
    if (json_is_integer(said)) {
        (void)json_array_append(ids, (json_t *)(uintptr_t)said);
    }
    bool has_end = false;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        has_end = has_end || json_integer_value(json_array_get(ids, i)) == end_id;
    }
    if (!has_end && json_array_size(ids) < RANK_GENERATION_STOPS_MAX) {
        (void)json_array_append_new(ids, json_integer(end_id));
    }
    if (json_array_size(ids) == 1) {
        json_t *only = json_incref(json_array_get(ids, 0));
        json_decref(ids);
        return only;
    }
    return ids;
}

/* What the first says that has the key. */
static const json_t *said(const char *key, const json_t *first, const json_t *second)
{
    const json_t *value = json_object_get(first, key);
    return value != NULL ? value : json_object_get(second, key);
}

/* Adds the tokens that begin and end a text: those of the source's files, or the tokenizer's. */
static bool add_ends(json_t *object, const json_t *first, const json_t *second,
                     const rank_checkpoint_about *about)
{
    const json_t *begin = said("bos_token_id", first, second);
    const int end_id = (int)about->end_id;
    const int begin_id = about->begin_token[0] != '\0' ? (int)about->begin_id : end_id;
    return json_object_set_new(object, "bos_token_id",
                               begin != NULL ? json_copy((json_t *)(uintptr_t)begin)
                                             : json_integer(begin_id)) == 0 &&
           json_object_set_new(object, "eos_token_id",
                               stops_of(said("eos_token_id", first, second), end_id)) == 0;
}

static base_status write_generation(const char *directory, const rank_checkpoint_about *about,
                                    const json_t *model, base_error *reterr)
{
    static const char name[] = "generation_config.json";
    json_t *object = NULL;
    const base_status status = read_source(about, name, &object, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (json_object_size(object) == 0) {
        (void)json_object_set_new(object, "do_sample", json_false());
    }
    if (!add_ends(object, object, model, about) ||
        json_object_set_new(object, "prompt_suffix", json_string(about->prompt_suffix)) != 0) {
        json_decref(object);
        object = NULL;
    }
    return rank_hf_json_write(directory, name, object, reterr);
}

base_status rank_checkpoint_write_generation(const char *directory,
                                             const rank_checkpoint_about *about, base_error *reterr)
{
    json_t *model = NULL;
    base_status status = read_source(about, "config.json", &model, reterr);
    if (status == BASE_OK) {
        status = write_generation(directory, about, model, reterr);
    }
    json_decref(model);
    return status;
}

static base_status write_tokenizer_config(const char *directory, const rank_checkpoint_about *about,
                                          base_error *reterr)
{
    const char *end_token = about->end_token != NULL ? about->end_token : END_TOKEN;
    const char *begin_token = about->begin_token[0] != '\0' ? about->begin_token : end_token;
    return rank_hf_json_write(directory, "tokenizer_config.json",
                              json_pack("{s:s, s:s, s:s, s:i, s:b}", "tokenizer_class",
                                        "PreTrainedTokenizerFast", "bos_token", begin_token,
                                        "eos_token", end_token, "model_max_length",
                                        about->config->context, "clean_up_tokenization_spaces", 0),
                              reterr);
}

/* In which transformers then holds the weights. */
static bool set_type(json_t *config, rank_type type)
{
    return type == RANK_FLOAT32 ||
           json_object_set_new(config, "dtype", json_string("bfloat16")) == 0;
}

base_status rank_checkpoint_write(const char *directory, const rank_checkpoint_about *about,
                                  const float *params, base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    const rank_model_config *config = about->config;
    bool copied = false;
    json_t *model = NULL; /* the source's */
    base_status status = read_source(about, "config.json", &model, reterr);
    if (status == BASE_OK) {
        status = copy_file(about->tokenizer_path, directory, "tokenizer.json", reterr);
    }
    if (status == BASE_OK) {
        copy_from_source(directory, about, &copied);
    }
    if (status == BASE_OK && !copied) {
        status = write_tokenizer_config(directory, about, reterr);
    }
    if (status == BASE_OK) {
        status = write_generation(directory, about, model, reterr);
    }
    if (status == BASE_OK) {
        json_t *object = config->family->describe(config);
        if (object != NULL &&
            (!add_ends(object, model, NULL, about) || !set_type(object, about->type))) {
            json_decref(object);
            object = NULL;
        }
        status = rank_hf_json_write(directory, "config.json", object, reterr);
    }
    json_decref(model);
    if (status == BASE_OK) {
        join(path, directory, "model.safetensors");
        status = rank_safetensors_write(path, config, params, config->family->file_prefix,
                                        about->type, reterr);
    }
    return status;
}

static base_status configure(const json_t *object, rank_model_config *config, base_error *reterr)
{
    rank_model_config read = {.family = NULL};
    const char *type = json_string_value(json_object_get(object, "model_type"));
    const rank_family *family = type != NULL ? rank_family_find(type) : NULL;
    char known[FAMILIES_BYTES];
    rank_family_list(known, sizeof known);
    base_status status =
        family != NULL ? family->configure(object, &read, reterr)
        : type != NULL ? base_fail(reterr, BASE_ERR_UNSUPPORTED,
                                   "model_type \"%.64s\" is none that "
                                   "this program knows, which are: %s",
                                   type, known)
                       : base_fail(reterr, BASE_ERR_INVALID, "model_type is missing or no string");
    if (status == BASE_OK) {
        *config = read;
    }
    return status;
}

base_status rank_checkpoint_config(const char *directory, rank_model_config *config,
                                   base_error *reterr)
{
    static const char name[] = "config.json";
    json_t *object = NULL;
    base_status status = rank_hf_json_read(directory, name, &object, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = configure(object, config, reterr);
    json_decref(object);
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "%s/%s", directory, name);
}
