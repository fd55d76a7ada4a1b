/* Tools and calls of chats, as JSON. Called by launcher/serve for what is asked, and by rank/data for what is learned. */
#include "proto/chat_json.h"

#include <jansson.h>
#include <string.h>

#include "proto/request.h"

enum { TOOLS_MAX = 128, NAME_BYTES_MAX = 64 };

static const char ASSISTANT[] = "{\"role\":\"assistant\"";

const char *proto_chat_tool_name(const json_t *tool)
{
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static bool is_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const size_t bytes = name != NULL ? strlen(name) : 0;
    return bytes > 0 && bytes <= NAME_BYTES_MAX && strspn(name, letters) == bytes;
}

bool proto_chat_is_function(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    return type != NULL && strcmp(type, "function") == 0;
}

base_status proto_chat_check_tools(const json_t *list, base_error *reterr)
{
    size_t index = 0;
    const json_t *tool = NULL;
    if (!json_is_array(list) || json_array_size(list) > TOOLS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         PROTO_CHAT_TOOLS ": must be a list of at most %d", TOOLS_MAX);
    }
    json_array_foreach(list, index, tool)
    {
        const json_t *parameters = json_object_get(json_object_get(tool, "function"), "parameters");
        if (!proto_chat_is_function(tool) || !is_name(proto_chat_tool_name(tool)) ||
            (parameters != NULL && !json_is_null(parameters) && !json_is_object(parameters))) {
            return base_fail(
                reterr, BASE_ERR_INVALID,
                PROTO_CHAT_TOOLS
                ": entry %zu must be {\"type\": \"function\", \"function\": {\"name\": "
                "..., \"parameters\": {...}}}, and its name have 1 to %d letters, "
                "digits, _, - or .",
                index, NAME_BYTES_MAX);
        }
    }
    return BASE_OK;
}

/* What a message calls, a list if it is valid. NULL: nothing, which tables may have as a text. */
static const json_t *find_calls(const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    const char *text = json_string_value(calls);
    const bool empty = text != NULL ? text[0] == '\0' || strcmp(text, "[]") == 0
                                    : json_is_array(calls) && json_array_size(calls) == 0;
    return empty || json_is_null(calls) ? NULL : calls;
}

bool proto_chat_needs_json(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return (role != NULL && strcmp(role, "tool") == 0) || find_calls(message) != NULL;
}

bool proto_chat_is_answer(const char *role, const char *content)
{
    return strcmp(role, "assistant") == 0 ||
           (strcmp(role, PROTO_CHAT_MESSAGE) == 0 &&
            strncmp(content, ASSISTANT, sizeof ASSISTANT - 1) == 0);
}

json_t *proto_chat_arguments(const json_t *given)
{
    const char *text = json_string_value(given);
    if (given == NULL || json_is_null(given) || (text != NULL && text[0] == '\0')) {
        return json_object();
    }
    json_t *made = text != NULL ? json_loads(text, JSON_REJECT_DUPLICATES, NULL)
                                : json_incref((json_t *)(uintptr_t)given);
    if (!json_is_object(made)) {
        json_decref(made);
        return NULL;
    }
    return made;
}

/* A call as templates read it: its arguments are an object. NULL: it is no such thing. */
static json_t *read_call(const json_t *call)
{
    const json_t *function = json_object_get(call, "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *arguments = proto_chat_arguments(json_object_get(function, "arguments"));
    if (arguments == NULL || name == NULL || !proto_chat_is_function(call)) {
        json_decref(arguments);
        return NULL;
    }
    return json_pack("{s:s*, s:s, s:{s:s, s:o}}", "id",
                     json_string_value(json_object_get(call, "id")), "type", "function", "function",
                     "name", name, "arguments", arguments);
}

static base_status add_calls(const json_t *calls, json_t *made, base_error *reterr)
{
    size_t index = 0;
    const json_t *call = NULL;
    if (!json_is_array(calls)) {
        return base_fail(reterr, BASE_ERR_INVALID, "its tool_calls: must be a list");
    }
    json_t *list = json_array();
    json_array_foreach(calls, index, call)
    {
        json_t *one = read_call(call);
        if (one == NULL) {
            json_decref(list);
            return base_fail(
                reterr, BASE_ERR_INVALID,
                "its tool_calls: entry %zu must be {\"id\": ..., \"type\": "
                "\"function\", \"function\": {\"name\": ..., \"arguments\": ...}}, and "
                "the arguments an object in JSON",
                index);
        }
        (void)json_array_append_new(list, one);
    }
    const bool whole = json_array_size(list) == json_array_size(calls);
    return json_object_set_new(made, "tool_calls", list) == 0 && whole
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for its tool_calls");
}

base_status proto_chat_write(const json_t *message, const char *role, const char *content,
                             char **text, base_error *reterr)
{
    const json_t *calls = find_calls(message);
    json_t *made = json_pack("{s:s, s:s, s:s*, s:s*}", "role", role, "content", content, "name",
                             json_string_value(json_object_get(message, "name")), "tool_call_id",
                             json_string_value(json_object_get(message, "tool_call_id")));
    base_status status = calls != NULL ? add_calls(calls, made, reterr) : BASE_OK;
    *text = status == BASE_OK ? json_dumps(made, JSON_COMPACT) : NULL;
    if (status == BASE_OK && *text == NULL) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for it");
    }
    json_decref(made);
    return status;
}
