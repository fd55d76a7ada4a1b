/* Reads the messages of a chat to learn from. Called by record.c. What no template writes is refused: a model would
 * learn answers to what it has not seen. */
#include "messages.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "chat.h"
#include "proto/chat_json.h"
#include "proto/request.h"

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

static void put_text(const json_t *text, FILE *out)
{
    const char *at = json_string_value(text);
    (void)fputs(at + base_utf8_mark(at, json_string_length(text)), out);
}

/* Writes a text, or a list of parts of one. An assistant that calls tools need not say anything. False: it is neither. */
static bool put_content(const json_t *content, bool may_lack, FILE *out)
{
    size_t index = 0;
    const json_t *part = NULL;
    if (json_is_string(content)) {
        put_text(content, out);
        return true;
    }
    json_array_foreach(content, index, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(text)) {
            return false;
        }
        put_text(text, out);
    }
    return json_array_size(content) > 0 || (may_lack && content == NULL);
}

static bool is_empty(const json_t *value)
{
    const char *text = json_string_value(value);
    return value == NULL || (text != NULL && (text[0] == '\0' || strcmp(text, "[]") == 0)) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* The older form of tools, which no template writes. */
static base_status refuse_functions(const json_t *object, base_error *reterr)
{
    static const char *const names[] = {"functions", "function_call"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!is_empty(get(object, names[i], NULL))) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "\"%s\": the older form of tools and tool_calls: make it these",
                             names[i]);
        }
    }
    return BASE_OK;
}

static base_status check_message(const json_t *message, base_error *reterr)
{
    const char *given = json_string_value(get(message, "role", "from"));
    const json_t *weight = get(message, "weight", NULL);
    const double value = json_number_value(weight);
    char short_role[ROLE_BYTES];
    if (role_of(message) == NULL) {
        base_utf8_copy(short_role, sizeof short_role, given != NULL ? given : "");
        return base_fail(reterr, BASE_ERR_INVALID,
                         "its role must be system, user, assistant or tool%s%s",
                         given != NULL ? ", and is " : "", short_role);
    }
    if (weight != NULL && (!json_is_number(weight) || (value != 0.0 && value != 1.0))) {
        return base_fail(reterr, BASE_ERR_INVALID, "its weight is not 0 or 1");
    }
    return refuse_functions(message, reterr);
}

/* Writes a message as chat.h has it: a role and a content. */
static base_status put_message(const json_t *message, FILE *out, base_error *reterr)
{
    char *content = NULL;
    size_t bytes = 0;
    char *json = NULL;
    base_status status = check_message(message, reterr);
    FILE *text = status == BASE_OK ? open_memstream(&content, &bytes) : NULL;
    if (text == NULL) {
        return status == BASE_OK ? base_fail(reterr, BASE_ERR_MEMORY, "no memory for it") : status;
    }
    const bool calls = proto_chat_needs_json(message);
    const bool taken = put_content(get(message, "content", "value"), calls, text);
    if (fclose(text) != 0) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for it");
    } else if (!taken) {
        status =
            base_fail(reterr, BASE_ERR_INVALID, "its content is not a string, nor a list of texts");
    } else if (calls) {
        status = proto_chat_write(message, role_of(message), content, &json, reterr);
    }
    if (status == BASE_OK) {
        (void)fprintf(out, "%s%c%s%c", calls ? PROTO_CHAT_MESSAGE : role_of(message), '\0',
                      calls ? json : content, '\0');
    }
    free(json);
    free(content);
    return status;
}

static const char *name_of_list(const json_t *root)
{
    return get(root, "messages", NULL) != NULL ? "messages" : "conversations";
}

/* Some sets have the system's message beside the others. */
static base_status check_beside(const json_t *root, base_error *reterr)
{
    return is_empty(get(root, "system", NULL))
               ? refuse_functions(root, reterr)
               : base_fail(reterr, BASE_ERR_INVALID,
                           "\"system\" beside \"%s\": make it their first message, the system's",
                           name_of_list(root));
}

/* Writes the tools, which may be a list, or that as a text. Counts them as one message. */
static base_status put_tools(const json_t *root, FILE *out, uint32_t *count, base_error *reterr)
{
    const json_t *given = get(root, "tools", NULL);
    json_t *list = json_is_string(given) && !is_empty(given)
                       ? json_loads(json_string_value(given), JSON_REJECT_DUPLICATES, NULL)
                       : json_incref((json_t *)(uintptr_t)given);
    base_status status = is_empty(given) ? BASE_OK : proto_chat_check_tools(list, reterr);
    if (status == BASE_OK && !is_empty(given)) {
        char *text = json_dumps(list, JSON_COMPACT);
        (void)fprintf(out, "%s%c%s%c", PROTO_CHAT_TOOLS, '\0', text != NULL ? text : "", '\0');
        (*count)++;
        free(text);
    }
    json_decref(list);
    return status;
}

static base_status put_all(const json_t *root, FILE *out, uint32_t *count, base_error *reterr)
{
    size_t index = 0;
    const json_t *message = NULL;
    base_status status = put_tools(root, out, count, reterr);
    const uint32_t before = *count;
    json_array_foreach(rank_messages_find(root), index, message)
    {
        if (status == BASE_OK) {
            status = put_message(message, out, reterr);
            status = status == BASE_OK
                         ? BASE_OK
                         : base_error_prepend(reterr, status, "message %zu", index + 1);
            (*count)++;
        }
    }
    for (uint32_t i = 0; i < before; i++) { /* nothing of them is learned */
        (void)fputc(1, out);
    }
    json_array_foreach(rank_messages_find(root), index, message)
    {
        const json_t *weight = get(message, "weight", NULL);
        (void)fputc(weight != NULL && json_number_value(weight) == 0.0, out);
    }
    return status;
}

base_status rank_messages_read(const json_t *root, rank_record *record, base_error *reterr)
{
    char *at = NULL;
    size_t bytes = 0;
    uint32_t count = 0;
    if (json_array_size(rank_messages_find(root)) == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is not an array of messages",
                         name_of_list(root));
    }
    base_status status = check_beside(root, reterr);
    FILE *out = status == BASE_OK ? open_memstream(&at, &bytes) : NULL;
    if (out == NULL) {
        return status == BASE_OK ? base_fail(reterr, BASE_ERR_MEMORY, "no memory for a chat")
                                 : status;
    }
    status = put_all(root, out, &count, reterr);
    if (fclose(out) != 0 && status == BASE_OK) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for a chat");
    }
    if (status != BASE_OK) {
        free(at);
        return status;
    }
    record->messages = (rank_record_string){at, bytes - count};
    record->message_count = count;
    record->passed_over = (const uint8_t *)(at + bytes - count);
    return BASE_OK;
}
