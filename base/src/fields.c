/* Sets, checks and formats members of a struct by their rows. Called by options.c and
 * fields_json.c, and by programs for single fields. */
#include "base/fields.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/path.h"
#include "base/text.h"

enum { NAMES_BYTES = 512, MS_PER_S = 1000 };

static void *member_of(const base_field *field, void *record)
{
    return (char *)record + field->offset;
}

static const void *const_member_of(const base_field *field, const void *record)
{
    return (const char *)record + field->offset;
}

const base_field *base_fields_find(const base_fields *fields, const char *key)
{
    for (int i = 0; i < fields->count; i++) {
        if (fields->rows[i].key != NULL && strcmp(fields->rows[i].key, key) == 0) {
            return &fields->rows[i];
        }
    }
    return NULL;
}

const base_field *base_fields_find_option(const base_fields *fields, const char *option)
{
    for (int i = 0; i < fields->count; i++) {
        if (fields->rows[i].option != NULL && strcmp(fields->rows[i].option, option) == 0) {
            return &fields->rows[i];
        }
    }
    return NULL;
}

static base_status wrong_int(const base_field *field, const char *value, base_error *reterr)
{
    if (field->least == field->most) {
        return base_fail(reterr, BASE_ERR_INVALID, "%.64s: must be %" PRId64, value, field->least);
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "%.64s: must be a whole number from %" PRId64 " to %" PRId64, value,
                     field->least, field->most);
}

static base_status check_int(const base_field *field, int64_t value, base_error *reterr)
{
    char text[32];
    if (value >= field->least && value <= field->most) {
        return BASE_OK;
    }
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return wrong_int(field, text, reterr);
}

int64_t base_field_int(const base_field *field, const void *record)
{
    const void *member = const_member_of(field, record);
    return field->size_bytes == sizeof(int) ? *(const int *)member : *(const int64_t *)member;
}

base_status base_field_set_int(const base_field *field, void *record, int64_t value,
                               base_error *reterr)
{
    BASE_ASSERT(field->size_bytes == sizeof(int) || field->size_bytes == sizeof value);
    const base_status status = check_int(field, value, reterr);
    if (status == BASE_OK && field->size_bytes == sizeof(int)) {
        *(int *)member_of(field, record) = (int)value;
    } else if (status == BASE_OK) {
        *(int64_t *)member_of(field, record) = value;
    }
    return status;
}

static base_status wrong_real(const base_field *field, const char *value, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID, "%.64s: must be a number %s %.15g and %s %.15g",
                     value, field->above ? "above" : "from", field->min,
                     field->below ? "below" : "up to", field->max);
}

static base_status check_real(const base_field *field, double value, base_error *reterr)
{
    char text[32];
    const bool above = field->above ? value > field->min : value >= field->min;
    const bool below = field->below ? value < field->max : value <= field->max;
    (void)snprintf(text, sizeof text, "%.15g",
                   value); /* as it was typed: 0.1, not all its digits */
    /* every comparison with NaN is false */
    return above && below ? BASE_OK : wrong_real(field, text, reterr);
}

static base_status too_long(const base_field *field, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_LIMIT, "longer than %zu bytes", field->size_bytes - 1);
}

/* A path is absolute, or consists of names other than "", "." and "..". */
static base_status check_path(const char *path, base_error *reterr)
{
    if (path[0] == '\0' || path[0] == '/') {
        return BASE_OK;
    }
    for (const char *at = path;; at++) {
        const size_t length = strcspn(at, "/");
        if (length == 0 || (length <= 2 && strspn(at, ".") >= length)) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "'%.128s': must be absolute, or a path below the job's root without "
                             "\"//\", \".\" and \"..\"",
                             path);
        }
        at += length;
        if (*at == '\0') {
            return BASE_OK;
        }
    }
}

static base_status check_text(const base_field *field, const char *text, base_error *reterr)
{
    if (memchr(text, '\0', field->size_bytes) == NULL) {
        return too_long(field, reterr);
    }
    if (text[0] == '\0') {
        return field->filled ? base_fail(reterr, BASE_ERR_INVALID, "is empty") : BASE_OK;
    }
    if (field->kind == BASE_FIELD_PATH) {
        return check_path(text, reterr);
    }
    if (field->kind == BASE_FIELD_DIGEST &&
        (strlen(text) != field->size_bytes - 1 ||
         strspn(text, "0123456789abcdef") != field->size_bytes - 1)) {
        return base_fail(reterr, BASE_ERR_INVALID, "must be %zu hex digits, or empty",
                         field->size_bytes - 1);
    }
    if (field->text_ok != NULL && !field->text_ok(text, field->size_bytes)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "is too long or has a character that may not stand there");
    }
    return BASE_OK;
}

static base_status wrong_enum(const base_field *field, const char *text, base_error *reterr)
{
    char names[NAMES_BYTES] = "";
    base_nearest nearest = base_nearest_begin(text, strlen(text));
    char question[BASE_NEAREST_BYTES];
    for (int i = 0; field->name_of(i) != NULL; i++) {
        const char *name = field->name_of(i);
        if (i + 1 != field->unlisted) {
            base_nearest_offer(&nearest, name);
            base_text_append(names, sizeof names, " %s", name);
        }
    }
    return base_fail(reterr, BASE_ERR_INVALID, "'%.64s': must be one of:%s%s", text, names,
                     base_nearest_ask(&nearest, "", question));
}

static base_status set_enum(const base_field *field, int *value, const char *text,
                            base_error *reterr)
{
    const int found = base_names_find(field->name_of, text);
    if (found < 0) {
        return wrong_enum(field, text, reterr);
    }
    *value = found;
    return BASE_OK;
}

base_status base_field_check(const base_field *field, const void *record, base_error *reterr)
{
    const void *member = const_member_of(field, record);
    switch (field->kind) {
    case BASE_FIELD_INT:
    case BASE_FIELD_BYTES:
    case BASE_FIELD_SECONDS:
        return check_int(field, base_field_int(field, record), reterr);
    case BASE_FIELD_REAL:
        return check_real(field, *(const double *)member, reterr);
    case BASE_FIELD_ENUM:
        BASE_ASSERT(field->size_bytes == sizeof(int));
        return field->name_of(*(const int *)member) != NULL ? BASE_OK
                                                            : wrong_enum(field, "?", reterr);
    case BASE_FIELD_TEXT:
    case BASE_FIELD_PATH:
    case BASE_FIELD_DIGEST:
        return check_text(field, member, reterr);
    case BASE_FIELD_CODED:
        return field->coding->check != NULL ? field->coding->check(field, member, reterr) : BASE_OK;
    case BASE_FIELD_BOOL:
    case BASE_FIELD_CALL:
        break;
    }
    return BASE_OK;
}

base_status base_fields_check(const base_fields *fields, const void *record, base_error *reterr)
{
    for (int i = 0; i < fields->count; i++) {
        const base_field *field = &fields->rows[i];
        if (field->optional && base_field_is_zero(field, record)) {
            continue; /* it is absent */
        }
        const base_status status = base_field_check(field, record, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "%s",
                                      field->key != NULL ? field->key : field->option);
        }
    }
    return BASE_OK;
}

static base_status set_int(const base_field *field, void *record, const char *text,
                           base_error *reterr)
{
    char quoted[72];
    int64_t value = 0;
    (void)snprintf(quoted, sizeof quoted, "'%.64s'", text);
    return base_parse_int(text, INT64_MIN, INT64_MAX, &value)
               ? base_field_set_int(field, record, value, reterr)
               : wrong_int(field, quoted, reterr);
}

/* The number of bytes with the largest unit that divides it. */
static void format_bytes(int64_t bytes, char *text, size_t size_bytes)
{
    static const char *const units[] = {"", "K", "M", "G"};
    size_t unit = 0;
    while (unit + 1 < sizeof units / sizeof units[0] && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(text, size_bytes, "%" PRId64 "%s", bytes, units[unit]);
}

static base_status set_bytes(const base_field *field, void *record, const char *text,
                             base_error *reterr)
{
    static const char letters[] = "KMGkmg";
    char *end = NULL;
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    const char *letter = *end != '\0' ? strchr(letters, *end) : NULL;
    const bool number = end != text && errno == 0;
    int64_t scale = 1;
    if (letter != NULL) {
        scale = (int64_t)1 << 10 * ((letter - letters) % 3 + 1);
        end++;
    }
    if (!number || *end != '\0' || value < 0 || value > field->most / scale ||
        value * scale < field->least) {
        char least[32];
        char most[32];
        format_bytes(field->least, least, sizeof least);
        format_bytes(field->most, most, sizeof most);
        return base_fail(reterr, BASE_ERR_INVALID,
                         "'%.64s': must be a number of bytes from %s to %s (K, M and G multiply by "
                         "1024)",
                         text, least, most);
    }
    return base_field_set_int(field, record, value * scale, reterr);
}

static base_status set_real(const base_field *field, double *value, const char *text,
                            base_error *reterr)
{
    char *end = NULL;
    char quoted[72];
    *value = strtod(text, &end);
    (void)snprintf(quoted, sizeof quoted, "'%.64s'", text);
    return end != text && *end == '\0' && isfinite(*value) ? BASE_OK
                                                           : wrong_real(field, quoted, reterr);
}

/* The value must be in the range of int64_t. ceil() would need libm, and libcoll-launched links none. */
static int64_t round_up(double value)
{
    const int64_t whole = (int64_t)value; /* and as a double it is the same number */
    return whole + ((double)whole < value);
}

/* Rounds up, so that the wait is never shorter than asked for. */
static base_status set_seconds(const base_field *field, int64_t *value, const char *text,
                               base_error *reterr)
{
    char *end = NULL;
    const double seconds = strtod(text, &end);
    const double ms = seconds * MS_PER_S;
    const bool number = end != text && *end == '\0' && ms >= (double)INT64_MIN &&
                        ms < -(double)INT64_MIN; /* NaN is neither */
    if (!number || round_up(ms) < field->least || round_up(ms) > field->most) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "'%.64s': must be a number of seconds from %.15g to %.15g", text,
                         (double)field->least / MS_PER_S, (double)field->most / MS_PER_S);
    }
    *value = round_up(ms);
    return BASE_OK;
}

static base_status set_bool(const base_field *field, bool *value, const char *text,
                            base_error *reterr)
{
    if (text == NULL) {
        *value = !field->off;
        return BASE_OK;
    }
    *value = strcmp(text, "true") == 0;
    return *value || strcmp(text, "false") == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "'%.64s': must be true or false", text);
}

static base_status set_text(const base_field *field, char *value, const char *text,
                            base_error *reterr)
{
    if (strlen(text) >= field->size_bytes) {
        return too_long(field, reterr);
    }
    memcpy(value, text, strlen(text) + 1);
    return BASE_OK;
}

static base_status set_member(const base_field *field, void *record, const char *text,
                              base_error *reterr)
{
    void *member = member_of(field, record);
    switch (field->kind) {
    case BASE_FIELD_INT:
        return set_int(field, record, text, reterr);
    case BASE_FIELD_BYTES:
        return set_bytes(field, record, text, reterr);
    case BASE_FIELD_REAL:
        return set_real(field, member, text, reterr);
    case BASE_FIELD_BOOL:
        return set_bool(field, member, text, reterr);
    case BASE_FIELD_PATH:
        return base_path_absolute(text, member, field->size_bytes, reterr);
    case BASE_FIELD_TEXT:
    case BASE_FIELD_DIGEST:
        return set_text(field, member, text, reterr);
    case BASE_FIELD_ENUM:
        return set_enum(field, member, text, reterr);
    case BASE_FIELD_SECONDS:
        return set_seconds(field, member, text, reterr);
    case BASE_FIELD_CODED:
        return field->coding->parse(field, text, member, reterr);
    case BASE_FIELD_CALL:
        return field->call(field, record, text, reterr);
    }
    return BASE_OK;
}

base_status base_field_set(const base_field *field, void *record, const char *text,
                           base_error *reterr)
{
    BASE_ASSERT(text != NULL || field->kind == BASE_FIELD_BOOL || field->kind == BASE_FIELD_CALL);
    const base_status status = set_member(field, record, text, reterr);
    return status == BASE_OK ? base_field_check(field, record, reterr) : status;
}

void base_field_format(const base_field *field, const void *record, char *text, size_t size_bytes)
{
    char coded[BASE_CODED_BYTES] = "";
    const void *member = const_member_of(field, record);
    switch (field->kind) {
    case BASE_FIELD_INT:
        (void)snprintf(text, size_bytes, "%" PRId64, base_field_int(field, record));
        break;
    case BASE_FIELD_BYTES:
        format_bytes(base_field_int(field, record), text, size_bytes);
        break;
    case BASE_FIELD_REAL:
        (void)snprintf(text, size_bytes, "%g", *(const double *)member);
        break;
    case BASE_FIELD_BOOL:
        (void)snprintf(text, size_bytes, "%s", *(const bool *)member ? "true" : "false");
        break;
    case BASE_FIELD_SECONDS:
        (void)snprintf(text, size_bytes, "%g", (double)*(const int64_t *)member / MS_PER_S);
        break;
    case BASE_FIELD_ENUM:
        (void)snprintf(text, size_bytes, "%s", field->name_of(*(const int *)member));
        break;
    case BASE_FIELD_CODED:
        field->coding->format(field, member, coded);
        (void)snprintf(text, size_bytes, "%s", coded);
        break;
    case BASE_FIELD_CALL:
        (void)snprintf(text, size_bytes, "%s", "");
        break;
    case BASE_FIELD_TEXT:
    case BASE_FIELD_PATH:
    case BASE_FIELD_DIGEST:
        (void)snprintf(text, size_bytes, "%s", (const char *)member);
        break;
    }
}

bool base_field_is_zero(const base_field *field, const void *record)
{
    const unsigned char *bytes = const_member_of(field, record);
    const bool text = field->kind == BASE_FIELD_TEXT || field->kind == BASE_FIELD_PATH ||
                      field->kind == BASE_FIELD_DIGEST;
    for (size_t i = 0; i < (text ? 1 : field->size_bytes); i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}
