/* Texts, numbers and given values of a schema. Called by schema.c. */
#include "serve/schema_scalars.h"

#include <jansson.h>
#include <string.h>

#include "serve/number_grammar.h"
#include "serve/string_grammar.h"

launch_step launch_schema_refuse(launch_compiler *c, const char *what, const char *why)
{
    if (c->grammar.status == BASE_OK) {
        c->grammar.status =
            c->name[0] != '\0'
                ? base_fail(c->grammar.reterr, BASE_ERR_INVALID, "\"%.48s\" of \"%.48s\": %s", what,
                            c->name, why)
                : base_fail(c->grammar.reterr, BASE_ERR_INVALID, "\"%.48s\": %s", what, why);
    }
    return LAUNCH_GRAMMAR_RETURN;
}

bool launch_schema_counts(launch_compiler *c, const json_t *schema, const char *const keys[2],
                          int64_t counts[2])
{
    const json_t *least = json_object_get(schema, keys[0]);
    const json_t *most = json_object_get(schema, keys[1]);
    counts[0] = json_integer_value(least);
    counts[1] = most != NULL ? json_integer_value(most) : -1;
    const bool sound = (least == NULL || (json_is_integer(least) && counts[0] >= 0)) &&
                       (most == NULL || (json_is_integer(most) && counts[1] >= counts[0]));
    if (!sound) {
        (void)launch_schema_refuse(c, least != NULL ? keys[0] : keys[1], "is out of range");
    }
    return sound;
}

/* ---- values ---- */

/* Whether a scalar is of the type, or of one of a list of types; NULL: it may have any. */
static bool fits_type(const json_t *value, const json_t *type)
{
    static const char *const names[] = {
        [JSON_STRING] = "string", [JSON_INTEGER] = "integer", [JSON_REAL] = "number",
        [JSON_TRUE] = "boolean",  [JSON_FALSE] = "boolean",   [JSON_NULL] = "null"};
    const char *name = json_string_value(type);
    size_t index = 0;
    const json_t *one = NULL;
    json_array_foreach(type, index, one)
    {
        if (json_is_string(one) && fits_type(value, one)) {
            return true;
        }
    }
    return type == NULL ||
           (name != NULL && (strcmp(name, names[json_typeof(value)]) == 0 ||
                             (json_is_integer(value) && strcmp(name, "number") == 0)));
}

launch_step launch_schema_values(launch_compiler *c, const json_t *schema, const char *key,
                                 launch_step next)
{
    json_t *given = json_object_get(schema, key);
    const bool is_enum = strcmp(key, "enum") == 0;
    json_t *values = json_array();
    for (size_t i = 0; i < (is_enum ? json_array_size(given) : 1); i++) {
        json_t *value = is_enum ? json_array_get(given, i) : given;
        if (json_is_object(value) || json_is_array(value)) {
            (void)launch_schema_refuse(c, key, "must be texts, numbers, true, false or null");
        } else if (fits_type(value, json_object_get(schema, "type"))) {
            (void)json_array_append(values, value);
        }
    }
    const launch_step begin = json_array_size(values) > 0
                                  ? launch_grammar_one_of(&c->grammar, values, next)
                                  : launch_schema_refuse(c, key, "has no value of its type");
    json_decref(values);
    return begin;
}

/* ---- texts and numbers ---- */

/* The dates that there are, of years of four digits (RFC 3339). */
#define YEAR      "[1-9]\\d{3}-"
#define LEAP_YEAR "(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-"
#define DATE                                                                                       \
    "(?:" YEAR "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"                                   \
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "02-29)"
#define MINUTES     "(?:[01]\\d|2[0-3]):[0-5]\\d"
#define TIME        MINUTES ":[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-]" MINUTES ")"
#define HEXADECIMAL "[0-9a-fA-F]"

const char *launch_schema_format(const json_t *format)
{
    static const char *const formats[][2] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^" HEXADECIMAL "{8}-(?:" HEXADECIMAL "{4}-){3}" HEXADECIMAL "{12}$"},
    };
    const char *name = json_string_value(format);
    for (size_t i = 0; name != NULL && i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(name, formats[i][0]) == 0) {
            return formats[i][1];
        }
    }
    return NULL;
}

launch_step launch_schema_string(launch_compiler *c, const json_t *schema, launch_step next)
{
    static const char *const keys[] = {"minLength", "maxLength"};
    int64_t counts[2];
    if (!launch_schema_counts(c, schema, keys, counts)) {
        return LAUNCH_GRAMMAR_RETURN;
    }
    const json_t *pattern = json_object_get(schema, "pattern");
    const char *why = NULL;
    const char *format = launch_schema_format(json_object_get(schema, "format"));
    const launch_text text = {format != NULL ? format : json_string_value(pattern), counts[0],
                              counts[1]};
    if (pattern != NULL && format != NULL) {
        return launch_schema_refuse(c, "pattern", "not supported beside format");
    }
    if (pattern != NULL && text.pattern == NULL) {
        return launch_schema_refuse(c, "pattern", "must be a text");
    }
    if (text.pattern == NULL && text.least == 0 && text.most < 0) {
        return launch_grammar_string(&c->grammar, next);
    }
    const launch_step begin = launch_grammar_string_of(&c->grammar, &text, next, &why);
    return why == NULL ? begin
                       : launch_schema_refuse(c, format != NULL ? "format" : "pattern", why);
}

/* The stricter of two bounds, the second of which is out itself; NULL: there is none. sign: -1:
 * they bound from above. */
static const json_t *read_bound(launch_compiler *c, const json_t *schema, const char *const keys[2],
                                int sign, bool *open)
{
    const json_t *closed_at = json_object_get(schema, keys[0]);
    const json_t *open_at = json_object_get(schema, keys[1]);
    for (int i = 0; i < 2; i++) {
        const json_t *bound = i == 0 ? closed_at : open_at;
        if (bound != NULL && !json_is_number(bound)) {
            (void)launch_schema_refuse(c, keys[i], "must be a number");
        }
    }
    const double apart = json_number_value(open_at) - json_number_value(closed_at);
    *open = open_at != NULL && (closed_at == NULL || apart * sign >= 0);
    return *open ? open_at : closed_at;
}

launch_step launch_schema_number(launch_compiler *c, const json_t *schema, bool integer,
                                 launch_step next)
{
    static const char *const lows[] = {"minimum", "exclusiveMinimum"};
    static const char *const highs[] = {"maximum", "exclusiveMaximum"};
    launch_bounds bounds;
    bounds.low = read_bound(c, schema, lows, 1, &bounds.low_open);
    bounds.high = read_bound(c, schema, highs, -1, &bounds.high_open);
    if (c->grammar.status != BASE_OK || (bounds.low == NULL && bounds.high == NULL)) {
        return launch_grammar_number(&c->grammar, integer, next);
    }
    const launch_step begin = launch_grammar_bounded(&c->grammar, &bounds, integer, next);
    if (begin == 0) {
        const char *key =
            bounds.low == NULL ? highs[bounds.high_open ? 1 : 0] : lows[bounds.low_open ? 1 : 0];
        return launch_schema_refuse(c, key, "no number of at most 15 digits is within the bounds");
    }
    return begin;
}
