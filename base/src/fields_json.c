/* Reads and writes JSON by a table of fields, with jansson. Called for JOB.json, for
 * the budget's tokens, and for coll-bench's results. */
#include "base/fields_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 128, REAL_DIGITS = 17 };

static bool is_text(const base_field *field)
{
    return field->kind == BASE_FIELD_TEXT || field->kind == BASE_FIELD_PATH ||
           field->kind == BASE_FIELD_DIGEST;
}

static json_t *field_to_json(const base_field *field, const void *record)
{
    char text[BASE_CODED_BYTES];
    const void *member = (const char *)record + field->offset;
    switch (field->kind) {
    case BASE_FIELD_INT:
    case BASE_FIELD_BYTES:
    case BASE_FIELD_SECONDS:
        return json_integer(base_field_int(field, record));
    case BASE_FIELD_REAL:
        return json_real(*(const double *)member);
    case BASE_FIELD_BOOL:
        return json_boolean(*(const bool *)member);
    case BASE_FIELD_ENUM:
        return json_string(field->name_of(*(const int *)member));
    case BASE_FIELD_CODED:
        field->coding->format(field, member, text);
        return json_string(text);
    default:
        return json_string(member); /* NULL unless it is UTF-8 */
    }
}

/* Splits "train.steps" into its group's object and, in *name, the key inside. With `make`, a
 * missing group is made. NULL: there is no such group. */
static json_t *group_of(json_t *object, const char *key, const char **name, bool make)
{
    char group[KEY_BYTES];
    const char *dot = strchr(key, '.');
    *name = dot != NULL ? dot + 1 : key;
    if (dot == NULL) {
        return object;
    }
    (void)snprintf(group, sizeof group, "%.*s", (int)(dot - key), key);
    json_t *found = json_object_get(object, group);
    if (found == NULL && make) {
        found = json_object();
        if (json_object_set_new(object, group, found) != 0) {
            return NULL;
        }
    }
    return found;
}

void *base_fields_to_json(const base_fields *fields, const void *record)
{
    json_t *object = json_object();
    for (int i = 0; i < fields->count; i++) {
        const base_field *field = &fields->rows[i];
        const char *name = NULL;
        if (field->key == NULL || (field->optional && base_field_is_zero(field, record))) {
            continue;
        }
        json_t *group = group_of(object, field->key, &name, true);
        if (json_object_set_new(group, name, field_to_json(field, record)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* Why there is no object of a record that passed its checks. */
static base_status refuse_text(const base_fields *fields, const void *record, base_error *reterr)
{
    for (int i = 0; i < fields->count; i++) {
        const base_field *field = &fields->rows[i];
        json_t *value = field->key != NULL && is_text(field) ? field_to_json(field, record) : NULL;
        if (field->key != NULL && is_text(field) && value == NULL) {
            return base_fail(reterr, BASE_ERR_INVALID, "%s is not UTF-8", field->key);
        }
        json_decref(value);
    }
    return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %s", fields->what);
}

base_status base_fields_write_json(const base_fields *fields, const void *record,
                                   size_t text_bytes_max, char **text, size_t *text_bytes,
                                   base_error *reterr)
{
    const base_status status = base_fields_check(fields, record, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_t *object = base_fields_to_json(fields, record);
    if (object == NULL) {
        return refuse_text(fields, record, reterr);
    }
    char *dump = malloc(text_bytes_max + 1);
    *text_bytes = dump != NULL
                      ? json_dumpb(object, dump, text_bytes_max,
                                   JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(REAL_DIGITS))
                      : 0;
    json_decref(object);
    if (*text_bytes == 0) {
        free(dump);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %s", fields->what);
    }
    if (*text_bytes > text_bytes_max) {
        free(dump);
        return base_fail(reterr, BASE_ERR_LIMIT, "%s would have more than %zu bytes", fields->what,
                         text_bytes_max);
    }
    dump[*text_bytes] = '\0';
    *text = dump;
    return BASE_OK;
}

static base_status wrong_type(const base_field *field, const char *wanted, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID, "%s must be %s", field->key, wanted);
}

static base_status text_from_json(const base_field *field, const json_t *value, void *record,
                                  base_error *reterr)
{
    if (!json_is_string(value)) {
        return wrong_type(field, "a string", reterr);
    }
    const char *text = json_string_value(value); /* jansson refuses strings with a NUL */
    if (is_text(field)) {
        if (json_string_length(value) >= field->size_bytes) {
            return base_fail(reterr, BASE_ERR_LIMIT, "%s is longer than %zu bytes", field->key,
                             field->size_bytes - 1);
        }
        memcpy((char *)record + field->offset, text, json_string_length(value) + 1);
        return BASE_OK;
    }
    const base_status status = base_field_set(field, record, text, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "%s", field->key);
}

static base_status field_from_json(const base_field *field, const json_t *value, void *record,
                                   base_error *reterr)
{
    void *member = (char *)record + field->offset;
    base_status status = BASE_OK;
    switch (field->kind) {
    case BASE_FIELD_INT:
    case BASE_FIELD_BYTES:
    case BASE_FIELD_SECONDS:
        if (!json_is_integer(value)) {
            return wrong_type(field, "a whole number", reterr);
        }
        status = base_field_set_int(field, record, json_integer_value(value), reterr);
        return status == BASE_OK ? status : base_error_prepend(reterr, status, "%s", field->key);
    case BASE_FIELD_REAL:
        if (!json_is_real(value)) {
            return wrong_type(field, "a number with a decimal point", reterr);
        }
        *(double *)member = json_real_value(value);
        return BASE_OK;
    case BASE_FIELD_BOOL:
        if (!json_is_boolean(value)) {
            return wrong_type(field, "true or false", reterr);
        }
        *(bool *)member = json_is_true(value);
        return BASE_OK;
    default:
        return text_from_json(field, value, record, reterr);
    }
}

/* Whether the table has a key "NAME.…". */
static bool is_group(const base_fields *fields, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 0; i < fields->count; i++) {
        const char *key = fields->rows[i].key;
        if (key != NULL && strncmp(key, name, length) == 0 && key[length] == '.') {
            return true;
        }
    }
    return false;
}

/* Refuses keys of the object that are not in the table. `group` stands before them (with its dot,
 * or ""). */
static base_status refuse_unknown(const base_fields *fields, const char *group, json_t *object,
                                  base_error *reterr)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(object, name, value)
    {
        char key[KEY_BYTES];
        const bool plain = strchr(name, '.') == NULL;
        if (plain && group[0] == '\0' && base_fields_find(fields, name) != NULL) {
            continue;
        }
        const int length = snprintf(key, sizeof key - 1, "%s%s", group, name);
        if (plain && length < (int)sizeof key - 1 && base_fields_find(fields, key) != NULL) {
            continue;
        }
        if (group[0] != '\0' || !is_group(fields, name)) {
            return base_fail(reterr, BASE_ERR_INVALID, "unknown key \"%.100s\"", key);
        }
        if (!json_is_object(value)) {
            return base_fail(reterr, BASE_ERR_INVALID, "%s must be an object", name);
        }
        key[length] = '.';
        key[length + 1] = '\0';
        const base_status status = refuse_unknown(fields, key, value, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

static base_status read_row(const base_field *field, json_t *object, void *record,
                            base_error *reterr)
{
    const char *name = NULL;
    if (field->key == NULL) {
        return BASE_OK;
    }
    const json_t *group = group_of(object, field->key, &name, false);
    const json_t *value = json_object_get(group, name);
    if (value == NULL) {
        return field->optional
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID, "key \"%s\" is missing", field->key);
    }
    base_status status = field_from_json(field, value, record, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = base_field_check(field, record, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "%s", field->key);
}

static base_status read_object(const base_fields *fields, json_t *object, void *record,
                               base_error *reterr)
{
    if (!json_is_object(object)) {
        return base_fail(reterr, BASE_ERR_INVALID, "not a JSON object");
    }
    base_status status = BASE_OK;
    for (int i = 0; i < fields->count && status == BASE_OK; i++) {
        status = read_row(&fields->rows[i], object, record, reterr);
        if (i == 0 && status == BASE_OK) {
            status = refuse_unknown(fields, "", object, reterr);
        }
    }
    return status;
}

base_status base_fields_from_json(const base_fields *fields, const void *json, void *record,
                                  base_error *reterr)
{
    json_t *object = (json_t *)json; /* jansson iterates over non-const objects only */
    const base_status status = read_object(fields, object, record, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "%s", fields->what);
}

base_status base_fields_parse_json(const base_fields *fields, const void *text, size_t text_bytes,
                                   size_t text_bytes_max, void *record, base_error *reterr)
{
    json_error_t json_error;
    if (text_bytes > text_bytes_max) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s has more than %zu bytes", fields->what,
                         text_bytes_max);
    }
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (object == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: line %d: %s", fields->what, json_error.line,
                         json_error.text);
    }
    const base_status status = base_fields_from_json(fields, object, record, reterr);
    json_decref(object);
    return status;
}
