/* Reads generation_config.json of a checkpoint: stop tokens, and the suffix of prompts. Called by
 * generate/mode.c. */
#include <jansson.h>
#include <string.h>

#include "checkpoint/hf_json.h"
#include "rank/checkpoint.h"

static base_status add_stop(rank_generation_config *config, const json_t *id, int vocab_size,
                            base_error *reterr)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= vocab_size) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "eos_token_id must be an id below %d, or a list of such", vocab_size);
    }
    if (config->stop_count == RANK_GENERATION_STOPS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "eos_token_id has more than %d ids",
                         RANK_GENERATION_STOPS_MAX);
    }
    config->stops[config->stop_count++] = (int32_t)json_integer_value(id);
    return BASE_OK;
}

/* Of a `lenient` file, ids that cannot be any are left out. */
static base_status parse_stops(const json_t *object, bool lenient, int vocab_size,
                               rank_generation_config *config, base_error *reterr)
{
    const json_t *ids = json_object_get(object, "eos_token_id");
    const bool several = json_is_array(ids);
    base_status status = BASE_OK;
    if (ids == NULL || json_is_null(ids)) {
        return BASE_OK;
    }
    const size_t count = several ? json_array_size(ids) : 1;
    for (size_t i = 0; (lenient || status == BASE_OK) && i < count; i++) {
        const json_t *id = several ? json_array_get(ids, i) : ids;
        status = add_stop(config, id, vocab_size, reterr);
    }
    return status;
}

/* older: a file without the key is of a checkpoint of ours, from before there was one. */
static base_status parse_suffix(const json_t *object, bool older, rank_generation_config *config,
                                base_error *reterr)
{
    const json_t *suffix = json_object_get(object, "prompt_suffix");
    if (suffix == NULL) {
        config->suffix = older ? RANK_SUFFIX_NOT_SAID : RANK_SUFFIX_GIVEN;
        return BASE_OK;
    }
    const char *text = json_string_value(suffix);
    if (text == NULL || json_string_length(suffix) >= sizeof config->prompt_suffix ||
        strlen(text) != json_string_length(suffix)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "prompt_suffix must be a text of at most %zu bytes",
                         sizeof config->prompt_suffix - 1);
    }
    memcpy(config->prompt_suffix, text, strlen(text) + 1);
    return BASE_OK;
}

/* Our checkpoints from before the key: transformers writes its version into every file. */
static bool is_older(const char *directory, const json_t *generation)
{
    json_t *model = NULL;
    const base_status status = rank_hf_json_read(directory, "config.json", &model, NULL);
    const char *type = json_string_value(json_object_get(model, "model_type"));
    const bool older = status == BASE_OK && type != NULL && strcmp(type, "gpt2") == 0 &&
                       json_object_get(model, "transformers_version") == NULL &&
                       json_object_get(generation, "transformers_version") == NULL;
    json_decref(model);
    return older;
}

base_status rank_checkpoint_generation(const char *directory, int vocab_size,
                                       rank_generation_config *config, base_error *reterr)
{
    static const char name[] = "generation_config.json";
    json_t *object = NULL;
    *config = (rank_generation_config){.stop_count = 0};
    base_status status = rank_hf_json_read(directory, name, &object, reterr);
    if (status == BASE_ERR_NOTFOUND) { /* then transformers takes these from the model's */
        if (rank_hf_json_read(directory, "config.json", &object, NULL) == BASE_OK) {
            /* which may have ids of another vocabulary: these end nothing */
            (void)parse_stops(object, true, vocab_size, config, NULL);
        }
        json_decref(object);
        return BASE_OK;
    }
    if (status != BASE_OK) {
        return status;
    }
    status = parse_stops(object, false, vocab_size, config, reterr);
    if (status == BASE_OK) {
        status = parse_suffix(object, is_older(directory, object), config, reterr);
    }
    json_decref(object);
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "%s/%s", directory, name);
}
