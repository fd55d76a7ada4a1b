/* Reads one JSON line of a data file, in place where it is plain and by jansson otherwise. Called
 * by data.c and by pairs.c. */
#include "record.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "rank/data.h"

enum { MEMBERS_MAX = 8, CONTROL_MAX = 0x1f };

static const char ARROW[] = RANK_DATA_ARROW " ";

size_t rank_record_arrow_end(const char *text, size_t text_bytes)
{
    const char *arrow = memmem(text, text_bytes, ARROW, sizeof ARROW - 1);
    return arrow == NULL ? 0 : (size_t)(arrow - text) + sizeof ARROW - 2;
}

size_t rank_record_text_bytes(const rank_record *record)
{
    return record->text.data != NULL ? record->text.bytes
                                     : record->wrong.bytes + sizeof ARROW - 1 + record->right.bytes;
}

void rank_record_text(const rank_record *record, char *text)
{
    if (record->text.data != NULL) {
        memcpy(text, record->text.data, record->text.bytes);
    } else {
        char *at = mempcpy(text, record->wrong.data, record->wrong.bytes);
        at = mempcpy(at, ARROW, sizeof ARROW - 1);
        memcpy(at, record->right.data, record->right.bytes);
    }
    text[rank_record_text_bytes(record)] = '\0';
}

static rank_record_string *member(rank_record *record, const char *name, size_t name_bytes)
{
    if (name_bytes == 4 && memcmp(name, "text", 4) == 0) {
        return &record->text;
    }
    if (name_bytes == 5 && memcmp(name, "wrong", 5) == 0) {
        return &record->wrong;
    }
    if (name_bytes == 5 && memcmp(name, "right", 5) == 0) {
        return &record->right;
    }
    return NULL;
}

/* Checks the members of a line, for both parsers. */
static base_status check(const rank_record *record, base_error *reterr)
{
    const rank_record_string *text = &record->text;
    const rank_record_string *wrong = &record->wrong;
    const rank_record_string *right = &record->right;
    if ((wrong->data == NULL) != (right->data == NULL)) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"wrong\" and \"right\" go together");
    }
    if (text->data == NULL && wrong->data != NULL) {
        return BASE_OK;
    }
    if (text->data == NULL || text->bytes == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         text->data == NULL ? "no \"text\"" : "\"text\" is empty");
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
    if (at == NULL) {
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
    rank_record_string *to = member(record, name->data, name->bytes);
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

base_status rank_record_read_slow(const char *line, size_t line_bytes, rank_record *record,
                                  base_error *reterr)
{
    static const char *const names[] = {"text", "wrong", "right"};
    /* jansson's message would contain it, but it is invisible */
    static const char mark[] = "\xef\xbb\xbf";
    json_error_t json_error;
    memset(record, 0, sizeof *record);
    if (skip_spaces(line, line + line_bytes) == line + line_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID, "the line is empty");
    }
    if (line_bytes >= sizeof mark - 1 && memcmp(line, mark, sizeof mark - 1) == 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "starts with a UTF-8 byte order mark; remove it");
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
    record->owner = root;
    if (!json_is_object(root)) {
        return base_fail(reterr, BASE_ERR_INVALID, "not an object");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(root, names[i]);
        if (value != NULL && !json_is_string(value)) {
            return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is not a string", names[i]);
        }
        if (value != NULL) {
            *member(record, names[i], strlen(names[i])) =
                (rank_record_string){json_string_value(value), json_string_length(value)};
        }
    }
    return check(record, reterr);
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
    memset(record, 0, sizeof *record);
}
