/* Makes the JSON that the server sends. Called by routes.c and stream.c. */
#include "serve/reply.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "proto/envelope.h"
#include "proto/request.h"

enum { ID_BYTES = 48 };

static char *dump(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(object);
    return text;
}

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

/* What clients of OpenAI look at to know it from others; NULL: there is none. */
static const char *code_of(int status, const char *field, const char *message)
{
    const bool is_long = strncmp(message, PROTO_LONG_PROMPT, sizeof PROTO_LONG_PROMPT - 1) == 0;
    switch (status) {
    case 400:
        return is_long ? "context_length_exceeded" : NULL;
    case 401:
        return "invalid_api_key";
    case 404:
        return field != NULL && strcmp(field, "model") == 0 ? "model_not_found" : NULL;
    default:
        return NULL;
    }
}

char *launch_reply_error(int status, const char *field, const char *message)
{
    char
        tamed[BASE_ERROR_MESSAGE_BYTES]; /* it may quote what came, and be cut within a character */
    char param[BASE_ERROR_MESSAGE_BYTES];
    (void)snprintf(tamed, sizeof tamed, "%s", message);
    (void)snprintf(param, sizeof param, "%s", field != NULL ? field : "");
    proto_text_tame(tamed);
    proto_text_tame(param);
    return dump(json_pack("{s:{s:s, s:s, s:o, s:s?}}", "error", "message", tamed, "type",
                          type_of(status), "param",
                          param[0] != '\0' ? json_string(param) : json_null(), "code",
                          code_of(status, field, message)));
}

static json_t *begin(const launch_reply_head *head, bool piece)
{
    char id[ID_BYTES];
    const char *object = !head->chat ? "text_completion"
                         : piece     ? "chat.completion.chunk"
                                     : "chat.completion";
    (void)snprintf(id, sizeof id, "%s-%" PRIu64, head->chat ? "chatcmpl" : "cmpl", head->id);
    return json_pack("{s:s, s:s, s:I, s:s}", "id", id, "object", object, "created",
                     (json_int_t)head->created_s, "model", head->model);
}

/* Adds a choice to the list: what follows is a "text", a "message" or a "delta". */
static void add_choice(const launch_reply_head *head, bool piece, const launch_reply_choice *choice,
                       json_t *value, json_t *list)
{
    launch_logprobs *logprobs = choice->logprobs;
    const bool wanted = logprobs != NULL && logprobs->each > 0;
    (void)json_array_append_new(
        list, json_pack("{s:i, s:o, s:o, s:s?}", "index", choice->index,
                        !head->chat ? "text"
                        : piece     ? "delta"
                                    : "message",
                        value, "logprobs",
                        wanted ? launch_logprobs_take(logprobs, head->chat) : json_null(),
                        "finish_reason", choice->finish_reason));
}

static json_t *describe_usage(const launch_usage *usage)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)usage->prompt_tokens,
                     "completion_tokens", (json_int_t)usage->completion_tokens, "total_tokens",
                     (json_int_t)usage->prompt_tokens + (json_int_t)usage->completion_tokens,
                     "prompt_tokens_details", "cached_tokens", (json_int_t)usage->cached_tokens);
}

char *launch_reply_completion(const launch_reply_head *head, const launch_reply_choice *choices,
                              int count, const launch_usage *usage)
{
    json_t *object = begin(head, false);
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *value = head->chat ? json_pack("{s:s, s:s?, s:o*}", "role", "assistant", "content",
                                               choices[i].text, "tool_calls", choices[i].calls)
                                   : json_string(choices[i].text);
        add_choice(head, false, &choices[i], value, list);
    }
    (void)json_object_set_new(object, "choices", list);
    (void)json_object_set_new(object, "usage", describe_usage(usage));
    return dump(object);
}

static char *dump_piece(const launch_reply_head *head, const launch_reply_choice *choice,
                        json_t *value)
{
    json_t *object = begin(head, true);
    json_t *list = json_array();
    add_choice(head, true, choice, value, list);
    (void)json_object_set_new(object, "choices", list);
    return dump(object);
}

char *launch_reply_role(const launch_reply_head *head, int index)
{
    return dump_piece(head, &(launch_reply_choice){.index = index},
                      json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
}

char *launch_reply_chunk(const launch_reply_head *head, const launch_reply_choice *choice)
{
    json_t *value = !head->chat               ? json_string(choice->text)
                    : choice->text[0] != '\0' ? json_pack("{s:s}", "content", choice->text)
                                              : json_object();
    return dump_piece(head, choice, value);
}

char *launch_reply_calls(const launch_reply_head *head, const launch_reply_choice *choice)
{
    size_t index = 0;
    json_t *call = NULL;
    json_array_foreach(choice->calls, index, call)
    {
        (void)json_object_set_new(call, "index", json_integer((json_int_t)index));
    }
    return dump_piece(head, choice, json_pack("{s:o}", "tool_calls", choice->calls));
}

char *launch_reply_usage(const launch_reply_head *head, const launch_usage *usage)
{
    json_t *object = begin(head, true);
    (void)json_object_set_new(object, "choices", json_array());
    (void)json_object_set_new(object, "usage", describe_usage(usage));
    return dump(object);
}

/* As vLLM lists adapters. */
static json_t *model_object(const char *model, const char *base, int64_t created_s)
{
    const bool adapted = base[0] != '\0';
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s?}", "id", model, "object", "model", "created",
                     (json_int_t)created_s, "owned_by", "ringfence", "root", adapted ? base : model,
                     "parent", adapted ? base : NULL);
}

char *launch_reply_model(const char *model, const char *base, int64_t created_s)
{
    return dump(model_object(model, base, created_s));
}

char *launch_reply_models(const char *model, const char *base, int64_t created_s)
{
    return dump(
        json_pack("{s:s, s:[o]}", "object", "list", "data", model_object(model, base, created_s)));
}

char *launch_reply_health(const char *status)
{
    return dump(json_pack("{s:s}", "status", status));
}
