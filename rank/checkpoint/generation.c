/* Reads generation_config.json of a checkpoint: stop tokens, and the suffix of prompts. Called by
 * generate/mode.c. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/path.h"
#include "rank/checkpoint.h"

enum { GENERATION_BYTES_MAX = 1 << 20 };

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

static base_status parse_stops(const json_t *object, int vocab_size, rank_generation_config *config,
                               base_error *reterr)
{
    const json_t *ids = json_object_get(object, "eos_token_id");
    base_status status = BASE_OK;
    if (ids == NULL || json_is_null(ids)) {
        return BASE_OK;
    }
    if (!json_is_array(ids)) {
        return add_stop(config, ids, vocab_size, reterr);
    }
    for (size_t i = 0; status == BASE_OK && i < json_array_size(ids); i++) {
        status = add_stop(config, json_array_get(ids, i), vocab_size, reterr);
    }
    return status;
}

static base_status parse_suffix(const json_t *object, rank_generation_config *config,
                                base_error *reterr)
{
    const json_t *suffix = json_object_get(object, "prompt_suffix");
    if (suffix == NULL) {
        /* transformers writes its version into every file, and our older files lack it */
        const bool older = json_object_get(object, "transformers_version") == NULL;
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

base_status rank_checkpoint_generation(const char *directory, int vocab_size,
                                       rank_generation_config *config, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    void *text = NULL;
    size_t text_bytes = 0;
    json_error_t flaw;
    *config = (rank_generation_config){.stop_count = 0};
    base_status status = base_path_join(directory, "generation_config.json", path, reterr);
    if (status == BASE_OK) {
        status = base_file_read_regular(path, GENERATION_BYTES_MAX, &text, &text_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_OK : status;
    }
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &flaw);
    free(text);
    status = json_is_object(object) ? parse_stops(object, vocab_size, config, reterr)
                                    : base_fail(reterr, BASE_ERR_INVALID, "no JSON object");
    if (status == BASE_OK) {
        status = parse_suffix(object, config, reterr);
    }
    json_decref(object);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}
