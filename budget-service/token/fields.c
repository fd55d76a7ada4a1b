/* Writes a struct as canonical JSON and reads it strictly, by a table of fields. Called by
 * claims.c, receipt.c and keyring.c; other code uses its check of names. */
#include "fields.h"

#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "budget/claims.h"
#include "budget/time.h"

enum { FIELD_BYTES_MAX = 64 };

static bool name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-+@:", c) != NULL);
}

bool budget_name_ok(const char *name, size_t size_bytes, bool slash)
{
    const size_t length = strnlen(name, size_bytes);
    int parts = 1;
    if (length == 0 || length == size_bytes || name[0] == '/' || name[length - 1] == '/') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '/' && slash && name[i - 1] != '/') {
            parts++;
        } else if (!name_character(name[i])) {
            return false;
        }
    }
    return parts <= BUDGET_ACCOUNT_DEPTH_MAX;
}

static bool text_ok(const char *text, size_t size_bytes)
{
    const size_t length = strnlen(text, size_bytes);
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\'' ||
            text[i] == '\\') {
            return false;
        }
    }
    return length < size_bytes;
}

static bool hex_ok(const char *text, size_t size_bytes)
{
    return strnlen(text, size_bytes) == size_bytes - 1 &&
           strspn(text, "0123456789abcdef") == size_bytes - 1;
}

static bool characters_ok(const budget_field *field, const char *text)
{
    switch (field->kind) {
    case BUDGET_FIELD_NAME:
        return budget_name_ok(text, field->size_bytes, false);
    case BUDGET_FIELD_PATH:
        return budget_name_ok(text, field->size_bytes, true);
    case BUDGET_FIELD_HEXNAME:
        return hex_ok(text, field->size_bytes);
    default:
        return text_ok(text, field->size_bytes);
    }
}

static bool is_text(const budget_field *field)
{
    return field->kind <= BUDGET_FIELD_HEXNAME;
}

static base_status check_field(const budget_field *field, const void *member, base_error *reterr)
{
    if (is_text(field)) {
        const char *text = member;
        if (text[0] == '\0') {
            return field->optional || field->empty_ok
                       ? BASE_OK
                       : base_fail(reterr, BASE_ERR_INVALID, "%s is empty", field->key);
        }
        return characters_ok(field, text) ? BASE_OK
                                          : base_fail(reterr, BASE_ERR_INVALID,
                                                      "%s is too long or has a character that "
                                                      "may not stand there",
                                                      field->key);
    }
    if (field->kind == BUDGET_FIELD_BYTES) {
        return BASE_OK;
    }
    const int64_t value = *(const int64_t *)member;
    const int64_t max = field->kind == BUDGET_FIELD_TIME ? BUDGET_TIME_S_MAX : field->max;
    if (value < field->min || value > max) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s is %" PRId64 ": must be from %" PRId64 " to %" PRId64, field->key,
                         value, field->min, max);
    }
    return BASE_OK;
}

base_status budget_fields_check(const budget_fields *fields, const void *object, base_error *reterr)
{
    for (int i = 0; i < fields->count; i++) {
        const budget_field *field = &fields->rows[i];
        const base_status status = check_field(field, (const char *)object + field->offset, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s", fields->what);
        }
    }
    return BASE_OK;
}

static bool is_nothing(const budget_field *field, const void *member)
{
    if (is_text(field)) {
        return *(const char *)member == '\0';
    }
    if (field->kind == BUDGET_FIELD_BYTES) {
        return sodium_is_zero(member, field->size_bytes) == 1;
    }
    return *(const int64_t *)member == 0;
}

static json_t *field_to_json(const budget_field *field, const void *member)
{
    char text[2 * FIELD_BYTES_MAX + 1];
    if (is_text(field)) {
        return json_string(member);
    }
    if (field->kind == BUDGET_FIELD_INT) {
        return json_integer(*(const int64_t *)member);
    }
    if (field->kind == BUDGET_FIELD_TIME) {
        budget_time_format(*(const int64_t *)member, text);
    } else {
        (void)sodium_bin2hex(text, sizeof text, member, field->size_bytes);
    }
    return json_string(text);
}

void *budget_fields_to_json(const budget_fields *fields, const void *object)
{
    json_t *json = json_object();
    for (int i = 0; i < fields->count; i++) {
        const budget_field *field = &fields->rows[i];
        const void *member = (const char *)object + field->offset;
        if (field->optional && is_nothing(field, member)) {
            continue;
        }
        if (json_object_set_new(json, field->key, field_to_json(field, member)) != 0) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

base_status budget_fields_write(const budget_fields *fields, const void *object, char *text,
                                size_t text_size_bytes, base_error *reterr)
{
    const base_status status = budget_fields_check(fields, object, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_t *json = budget_fields_to_json(fields, object);
    if (json == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a %s", fields->what);
    }
    const size_t written =
        json_dumpb(json, text, text_size_bytes - 1, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    if (written == 0 || written >= text_size_bytes) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a %s of more than %zu bytes", fields->what,
                         text_size_bytes - 1);
    }
    text[written] = '\0';
    return BASE_OK;
}

static base_status wrong(const budget_field *field, const char *wanted, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" must be %s", field->key, wanted);
}

static base_status text_from_json(const budget_field *field, const char *text, size_t length,
                                  void *member, base_error *reterr)
{
    size_t decoded = 0;
    switch (field->kind) {
    case BUDGET_FIELD_TIME:
        return budget_time_parse(text, length, member, reterr) == BASE_OK
                   ? BASE_OK
                   : base_error_prepend(reterr, BASE_ERR_INVALID, "\"%s\"", field->key);
    case BUDGET_FIELD_BYTES:
        if (length != 2 * field->size_bytes || strspn(text, "0123456789abcdef") != length ||
            sodium_hex2bin(member, field->size_bytes, text, length, NULL, &decoded, NULL) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" must be %zu lower-case hex digits",
                             field->key, 2 * field->size_bytes);
        }
        return BASE_OK;
    default:
        if (length >= field->size_bytes) {
            return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is longer than %zu bytes",
                             field->key, field->size_bytes - 1);
        }
        memcpy(member, text, length + 1);
        return BASE_OK;
    }
}

static base_status field_from_json(const budget_field *field, const json_t *value, void *member,
                                   base_error *reterr)
{
    if (field->kind == BUDGET_FIELD_INT) {
        if (!json_is_integer(value)) {
            return wrong(field, "a whole number", reterr);
        }
        *(int64_t *)member = json_integer_value(value);
        return BASE_OK;
    }
    if (!json_is_string(value)) {
        return wrong(field, "a string", reterr);
    }
    return text_from_json(field, json_string_value(value), json_string_length(value), member,
                          reterr);
}

static const budget_field *find(const budget_fields *fields, const char *key)
{
    for (int i = 0; i < fields->count; i++) {
        if (strcmp(fields->rows[i].key, key) == 0) {
            return &fields->rows[i];
        }
    }
    return NULL;
}

base_status budget_fields_from_json(const budget_fields *fields, const void *json, void *object,
                                    base_error *reterr)
{
    json_t *source = (json_t *)json; /* jansson's iteration takes no const */
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(source)) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: not a JSON object", fields->what);
    }
    json_object_foreach(source, key, value)
    {
        const budget_field *field = find(fields, key);
        const base_status status =
            field == NULL ? base_fail(reterr, BASE_ERR_INVALID, "unknown key \"%.64s\"", key)
                          : field_from_json(field, value, (char *)object + field->offset, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s", fields->what);
        }
    }
    for (int i = 0; i < fields->count; i++) {
        if (!fields->rows[i].optional && json_object_get(source, fields->rows[i].key) == NULL) {
            return base_fail(reterr, BASE_ERR_INVALID, "%s: key \"%s\" is missing", fields->what,
                             fields->rows[i].key);
        }
    }
    return budget_fields_check(fields, object, reterr);
}

base_status budget_fields_parse(const budget_fields *fields, const void *text, size_t text_bytes,
                                void *object, base_error *reterr)
{
    json_error_t json_error;
    json_t *json = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (json == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: %s", fields->what, json_error.text);
    }
    const base_status status = budget_fields_from_json(fields, json, object, reterr);
    json_decref(json);
    return status;
}
