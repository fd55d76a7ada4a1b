/* Reads one JSON line of a data file, in place where it is plain and by jansson otherwise. Called
 * by data.c and by pairs.c. */
#include "record.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "messages.h"
#include "proto/request.h"
#include "rank/data.h"

enum { MEMBERS_MAX = 8, CONTROL_MAX = 0x1f };

static const char ARROW[] = RANK_DATA_ARROW " ";

rank_record_kind rank_record_kind_of(const rank_record *record)
{
    return record->messages.data != NULL ? RANK_RECORD_CHAT
           : record->prompt.data != NULL ? RANK_RECORD_PROMPT
           : record->wrong.data != NULL  ? RANK_RECORD_PAIR
                                         : RANK_RECORD_TEXT;
}

size_t rank_record_asked_bytes(const rank_record *record)
{
    return record->wrong.data != NULL ? record->wrong.bytes + strlen(RANK_DATA_ARROW)
                                      : record->prompt.bytes;
}

/* The content of the message at *at, which goes on to the next; "": what is there is no message, but tools. */
static const char *next_content(const char **at)
{
    const bool tools = strcmp(*at, PROTO_CHAT_TOOLS) == 0;
    const char *content = *at + strlen(*at) + 1;
    *at = content + strlen(content) + 1;
    return tools ? *at - 1 : content;
}

static size_t contents_bytes(const rank_record *record)
{
    const char *at = record->messages.data;
    size_t bytes = 0;
    for (uint32_t i = 0; i < record->message_count; i++) {
        bytes += strlen(next_content(&at)) + 1;
    }
    return bytes;
}

static char *put_contents(char *text, const rank_record *record)
{
    const char *at = record->messages.data;
    for (uint32_t i = 0; i < record->message_count; i++) {
        const char *content = next_content(&at);
        memcpy(text, content, strlen(content));
        text += strlen(content);
        *text++ = '\n';
    }
    return text;
}

size_t rank_record_text_bytes(const rank_record *record)
{
    switch (rank_record_kind_of(record)) {
    case RANK_RECORD_CHAT:
        return contents_bytes(record);
    case RANK_RECORD_PROMPT:
        return record->prompt.bytes + record->completion.bytes;
    case RANK_RECORD_PAIR:
        return record->wrong.bytes + sizeof ARROW - 1 + record->right.bytes;
    case RANK_RECORD_TEXT:
        break;
    }
    return record->text.bytes;
}

static char *put_string(char *at, const rank_record_string *string)
{
    memcpy(at, string->data, string->bytes);
    return at + string->bytes;
}

void rank_record_text(const rank_record *record, char *text)
{
    char *at = text;
    switch (rank_record_kind_of(record)) {
    case RANK_RECORD_CHAT:
        at = put_contents(text, record);
        break;
    case RANK_RECORD_PROMPT:
        at = put_string(put_string(at, &record->prompt), &record->completion);
        break;
    case RANK_RECORD_PAIR:
        at = put_string(at, &record->wrong);
        memcpy(at, ARROW, sizeof ARROW - 1);
        at = put_string(at + sizeof ARROW - 1, &record->right);
        break;
    case RANK_RECORD_TEXT:
        at = put_string(at, &record->text);
        break;
    }
    *at = '\0';
}

/* ---- members ---- */

typedef struct record_member {
    const char *name;
    size_t offset; /* of its string in a record */
} record_member;

static const record_member members[] = {
    {"text", offsetof(rank_record, text)},
    {"wrong", offsetof(rank_record, wrong)},
    {"right", offsetof(rank_record, right)},
    {"prompt", offsetof(rank_record, prompt)},
    {"completion", offsetof(rank_record, completion)},
};

enum { MEMBERS = sizeof members / sizeof members[0], TEXT_MEMBERS = 3 };

static rank_record_string *string_of(rank_record *record, const record_member *member)
{
    return (rank_record_string *)(void *)((char *)record + member->offset);
}

static bool is_named(const rank_record_string *name, const char *text)
{
    return strlen(text) == name->bytes && memcmp(text, name->data, name->bytes) == 0;
}

static rank_record_string *find_member(rank_record *record, const rank_record_string *name)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        if (is_named(name, members[i].name)) {
            return string_of(record, &members[i]);
        }
    }
    return NULL;
}

static const rank_record_string none = {NULL, 0};

/* Rows of Alpaca's kind. How a model is asked them is not said in them. */
static bool has_instruction(const json_t *root)
{
    return json_is_string(json_object_get(root, "instruction")) &&
           json_is_string(json_object_get(root, "output"));
}

/* Checks a line that has neither messages nor a text. */
static base_status check_prompt(const rank_record *record, base_error *reterr)
{
    if (record->prompt.data == NULL && record->completion.data == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "no \"text\" (nor \"messages\", nor \"prompt\" and \"completion\")");
    }
    if (record->prompt.data == NULL || record->completion.data == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"prompt\" and \"completion\" go together");
    }
    return record->completion.bytes > 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "\"completion\" is empty");
}

/* The first bytes of a file, where the text is all of that. */
static void skip_mark(rank_record_string *text)
{
    const size_t mark_bytes = base_utf8_mark(text->data, text->bytes);
    if (mark_bytes > 0) {
        *text = (rank_record_string){text->data + mark_bytes, text->bytes - mark_bytes};
    }
}

/* Checks the members of a line, for both parsers, and forgets those that are not read. */
static base_status check(rank_record *record, base_error *reterr)
{
    skip_mark(&record->text);
    skip_mark(&record->wrong);
    skip_mark(&record->prompt);
    const rank_record_string *text = &record->text;
    const rank_record_string *wrong = &record->wrong;
    const rank_record_string *right = &record->right;
    if ((wrong->data == NULL) != (right->data == NULL)) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"wrong\" and \"right\" go together");
    }
    if (text->data == NULL && wrong->data == NULL) {
        return check_prompt(record, reterr);
    }
    record->prompt = none;
    record->completion = none;
    if (text->data == NULL) {
        return BASE_OK;
    }
    if (text->bytes == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"text\" is empty");
    }
    if (wrong->data != NULL &&
        (text->bytes != wrong->bytes + sizeof ARROW - 1 + right->bytes ||
         memcmp(text->data, wrong->data, wrong->bytes) != 0 ||
         memcmp(text->data + wrong->bytes, ARROW, sizeof ARROW - 1) != 0 ||
         memcmp(text->data + text->bytes - right->bytes, right->data, right->bytes) != 0)) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"text\" is not \"wrong%sright\"", ARROW);
    }
    return BASE_OK;
}

/* ---- plain lines ---- */

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) {
        at++;
    }
    return at;
}

/* Whether none of eight bytes ends a plain string: no quote, no backslash, no control character.
 * Each term has, after xor, the high bit of the lowest byte that is zero (or small). */
static bool eight_plain_bytes(const char *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t high = 0x80 * ones;
    uint64_t eight = 0;
    memcpy(&eight, at, sizeof eight);
    const uint64_t quote = eight ^ '"' * ones;
    const uint64_t backslash = eight ^ '\\' * ones;
    const uint64_t found = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
                           ((eight - (CONTROL_MAX + 1) * ones) & ~eight);
    return (found & high) == 0;
}

/* A string without escapes; NULL if it is anything else. Returns what follows its closing quote. */
static const char *plain_string(const char *at, const char *end, rank_record_string *string)
{
    if (at == end || *at != '"') {
        return NULL;
    }
    const char *start = ++at;
    while (end - at >= 8 && eight_plain_bytes(at)) {
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (uint8_t)*at > CONTROL_MAX) {
        at++;
    }
    if (at == end || *at != '"') {
        return NULL;
    }
    *string = (rank_record_string){start, (size_t)(at - start)};
    return at + 1;
}

/* One "name": "value". NULL if it is anything else, or if the name has occurred before. */
static const char *plain_member(const char *at, const char *end, rank_record_string *names,
                                size_t name_count, rank_record *record)
{
    rank_record_string value = {NULL, 0};
    rank_record_string *name = &names[name_count];
    at = plain_string(skip_spaces(at, end), end, name);
    if (at == NULL || is_named(name, "messages") || is_named(name, "conversations")) {
        return NULL;
    }
    at = skip_spaces(at, end);
    if (at == end || *at != ':') {
        return NULL;
    }
    at = plain_string(skip_spaces(at + 1, end), end, &value);
    for (size_t i = 0; i < name_count; i++) {
        if (names[i].bytes == name->bytes && memcmp(names[i].data, name->data, name->bytes) == 0) {
            return NULL;
        }
    }
    rank_record_string *to = find_member(record, name);
    if (to != NULL) {
        *to = value;
    }
    return at;
}

bool rank_record_read_quick(const char *line, size_t line_bytes, rank_record *record)
{
    const char *end = line + line_bytes;
    rank_record_string names[MEMBERS_MAX];
    memset(record, 0, sizeof *record);
    const char *at = skip_spaces(line, end);
    if (at == end || *at != '{') {
        return false;
    }
    for (size_t count = 0; count < MEMBERS_MAX; count++) {
        at = plain_member(at + 1, end, names, count, record);
        if (at == NULL) {
            return false;
        }
        at = skip_spaces(at, end);
        if (at == end || (*at != ',' && *at != '}')) {
            return false;
        }
        if (*at == '}') {
            return skip_spaces(at + 1, end) == end && base_utf8_valid(line, line_bytes) &&
                   check(record, NULL) == BASE_OK;
        }
    }
    return false;
}

/* ---- other lines ---- */

/* One that is null is none: tables that were joined have such. */
static const json_t *get_member(const json_t *root, const char *name)
{
    const json_t *value = json_object_get(root, name);
    return json_is_null(value) ? NULL : value;
}

static bool has_text(const rank_record *record)
{
    return record->text.data != NULL || record->wrong.data != NULL || record->right.data != NULL;
}

static base_status read_strings(const json_t *root, rank_record *record, base_error *reterr)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        const json_t *value = get_member(root, members[i].name);
        if (i == TEXT_MEMBERS && has_text(record)) {
            break; /* others are not read */
        }
        if (value != NULL && !json_is_string(value)) {
            return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is not a string", members[i].name);
        }
        if (value != NULL) {
            *string_of(record, &members[i]) =
                (rank_record_string){json_string_value(value), json_string_length(value)};
        }
    }
    if (!has_text(record) && record->prompt.data == NULL && record->completion.data == NULL &&
        has_instruction(root)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "\"instruction\" and \"output\" are not read: make them \"prompt\" and "
                         "\"completion\", or \"messages\"");
    }
    return check(record, reterr);
}

base_status rank_record_read_slow(const char *line, size_t line_bytes, rank_record *record,
                                  base_error *reterr)
{
    json_error_t json_error;
    const char *first = skip_spaces(line, line + line_bytes);
    memset(record, 0, sizeof *record);
    if (first == line + line_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID, "the line is empty");
    }
    if (*first == '[') { /* it may end on another line: then no part of it is JSON */
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a list begins here, and each line is one object: jq -c '.[]' writes a "
                         "list's objects so");
    }
    if (!base_utf8_valid(line, line_bytes)) {
        return base_fail(reterr, BASE_ERR_INVALID, "not UTF-8");
    }
    /* a member that nobody reads may be an integer beyond 64 bits */
    json_t *root =
        json_loadb(line, line_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &json_error);
    if (root == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "not JSON: column %d: %s", json_error.column,
                         json_error.text);
    }
    record->owner = root; /* an object: jansson reads no other value but a list */
    return rank_messages_find(root) != NULL ? rank_messages_read(root, record, reterr)
                                            : read_strings(root, record, reterr);
}

base_status rank_record_read(const char *line, size_t line_bytes, rank_record *record,
                             base_error *reterr)
{
    if (rank_record_read_quick(line, line_bytes, record)) {
        return BASE_OK;
    }
    return rank_record_read_slow(line, line_bytes, record, reterr);
}

void rank_record_clear(rank_record *record)
{
    json_decref(record->owner);
    free((void *)(uintptr_t)record->messages.data);
    memset(record, 0, sizeof *record);
}
