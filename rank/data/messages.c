/* Reads the messages of a chat to learn from. Called by record.c. What no template that is known writes, as tools, is
 * refused: a model would learn answers to what it has not seen. */
#include "messages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "chat.h"

enum { ROLE_BYTES = 33 /* of one in a message */ };

/* One that is null is none: tables that were joined have such. */
static const json_t *get(const json_t *object, const char *name, const char *other)
{
    const json_t *value = json_object_get(object, name);
    value = json_is_null(value) ? NULL : value;
    return value == NULL && other != NULL ? get(object, other, NULL) : value;
}

const json_t *rank_messages_find(const json_t *root)
{
    return get(root, "messages", "conversations");
}

/* By the names that others have for it. NULL: no message has this role. */
static const char *role_of(const json_t *message)
{
    static const char *const others[][2] = {
        {"developer", "system"}, {"human", "user"}, {"gpt", "assistant"}};
    const char *role = json_string_value(get(message, "role", "from"));
    for (size_t i = 0; role != NULL && i < sizeof others / sizeof others[0]; i++) {
        role = strcmp(role, others[i][0]) == 0 ? others[i][1] : role;
    }
    return role != NULL && rank_chat_is_role(role) ? role : NULL;
}

/* A text, or a list of parts of one. *at, if it is not NULL: where it is put, and then behind it. Returns the bytes,
 * with a NUL; 0: it is neither. */
static size_t take_content(const json_t *content, char **at)
{
    size_t index = 0;
    size_t bytes = 0;
    const json_t *part = NULL;
    const bool is_list = json_array_size(content) > 0;
    if (!is_list && !json_is_string(content)) {
        return 0;
    }
    for (; index < (is_list ? json_array_size(content) : 1); index++) {
        part = is_list ? json_array_get(content, index) : content;
        const char *type = is_list ? json_string_value(json_object_get(part, "type")) : "text";
        const json_t *text = is_list ? json_object_get(part, "text") : content;
        if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(text)) {
            return 0;
        }
        bytes += json_string_length(text);
        if (*at != NULL) {
            *at = mempcpy(*at, json_string_value(text), json_string_length(text));
        }
    }
    if (*at != NULL) {
        *(*at)++ = '\0';
    }
    return bytes + 1;
}

static bool is_empty(const json_t *value)
{
    const char *text = json_string_value(value);
    return value == NULL || (text != NULL && (text[0] == '\0' || strcmp(text, "[]") == 0)) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Fields that call a tool, or say which there are, unless they are empty. NULL: there is none. */
static const char *find_tools(const json_t *object)
{
    static const char *const names[] = {"tools", "functions", "tool_calls", "function_call"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!is_empty(get(object, names[i], NULL))) {
            return names[i];
        }
    }
    return NULL;
}

static base_status refuse_tools(const json_t *object, base_error *reterr)
{
    const char *name = find_tools(object);
    return name == NULL ? BASE_OK
                        : base_fail(reterr, BASE_ERR_INVALID,
                                    "\"%s\": tools are not known here: leave the line out", name);
}

/* Checks a message. Returns the bytes of its role and content, with their NULs. */
static base_status check_message(const json_t *message, size_t *bytes, base_error *reterr)
{
    const char *role = role_of(message);
    const char *given = json_string_value(get(message, "role", "from"));
    const json_t *weight = get(message, "weight", NULL);
    const double value = json_number_value(weight);
    char short_role[ROLE_BYTES];
    char *nowhere = NULL;
    const size_t content_bytes = take_content(get(message, "content", "value"), &nowhere);
    if (role == NULL) {
        base_utf8_copy(short_role, sizeof short_role, given != NULL ? given : "");
        return base_fail(reterr, BASE_ERR_INVALID, "its role must be system, user or assistant%s%s",
                         given != NULL ? ", and is " : "", short_role);
    }
    if (weight != NULL && (!json_is_number(weight) || (value != 0.0 && value != 1.0))) {
        return base_fail(reterr, BASE_ERR_INVALID, "its weight is not 0 or 1");
    }
    const base_status status = refuse_tools(message, reterr);
    if (status != BASE_OK) {
        return status;
    }
    *bytes = strlen(role) + 1 + content_bytes;
    return content_bytes > 0 ? BASE_OK
                             : base_fail(reterr, BASE_ERR_INVALID,
                                         "its content is not a string, nor a list of texts");
}

static const char *name_of_list(const json_t *root)
{
    return get(root, "messages", NULL) != NULL ? "messages" : "conversations";
}

/* Some sets have the system's message beside the others. */
static base_status check_beside(const json_t *root, base_error *reterr)
{
    return is_empty(get(root, "system", NULL))
               ? refuse_tools(root, reterr)
               : base_fail(reterr, BASE_ERR_INVALID,
                           "\"system\" beside \"%s\": make it their first message, the system's",
                           name_of_list(root));
}

static base_status check_all(const json_t *messages, size_t *bytes, base_error *reterr)
{
    size_t index = 0;
    const json_t *message = NULL;
    *bytes = 0;
    json_array_foreach(messages, index, message)
    {
        size_t own = 0;
        const base_status status = check_message(message, &own, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "message %zu", index + 1);
        }
        *bytes += own;
    }
    return BASE_OK;
}

base_status rank_messages_read(const json_t *root, rank_record *record, base_error *reterr)
{
    const json_t *messages = rank_messages_find(root);
    const size_t count = json_array_size(messages);
    size_t index = 0;
    size_t bytes = 0;
    const json_t *message = NULL;
    if (count == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is not an array of messages",
                         name_of_list(root));
    }
    base_status status = check_beside(root, reterr);
    status = status == BASE_OK ? check_all(messages, &bytes, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    char *at = malloc(bytes + count);
    if (at == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a chat");
    }
    record->messages = (rank_record_string){at, bytes};
    record->message_count = (uint32_t)count;
    record->passed_over = (const uint8_t *)(at + bytes);
    uint8_t *passed_over = (uint8_t *)(at + bytes);
    json_array_foreach(messages, index, message)
    {
        const char *role = role_of(message);
        const json_t *weight = get(message, "weight", NULL);
        at = mempcpy(at, role, strlen(role) + 1);
        (void)take_content(get(message, "content", "value"), &at);
        passed_over[index] = weight != NULL && json_number_value(weight) == 0.0;
    }
    return BASE_OK;
}
