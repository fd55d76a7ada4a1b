/* Parses a line of requests. Called by feed.c. */
#include "cli/prompt_line.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static base_status set_text(const char *text, size_t text_bytes, proto_request *request,
                            base_error *reterr)
{
    if (text_bytes > PROTO_PROMPT_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a prompt of more than %d bytes",
                         PROTO_PROMPT_BYTES_MAX);
    }
    memcpy(request->prompt.text, text, text_bytes);
    request->prompt.text[text_bytes] = '\0';
    request->text_bytes = (uint32_t)text_bytes;
    request->token_count = 0;
    return BASE_OK;
}

static base_status set_ids(const char *key, const json_t *array, int32_t *ids, size_t count_max,
                           base_error *reterr)
{
    size_t index = 0;
    json_t *id = NULL;
    if (!json_is_array(array) || json_array_size(array) > count_max) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: must be a list of at most %zu tokens", key,
                         count_max);
    }
    json_array_foreach(array, index, id)
    {
        const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value >= PROTO_VOCAB_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID, "%s: entry %zu is no token", key, index);
        }
        ids[index] = (int32_t)value;
    }
    return BASE_OK;
}

static base_status set_integer(const char *key, const json_t *value, json_int_t least,
                               json_int_t most, json_int_t *integer, base_error *reterr)
{
    *integer = json_integer_value(value);
    return json_is_integer(value) && *integer >= least && *integer <= most
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "%s: must be an integer from %" JSON_INTEGER_FORMAT
                           " to %" JSON_INTEGER_FORMAT,
                           key, least, most);
}

static base_status set_number(const char *key, const json_t *value, double *number,
                              base_error *reterr)
{
    *number = json_number_value(value);
    return json_is_number(value) ? BASE_OK
                                 : base_fail(reterr, BASE_ERR_INVALID, "%s: must be a number", key);
}

static base_status set_prompt(const char *key, const json_t *value, proto_request *request,
                              base_error *reterr)
{
    if (strcmp(key, "prompt") == 0) {
        return json_string_length(value) > 0 /* 0 also if it is not a string */
                   ? set_text(json_string_value(value), json_string_length(value), request, reterr)
                   : base_fail(reterr, BASE_ERR_INVALID, "no \"prompt\" with a text in it");
    }
    const base_status status =
        set_ids(key, value, request->prompt.tokens, PROTO_PROMPT_TOKENS_MAX, reterr);
    if (status == BASE_OK && json_array_size(value) == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: an empty prompt", key);
    }
    request->token_count = (uint32_t)json_array_size(value);
    return status;
}

/* Sets what one key says. */
static base_status set_key(const char *key, const json_t *value, proto_request *request,
                           base_error *reterr)
{
    json_int_t integer = 0;
    base_status status = BASE_OK;
    if (strcmp(key, "prompt") == 0 || strcmp(key, "prompt_token_ids") == 0) {
        return set_prompt(key, value, request, reterr);
    }
    if (strcmp(key, "temperature") == 0) {
        return set_number(key, value, &request->temperature, reterr);
    }
    if (strcmp(key, "top_p") == 0) {
        return set_number(key, value, &request->top_p, reterr);
    }
    if (strcmp(key, "max_new_tokens") == 0) {
        status = set_integer(key, value, 1, PROTO_NEW_TOKENS_MAX, &integer, reterr);
        request->max_new_tokens = (int32_t)integer;
    } else if (strcmp(key, "top_k") == 0) {
        status = set_integer(key, value, 0, PROTO_TOP_K_MAX, &integer, reterr);
        request->top_k = (int32_t)integer;
    } else if (strcmp(key, "seed") == 0) {
        status = set_integer(key, value, 0, INT64_MAX, &integer, reterr);
        request->seed = (uint64_t)integer;
    } else if (strcmp(key, "ignore_eos") == 0) {
        request->ignore_eos = json_is_true(value);
        status = json_is_boolean(value)
                     ? BASE_OK
                     : base_fail(reterr, BASE_ERR_INVALID, "%s: must be true or false", key);
    } else if (strcmp(key, "stop_token_ids") == 0) {
        status = set_ids(key, value, request->stops, PROTO_STOP_TOKENS_MAX, reterr);
        request->stop_count = (int32_t)json_array_size(value);
    } else {
        status = base_fail(reterr, BASE_ERR_INVALID, "a request has no \"%.64s\"", key);
    }
    return status;
}

static base_status read_cancel(const json_t *object, proto_request *request, base_error *reterr)
{
    json_int_t id = 0;
    if (json_object_size(object) != 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"cancel\" stands alone");
    }
    const base_status status =
        set_integer("cancel", json_object_get(object, "cancel"), 1, INT64_MAX, &id, reterr);
    request->id = (uint64_t)id;
    return status;
}

static base_status read_object(json_t *object, proto_request *request, launch_line_kind *kind,
                               base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    base_status status = BASE_OK;
    if (json_object_get(object, "cancel") != NULL) {
        *kind = LAUNCH_LINE_CANCEL;
        return read_cancel(object, request, reterr);
    }
    const bool text = json_object_get(object, "prompt") != NULL;
    if (text == (json_object_get(object, "prompt_token_ids") != NULL)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a request has a \"prompt\", or else \"prompt_token_ids\"");
    }
    json_object_foreach(object, key, value)
    {
        status = set_key(key, value, request, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return proto_request_check(request, reterr);
}

base_status launch_prompt_line(const char *line, size_t line_bytes, proto_request *request,
                               launch_line_kind *kind, base_error *reterr)
{
    json_error_t json_error;
    line_bytes -= line_bytes > 0 && line[line_bytes - 1] == '\r' ? 1 : 0;
    *kind = line_bytes > 0 ? LAUNCH_LINE_REQUEST : LAUNCH_LINE_EMPTY;
    if (line_bytes == 0) {
        return BASE_OK;
    }
    if (line[0] != '{') {
        const base_status status = set_text(line, line_bytes, request, reterr);
        return status == BASE_OK ? proto_request_check(request, reterr) : status;
    }
    json_t *object = json_loadb(line, line_bytes, JSON_REJECT_DUPLICATES, &json_error);
    const base_status status = object != NULL ? read_object(object, request, kind, reterr)
                                              : base_fail(reterr, BASE_ERR_INVALID,
                                                          "not a JSON object: %s", json_error.text);
    json_decref(object);
    return status;
}
