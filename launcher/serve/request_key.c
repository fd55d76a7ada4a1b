/* Sets members of a request from JSON. Called for lines of standard input and for bodies of HTTP
 * requests. */
#include "serve/request_key.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "proto/chat_json.h"

void launch_request_defaults(const proto_job *job, proto_request *request)
{
    const proto_job_infer *infer = &job->infer;
    memset(request, 0, offsetof(proto_request, prompt));
    request->max_new_tokens = (int32_t)infer->max_new_tokens;
    request->temperature = infer->temperature;
    request->top_k = (int32_t)infer->top_k;
    request->top_p = infer->top_p;
    request->min_p = infer->min_p;
    request->presence_penalty = infer->presence_penalty;
    request->frequency_penalty = infer->frequency_penalty;
    request->repetition_penalty = infer->repetition_penalty;
    request->seed = (uint64_t)(infer->sampling_seed != 0 ? infer->sampling_seed : job->job.seed);
    request->logprob_count = (int32_t)infer->logprob_count;
    request->ignore_eos = infer->ignore_eos;
    request->no_thinking = infer->no_thinking;
}

base_status launch_request_text(const char *text, size_t text_bytes, proto_request *request,
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

base_status launch_request_integer(const char *key, const json_t *value, int64_t least,
                                   int64_t most, int64_t *integer, base_error *reterr)
{
    *integer = json_integer_value(value);
    return json_is_integer(value) && *integer >= least && *integer <= most
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "%s: must be an integer from %" PRId64 " to %" PRId64, key, least, most);
}

static base_status set_number(const char *key, const json_t *value, double *number,
                              base_error *reterr)
{
    *number = json_number_value(value);
    return json_is_number(value) ? BASE_OK
                                 : base_fail(reterr, BASE_ERR_INVALID, "%s: must be a number", key);
}

base_status launch_request_tokens(const char *key, const json_t *value, proto_request *request,
                                  base_error *reterr)
{
    const base_status status =
        set_ids(key, value, request->prompt.tokens, PROTO_PROMPT_TOKENS_MAX, reterr);
    if (status == BASE_OK && json_array_size(value) == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: an empty prompt", key);
    }
    request->token_count = (uint32_t)json_array_size(value);
    return status;
}

/* A content is a text, or a list of parts of one. An assistant's may be null, or left out. */
static base_status join_content(const json_t *content, const char *role, base_buffer *text)
{
    size_t index = 0;
    const json_t *part = NULL;
    if ((content == NULL || json_is_null(content)) && strcmp(role, "assistant") == 0) {
        return BASE_OK;
    }
    if (json_is_string(content)) {
        base_buffer_put(text, json_string_value(content));
        return BASE_OK;
    }
    json_array_foreach(content, index, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *words = json_string_value(json_object_get(part, "text"));
        if (type == NULL || strcmp(type, "text") != 0 || words == NULL) {
            return BASE_ERR_INVALID;
        }
        base_buffer_put(text, words);
    }
    return json_array_size(content) > 0 ? BASE_OK : BASE_ERR_INVALID;
}

/* Whether a message may have the key. No template that is known writes a name. An assistant's thoughts come back from
 * clients of servers that send them apart, and are left out of prompts as templates do it. */
static bool is_taken(const char *key, const char *role)
{
    const bool thoughts = strcmp(key, "reasoning_content") == 0 || strcmp(key, "reasoning") == 0;
    return strcmp(key, "role") == 0 || strcmp(key, "content") == 0 || strcmp(key, "name") == 0 ||
           (strcmp(key, "tool_call_id") == 0 && strcmp(role, "tool") == 0) ||
           ((thoughts || strcmp(key, "tool_calls") == 0) && strcmp(role, "assistant") == 0);
}

/* Other keys must say nothing: clients send back what they got, with keys that are null. */
static const char *other_key(const json_t *message, const char *role)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)message, key, value)
    {
        const bool empty =
            json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
        if (!is_taken(key, role) && !empty) {
            return key;
        }
    }
    return NULL;
}

static base_status add_json(const json_t *message, const char *role, const char *content,
                            proto_request *request, base_error *reterr)
{
    char *text = NULL;
    base_status status = proto_chat_write(message, role, content, &text, reterr);
    if (status == BASE_OK) {
        status = proto_request_add_json(request, PROTO_CHAT_MESSAGE, text, reterr);
    }
    free(text);
    return status;
}

static base_status add_message(const json_t *message, proto_request *request, base_error *reterr)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    base_buffer text = {.data = NULL};
    base_status status = BASE_OK;
    if (role == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "it has no role");
    }
    const char *other = other_key(message, role);
    if (other != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "%.48s: this is not supported: leave it out",
                         other);
    }
    if (join_content(json_object_get(message, "content"), role, &text) != BASE_OK) {
        status =
            base_fail(reterr, BASE_ERR_INVALID, "its content must be a text, or a list of texts");
    } else if (text.failed) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for it");
    } else if (proto_chat_needs_json(message)) {
        status = add_json(message, role, text.data != NULL ? text.data : "", request, reterr);
    } else {
        /* OpenAI's newer name of it */
        role = strcmp(role, "developer") == 0 ? "system" : role;
        status = proto_request_add_message(request, role, text.data != NULL ? text.data : "",
                                           text.length_bytes, reterr);
    }
    base_buffer_fini(&text);
    return status;
}

static base_status add_messages(const char *key, const json_t *value, proto_request *request,
                                base_error *reterr)
{
    size_t index = 0;
    const json_t *message = NULL;
    if (json_array_size(value) == 0) { /* 0 also if it is not an array */
        return base_fail(reterr, BASE_ERR_INVALID, "%s: must be a list of messages", key);
    }
    json_array_foreach(value, index, message)
    {
        const base_status status = add_message(message, request, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s: message %zu", key, index);
        }
    }
    return BASE_OK;
}

/* Clients write the tokens as the keys of an object, as JSON has it. */
static base_status set_biases(const char *key, const json_t *value, proto_request *request,
                              base_error *reterr)
{
    const char *name = NULL;
    json_t *bias = NULL;
    if (!json_is_object(value) || json_object_size(value) > PROTO_LOGIT_BIASES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s: must be an object of at most %d tokens and biases", key,
                         PROTO_LOGIT_BIASES_MAX);
    }
    request->bias_count = 0;
    json_object_foreach((json_t *)(uintptr_t)value, name, bias)
    {
        char *end = NULL;
        const long token = name[0] >= '0' && name[0] <= '9' ? strtol(name, &end, 10) : -1;
        const bool twice = name[0] == '0' && name[1] != '\0'; /* as "7" and "07" */
        if (token < 0 || token >= PROTO_VOCAB_MAX || *end != '\0' || twice ||
            !json_is_number(bias) || fabs(json_number_value(bias)) > PROTO_LOGIT_BIAS_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "%s: \"%.16s\" must be the number of a token, with a bias of %g to %g",
                             key, name, -PROTO_LOGIT_BIAS_MAX, PROTO_LOGIT_BIAS_MAX);
        }
        request->bias_tokens[request->bias_count] = (int32_t)token;
        request->biases[request->bias_count++] = (float)json_number_value(bias);
    }
    return BASE_OK;
}

/* Where the member stands that is a number. False: the key is none of these. */
static bool find_number(const char *key, size_t *offset)
{
    static const struct {
        const char *key;
        size_t offset;
    } numbers[] = {
        {"temperature", offsetof(proto_request, temperature)},
        {"top_p", offsetof(proto_request, top_p)},
        {"min_p", offsetof(proto_request, min_p)},
        {"presence_penalty", offsetof(proto_request, presence_penalty)},
        {"frequency_penalty", offsetof(proto_request, frequency_penalty)},
        {"repetition_penalty", offsetof(proto_request, repetition_penalty)},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            *offset = numbers[i].offset;
            return true;
        }
    }
    return false;
}

/* What a chat template is given, as vLLM and SGLang take it. One switch is known here. */
static base_status set_switches(const char *key, const json_t *value, proto_request *request,
                                base_error *reterr)
{
    const json_t *thinking = json_object_get(value, "enable_thinking");
    if (!json_is_object(value) || json_object_size(value) != (thinking != NULL ? 1U : 0U) ||
        (thinking != NULL && !json_is_boolean(thinking))) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s: has enable_thinking, true or false, and nothing else", key);
    }
    request->no_thinking = thinking != NULL ? json_is_false(thinking) : request->no_thinking;
    return BASE_OK;
}

base_status launch_request_key(const char *key, const json_t *value, proto_request *request,
                               base_error *reterr)
{
    int64_t integer = 0;
    size_t offset = 0;
    base_status status = BASE_OK;
    if (strcmp(key, "prompt") == 0) {
        return json_string_length(value) > 0 /* 0 also if it is not a string */
                   ? launch_request_text(json_string_value(value), json_string_length(value),
                                         request, reterr)
                   : base_fail(reterr, BASE_ERR_INVALID, "no \"prompt\" with a text in it");
    }
    if (strcmp(key, "prompt_token_ids") == 0) {
        return launch_request_tokens(key, value, request, reterr);
    }
    if (strcmp(key, "messages") == 0) {
        return add_messages(key, value, request, reterr);
    }
    if (strcmp(key, "chat_template_kwargs") == 0) {
        return set_switches(key, value, request, reterr);
    }
    if (strcmp(key, "logit_bias") == 0) {
        return set_biases(key, value, request, reterr);
    }
    if (find_number(key, &offset)) {
        return set_number(key, value, (double *)(void *)((char *)request + offset), reterr);
    }
    if (strcmp(key, "max_new_tokens") == 0) {
        status = launch_request_integer(key, value, 1, PROTO_NEW_TOKENS_MAX, &integer, reterr);
        request->max_new_tokens = (int32_t)integer;
    } else if (strcmp(key, "top_k") == 0) {
        status = launch_request_integer(key, value, -1, PROTO_TOP_K_MAX, &integer, reterr);
        request->top_k = integer > 0 ? (int32_t)integer : 0; /* vLLM's -1: any token */
    } else if (strcmp(key, "seed") == 0) {
        status = launch_request_integer(key, value, 0, INT64_MAX, &integer, reterr);
        request->seed = (uint64_t)integer;
    } else if (strcmp(key, "logprobs") == 0) {
        status = launch_request_integer(key, value, 0, PROTO_LOGPROBS_MAX - 1, &integer, reterr);
        request->logprob_count = 1 + (int32_t)integer;
    } else if (strcmp(key, "ignore_eos") == 0) {
        request->ignore_eos = json_is_true(value);
        status = json_is_boolean(value)
                     ? BASE_OK
                     : base_fail(reterr, BASE_ERR_INVALID, "%s: must be true or false", key);
    } else if (strcmp(key, "stop_token_ids") == 0) {
        status = set_ids(key, value, request->stops, PROTO_STOP_TOKENS_MAX, reterr);
        request->stop_count = (int32_t)json_array_size(value);
    } else {
        const bool named_as_elsewhere =
            strcmp(key, "max_tokens") == 0 || strcmp(key, "max_completion_tokens") == 0;
        status = base_fail(reterr, BASE_ERR_INVALID, "a request has no \"%.64s\"%s", key,
                           named_as_elsewhere ? ": here it is \"max_new_tokens\"" : "");
    }
    return status;
}
