/* Reads tools, and finds calls of them. Called by completion_body.c, completion.c and stream.c. */
#include "serve/tools.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/chat_json.h"

enum {
    CALLS_MAX = 64, /* in one answer */
    ID_BYTES = 24,
    REFERENCE_BYTES = 256,
    DIGITS = 15,    /* as most numbers are written; */
    DIGITS_MAX = 17 /* and that are enough for all */
};

static const char MARK[] = "<tool_call>";
static const char MARK_END[] = "</tool_call>";

/* ---- what a request says ---- */

static const json_t *find_tool(const json_t *list, const char *name)
{
    size_t index = 0;
    const json_t *tool = NULL;
    json_array_foreach(list, index, tool)
    {
        if (strcmp(proto_chat_tool_name(tool), name) == 0) {
            return tool;
        }
    }
    return NULL;
}

/* Puts the place of a tool's parameters in front of each $ref: they name parts of these. */
static void move_references(json_t *schema, const char *place)
{
    char moved[REFERENCE_BYTES];
    const char *key = NULL;
    json_t *member = NULL;
    void *next = NULL;
    size_t index = 0;
    json_array_foreach(schema, index, member)
    {
        move_references(member, place);
    }
    json_object_foreach_safe(schema, next, key, member)
    {
        const char *path = strcmp(key, "$ref") == 0 ? json_string_value(member) : NULL;
        if (path == NULL) {
            move_references(member, place);
        } else if (path[0] == '#') { /* else it is refused as it is; so is what is cut here */
            (void)snprintf(moved, sizeof moved, "#%s%s", place, path + 1);
            (void)json_string_set(member, moved);
        }
    }
}

/* The schema of a call of one of the tools. */
static json_t *make_schema(const json_t *list)
{
    json_t *calls = json_array();
    json_t *parts = json_object();
    size_t index = 0;
    const json_t *tool = NULL;
    json_array_foreach(list, index, tool)
    {
        char part[ID_BYTES];
        char place[ID_BYTES + 8];
        const json_t *given = json_object_get(json_object_get(tool, "function"), "parameters");
        json_t *parameters = given != NULL && json_object_size(given) > 0
                                 ? json_deep_copy(given)
                                 : json_pack("{s:s, s:{}, s:b}", "type", "object", "properties",
                                             "additionalProperties", 0);
        (void)snprintf(part, sizeof part, "%zu", index);
        (void)snprintf(place, sizeof place, "/$defs/%s", part);
        move_references(parameters, place);
        (void)json_object_set_new(parts, part, parameters);
        (void)json_array_append_new(
            calls,
            json_pack("{s:s, s:{s:{s:s}, s:{s:s+}}, s:[s, s], s:b}", "type", "object", "properties",
                      "name", "const", proto_chat_tool_name(tool), "arguments", "$ref", "#", place,
                      "required", "name", "arguments", "additionalProperties", 0));
    }
    return json_pack("{s:o, s:o}", "anyOf", calls, "$defs", parts);
}

/* Which of them must be called, by the choice; in *may whether one may at all. NULL: none must. */
static base_status choose(json_t *list, const json_t *choice, bool *may, json_t **must,
                          base_error *reterr)
{
    const char *word = json_string_value(choice);
    const char *name = proto_chat_is_function(choice) ? proto_chat_tool_name(choice) : NULL;
    *may = word == NULL || strcmp(word, "none") != 0;
    *must = NULL;
    if (choice == NULL || (word != NULL && (!*may || strcmp(word, "auto") == 0))) {
        return BASE_OK;
    }
    if (word != NULL && strcmp(word, "required") == 0 && json_array_size(list) > 0) {
        *must = json_incref(list);
        return BASE_OK;
    }
    const json_t *tool = name != NULL ? find_tool(list, name) : NULL;
    if (tool != NULL) {
        *must = json_pack("[O]", tool);
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     LAUNCH_TOOL_CHOICE_KEY
                     ": must be none, auto, required or {\"type\": \"function\", \"function\": "
                     "{\"name\": ...}}, and tools have what must be called");
}

base_status launch_tools_read(const json_t *list, const json_t *choice, launch_tools *tools,
                              const char **field, base_error *reterr)
{
    bool may = false;
    json_t *must = NULL;
    *field = LAUNCH_TOOLS_KEY;
    base_status status = list != NULL ? proto_chat_check_tools(list, reterr) : BASE_OK;
    if (status != BASE_OK) {
        return status;
    }
    *field = LAUNCH_TOOL_CHOICE_KEY;
    status = choose((json_t *)(uintptr_t)list, choice, &may, &must, reterr);
    if (status != BASE_OK) {
        return status;
    }
    tools->list = may && json_array_size(list) > 0 ? json_incref((json_t *)(uintptr_t)list) : NULL;
    tools->schema = must != NULL ? make_schema(must) : NULL;
    const bool made = must == NULL || tools->schema != NULL;
    json_decref(must);
    return made ? BASE_OK : base_fail(reterr, BASE_ERR_MEMORY, "no memory for tools");
}

void launch_tools_fini(launch_tools *tools)
{
    json_decref(tools->list);
    json_decref(tools->schema);
    *tools = (launch_tools){.list = NULL};
}

/* ---- answers ---- */

static size_t blanks(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && strchr(" \t\r\n", text[at]) != NULL) {
        at++;
    }
    return at;
}

/* Whether the text goes on with the word, which is then behind *at. */
static bool takes(const char *text, size_t bytes, size_t *at, const char *word)
{
    const size_t word_bytes = strlen(word);
    const bool there = bytes - *at >= word_bytes && memcmp(text + *at, word, word_bytes) == 0;
    *at += there ? word_bytes : 0;
    return there;
}

/* Whether a call begins at a byte, or it is still to come. */
static bool may_begin(const char *text, size_t bytes, size_t at)
{
    return at == bytes || text[at] == '{' || text[at] == '[';
}

/* Where calls begin, if there are any; bytes: there are none. A mark with words behind it is a word: models think of
 * calls, too. */
static size_t find_calls(const char *text, size_t bytes, bool worded)
{
    size_t at = blanks(text, bytes);
    if (!worded && at < bytes && may_begin(text, bytes, at)) {
        return at;
    }
    const char *mark = memmem(text, bytes, MARK, sizeof MARK - 1);
    while (mark != NULL) {
        at = (size_t)(mark - text) + sizeof MARK - 1;
        if (may_begin(text, bytes, at + blanks(text + at, bytes - at))) {
            return (size_t)(mark - text);
        }
        mark = memmem(text + at, bytes - at, MARK, sizeof MARK - 1);
    }
    return bytes;
}

size_t launch_tools_plain(const char *text, size_t bytes, bool worded)
{
    if (!worded && blanks(text, bytes) == bytes) {
        return 0;
    }
    const size_t begin = find_calls(text, bytes, worded);
    if (begin < bytes) {
        return !worded && begin == blanks(text, bytes) ? 0 : begin;
    }
    size_t held = bytes < sizeof MARK - 1 ? bytes : sizeof MARK - 2;
    while (memcmp(text + bytes - held, MARK, held) != 0) {
        held--;
    }
    return bytes - held;
}

/* Arguments as text, with numbers as short as they can be. NULL: they are no object, nor one as a text. */
static char *write_arguments(const json_t *arguments)
{
    json_t *made = proto_chat_arguments(arguments);
    char *text = NULL;
    bool exact = made == NULL;
    for (size_t digits = DIGITS; digits <= DIGITS_MAX && !exact; digits++) {
        free(text);
        text = json_dumps(made, JSON_COMPACT | JSON_REAL_PRECISION(digits));
        json_t *back = text != NULL ? json_loads(text, 0, NULL) : NULL;
        exact = json_equal(back, made);
        json_decref(back);
    }
    json_decref(made);
    return text;
}

/* Adds what a model has written, if it is a call of one of the tools. */
static bool add_call(const json_t *list, const json_t *written, uint64_t id, json_t *calls)
{
    char call_id[ID_BYTES];
    const char *name = json_string_value(json_object_get(written, "name"));
    const json_t *given = json_object_get(written, "arguments");
    const size_t count = json_array_size(calls);
    if (name == NULL || find_tool(list, name) == NULL || count == CALLS_MAX) {
        return false;
    }
    char *arguments =
        write_arguments(given != NULL ? given : json_object_get(written, "parameters"));
    /* nine digits: Mistral's templates want no other length */
    (void)snprintf(call_id, sizeof call_id, "%09" PRIu64, (id * CALLS_MAX + count) % 1000000000U);
    json_t *call = arguments != NULL
                       ? json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", call_id, "type", "function",
                                   "function", "name", name, "arguments", arguments)
                       : NULL;
    free(arguments);
    return call != NULL && json_array_append_new(calls, call) == 0;
}

/* Takes one call, or a list of them, from the text at *at. */
static bool take_calls(const json_t *list, const char *text, size_t bytes, size_t *at, uint64_t id,
                       json_t *calls)
{
    json_error_t end;
    size_t index = 0;
    const json_t *one = NULL;
    const bool marked = takes(text, bytes, at, MARK);
    json_t *written =
        json_loadb(text + *at, bytes - *at, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &end);
    bool taken = written != NULL && (!json_is_array(written) || json_array_size(written) > 0);
    if (json_is_object(written)) {
        taken = add_call(list, written, id, calls);
    }
    json_array_foreach(written, index, one)
    {
        taken = taken && add_call(list, one, id, calls);
    }
    *at += written != NULL ? (size_t)end.position : 0;
    json_decref(written);
    *at += blanks(text + *at, bytes - *at);
    return taken && (!marked || takes(text, bytes, at, MARK_END) || *at == bytes);
}

json_t *launch_tools_calls(const json_t *list, const char *text, size_t bytes, bool worded,
                           uint64_t id, size_t *content_bytes)
{
    size_t at = find_calls(text, bytes, worded);
    json_t *calls = json_array();
    bool taken = at < bytes;
    *content_bytes = at;
    while (taken && at < bytes) {
        taken = take_calls(list, text, bytes, &at, id, calls);
        at += taken ? blanks(text + at, bytes - at) : 0;
        if (taken && takes(text, bytes, &at, ";")) { /* between calls without marks */
            at += blanks(text + at, bytes - at);
        }
    }
    if (!taken) {
        json_decref(calls);
        return NULL;
    }
    while (*content_bytes > 0 && strchr(" \t\r\n", text[*content_bytes - 1]) != NULL) {
        (*content_bytes)--;
    }
    return calls;
}
