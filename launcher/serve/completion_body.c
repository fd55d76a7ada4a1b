/* Reads the bodies of POST /v1/completions and /v1/chat/completions. Called by routes.c. */
#include "serve/completion_body.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/request_key.h"

enum { COMPLETION_LOGPROBS_MAX = 5 }; /* as OpenAI limits them */

/* What a field may be without changing the result. */
typedef enum neutral {
    NEUTRAL_ZERO,
    NEUTRAL_ONE,
    NEUTRAL_FALSE,
    NEUTRAL_EMPTY,
    NEUTRAL_NONE_TEXT, /* "none" */
    NEUTRAL_TEXT_TYPE, /* {"type": "text"} */
    NEUTRAL_BOOLEAN,   /* either */
    NEUTRAL_TIER,      /* "auto" or "default" */
    NEUTRAL_ANY
} neutral;

static const struct {
    const char *key;
    neutral value;
} others[] = {
    {"n", NEUTRAL_ONE},
    {"best_of", NEUTRAL_ONE},
    {"suffix", NEUTRAL_EMPTY},
    {"echo", NEUTRAL_FALSE},
    {"top_logprobs", NEUTRAL_ZERO},
    {"tools", NEUTRAL_EMPTY},
    {"tool_choice", NEUTRAL_NONE_TEXT},
    {"parallel_tool_calls", NEUTRAL_BOOLEAN}, /* there are no tools */
    {"store", NEUTRAL_FALSE},
    {"service_tier", NEUTRAL_TIER},
    {"response_format", NEUTRAL_TEXT_TYPE},
    {"user", NEUTRAL_ANY},
    {"metadata", NEUTRAL_ANY},
    {"safety_identifier", NEUTRAL_ANY},
    {"prompt_cache_key", NEUTRAL_ANY},
};

static bool is_neutral(neutral kind, const json_t *value)
{
    switch (kind) {
    case NEUTRAL_ZERO:
        return json_is_number(value) && json_number_value(value) == 0;
    case NEUTRAL_ONE:
        return json_is_number(value) && json_number_value(value) == 1;
    case NEUTRAL_FALSE:
        return json_is_false(value);
    case NEUTRAL_EMPTY:
        return (json_is_string(value) && json_string_length(value) == 0) ||
               (json_is_array(value) && json_array_size(value) == 0) ||
               (json_is_object(value) && json_object_size(value) == 0);
    case NEUTRAL_NONE_TEXT:
        return json_is_string(value) && strcmp(json_string_value(value), "none") == 0;
    case NEUTRAL_TEXT_TYPE:
        return json_is_string(json_object_get(value, "type")) &&
               strcmp(json_string_value(json_object_get(value, "type")), "text") == 0;
    case NEUTRAL_BOOLEAN:
        return json_is_boolean(value);
    case NEUTRAL_TIER:
        return json_is_string(value) && (strcmp(json_string_value(value), "auto") == 0 ||
                                         strcmp(json_string_value(value), "default") == 0);
    case NEUTRAL_ANY:
        break;
    }
    return true;
}

static base_status read_other(const char *key, const json_t *value, base_error *reterr)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(key, others[i].key) == 0) {
            return is_neutral(others[i].value, value)
                       ? BASE_OK
                       : base_fail(reterr, BASE_ERR_INVALID,
                                   "%s: this server does not support it: leave it out", key);
        }
    }
    return base_fail(reterr, BASE_ERR_INVALID, "%.48s: a completion has no such field", key);
}

/* A text, tokens, or a list of one of these. */
static base_status read_prompt(const json_t *value, proto_request *request, base_error *reterr)
{
    const json_t *first = json_array_get(value, 0);
    if (first != NULL && !json_is_integer(first)) {
        if (json_array_size(value) != 1) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "prompt: a list of several: send a request for each");
        }
        value = first;
    }
    if (json_is_array(value)) {
        return launch_request_tokens("prompt", value, request, reterr);
    }
    return launch_request_key("prompt", value, request, reterr);
}

static base_status read_flag(const char *key, const json_t *value, bool *flag, base_error *reterr)
{
    *flag = json_is_true(value);
    return json_is_boolean(value)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s: must be true or false", key);
}

static base_status read_stream_options(const json_t *value, bool *include_usage, base_error *reterr)
{
    const json_t *usage = json_object_get(value, "include_usage");
    const json_t *obfuscation = json_object_get(value, "include_obfuscation");
    const size_t known = (usage != NULL ? 1U : 0U) + (obfuscation != NULL ? 1U : 0U);
    if (!json_is_object(value) || json_object_size(value) != known ||
        (obfuscation != NULL && !json_is_false(obfuscation))) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "stream_options: has include_usage, and nothing else, unless it is "
                         "include_obfuscation: false");
    }
    return usage != NULL && !json_is_null(usage)
               ? read_flag("stream_options", usage, include_usage, reterr)
               : BASE_OK;
}

/* The prompt, or the messages, of the path that was asked for. */
static base_status read_input(const char *key, const json_t *value, launch_completion_body *body,
                              base_error *reterr)
{
    if (body->chat != (strcmp(key, "messages") == 0)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         body->chat ? "prompt: a chat has messages; /v1/completions takes a prompt"
                                    : "messages: /v1/chat/completions takes them");
    }
    return body->chat ? launch_request_key(key, value, &body->request, reterr)
                      : read_prompt(value, &body->request, reterr);
}

/* Of a completion, how many of the best each token has beside itself; of a chat, whether it has any, and how many. */
static base_status read_logprobs(const char *key, const json_t *value, launch_completion_body *body,
                                 base_error *reterr)
{
    int64_t best = 0;
    if (body->chat && strcmp(key, "logprobs") == 0) {
        return read_flag(key, value, &body->logprobs, reterr);
    }
    const base_status status = launch_request_integer(
        key, value, 0, body->chat ? PROTO_LOGPROBS_MAX - 1 : COMPLETION_LOGPROBS_MAX, &best,
        reterr);
    if (status == BASE_OK) {
        body->logprobs = body->logprobs || !body->chat;
        body->logprobs_best = (int32_t)best;
    }
    return status;
}

static base_status read_field(const char *key, const json_t *value, const char *model,
                              launch_completion_body *body, base_error *reterr)
{
    proto_request *request = &body->request;
    if (json_is_null(value)) {
        return BASE_OK; /* as if it were left out */
    }
    if (strcmp(key, "model") == 0) {
        return json_is_string(value) && strcmp(json_string_value(value), model) == 0
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_NOTFOUND, LAUNCH_NO_SUCH_MODEL, model);
    }
    if (strcmp(key, "prompt") == 0 || strcmp(key, "messages") == 0) {
        return read_input(key, value, body, reterr);
    }
    if (strcmp(key, "max_tokens") == 0 ||
        (body->chat && strcmp(key, "max_completion_tokens") == 0)) {
        int64_t tokens = 0;
        const base_status status =
            launch_request_integer(key, value, 1, PROTO_NEW_TOKENS_MAX, &tokens, reterr);
        request->max_new_tokens = (int32_t)tokens;
        return status;
    }
    if (body->chat && strcmp(key, "chat_template_kwargs") == 0) {
        return launch_request_key(key, value, request, reterr);
    }
    if (strcmp(key, "stream") == 0) {
        return read_flag(key, value, &body->stream, reterr);
    }
    if (strcmp(key, "logprobs") == 0 || (body->chat && strcmp(key, "top_logprobs") == 0)) {
        return read_logprobs(key, value, body, reterr);
    }
    if (strcmp(key, "stop") == 0) {
        return launch_stop_texts_read(value, &body->stops, reterr);
    }
    if (strcmp(key, "stream_options") == 0) {
        return read_stream_options(value, &body->include_usage, reterr);
    }
    static const char *const same[] = {"temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "repetition_penalty",
                                       "logit_bias",
                                       "seed",
                                       "ignore_eos",
                                       "stop_token_ids"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        if (strcmp(key, same[i]) == 0) {
            body->seeded = body->seeded || strcmp(key, "seed") == 0;
            const base_status status = launch_request_key(key, value, request, reterr);
            return status == BASE_OK ? proto_request_check_sampling(request, reterr) : status;
        }
    }
    return read_other(key, value, reterr);
}

/* Refuses a text that is no JSON object. Where it is one but for an integer of more than 63 bits, the field is named. */
static base_status refuse_text(const char *text, size_t text_bytes, const json_error_t *flaw,
                               char field[LAUNCH_FIELD_BYTES], base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_t *object =
        json_error_code(flaw) == json_error_numeric_overflow
            ? json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL)
            : NULL;
    json_object_foreach(object, key, value)
    {
        if (fabs(json_number_value(value)) >= 0x1p63) {
            (void)snprintf(field, LAUNCH_FIELD_BYTES, "%.48s", key);
        }
    }
    json_decref(object);
    return field[0] != '\0'
               ? base_fail(reterr, BASE_ERR_INVALID, "%s: the number is too large", field)
               : base_fail(reterr, BASE_ERR_INVALID, "the body is not a JSON object: %.100s",
                           flaw->text);
}

base_status launch_completion_body_read(const char *text, size_t text_bytes, const char *model,
                                        launch_completion_body *body,
                                        char field[LAUNCH_FIELD_BYTES], base_error *reterr)
{
    json_error_t json_error;
    const char *key = NULL;
    json_t *value = NULL;
    base_status status = BASE_OK;
    const char *input = body->chat ? "messages" : "prompt";
    field[0] = '\0';
    if (body->chat) { /* clients expect the whole answer where they do not say how long */
        body->request.max_new_tokens = PROTO_NEW_TOKENS_MAX;
    }
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (object == NULL) {
        return refuse_text(text, text_bytes, &json_error, field, reterr);
    }
    if (!json_is_object(object)) {
        json_decref(object);
        return base_fail(reterr, BASE_ERR_INVALID, "the body is not a JSON object");
    }
    json_object_foreach(object, key, value)
    {
        status = read_field(key, value, model, body, reterr);
        if (status != BASE_OK) {
            (void)snprintf(field, LAUNCH_FIELD_BYTES, "%.48s", key);
            break;
        }
    }
    const proto_request *request = &body->request;
    if (status == BASE_OK && request->text_bytes == 0 && request->token_count == 0) {
        (void)snprintf(field, LAUNCH_FIELD_BYTES, "%s", input);
        status = base_fail(reterr, BASE_ERR_INVALID, "%s: there is none", input);
    }
    if (status == BASE_OK && body->include_usage && !body->stream) {
        (void)snprintf(field, LAUNCH_FIELD_BYTES, "stream_options");
        status = base_fail(reterr, BASE_ERR_INVALID, "stream_options: goes with stream");
    }
    if (status == BASE_OK && body->logprobs_best > 0 && !body->logprobs) {
        (void)snprintf(field, LAUNCH_FIELD_BYTES, "top_logprobs");
        status = base_fail(reterr, BASE_ERR_INVALID, "top_logprobs: goes with logprobs: true");
    }
    body->request.logprob_count = body->logprobs ? 1 + body->logprobs_best : 0;
    if (status == BASE_OK) {
        body->request.id = 1; /* the server has yet to number it */
        status = proto_request_check(request, reterr);
        (void)snprintf(field, LAUNCH_FIELD_BYTES, "%s", status != BASE_OK ? input : "");
    }
    json_decref(object);
    return status;
}
