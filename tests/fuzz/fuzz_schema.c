/* Any bytes draw a JSON schema, and an answer of those that its grammar allows: whatever has come, a byte follows or the
 * answer may end, and where it ends it is JSON and valid under the schema, as an acceptor says that knows no grammar. */
#include <jansson.h>
#include <locale.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/splitmix.h"
#include "generate/grammar_state.h"
#include "serve/schema.h"

enum {
    DEPTH_MAX = 4,
    PARTS_MAX = 4, /* of an object, a list or a union */
    DEFINITIONS = 3,
    ANSWERS = 8,      /* of a schema */
    NOISE_MAX = 1000, /* draws behind the bytes, for each answer */
    ANSWER_BYTES_MAX = 2048,
    PATTERN_BYTES = 4096,
};

typedef struct input {
    const uint8_t *at;
    size_t left;
    uint64_t noise;
    int noise_left;
} input;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* A number below the limit: of the bytes, then of noise, and at last 0. */
static size_t draw(input *in, size_t below)
{
    if (in->left == 0) {
        return in->noise_left-- > 0 ? (size_t)(base_splitmix_next(&in->noise) % below) : 0;
    }
    in->left--;
    return *in->at++ % below;
}

/* ---- a schema ---- */

static const char *const types[] = {"string",  "integer", "number", "null",
                                    "boolean", "array",   "object"};
enum { TYPES = sizeof types / sizeof types[0], SCALARS = 5 };

static json_t *draw_schema(input *in, int depth);

static json_t *draw_value(input *in)
{
    static const char *const texts[] = {"\"a\"", "\"ab\"",    "\"\"",  "\"\\\"\\u0001\"",
                                        "1",     "-0.5e-30",  "true",  "null",
                                        "12",    "\"a\\\\\"", "false", "\"\xc3\xa9\""};
    return json_loads(texts[draw(in, sizeof texts / sizeof texts[0])], JSON_DECODE_ANY, NULL);
}

static void draw_list_keywords(input *in, int depth, json_t *schema)
{
    const size_t least = draw(in, PARTS_MAX);
    if (draw(in, 2) == 1) {
        (void)json_object_set_new(schema, "items", draw_schema(in, depth - 1));
    }
    if (draw(in, 2) == 1) {
        (void)json_object_set_new(schema, "minItems", json_integer((json_int_t)least));
    }
    if (draw(in, 2) == 1) {
        (void)json_object_set_new(schema, "maxItems",
                                  json_integer((json_int_t)(least + draw(in, PARTS_MAX))));
    }
}

static void draw_object_keywords(input *in, int depth, json_t *schema)
{
    static const char *const names[] = {"a", "ab", "", "\"\\", "type", "\xc3\xa9"};
    json_t *properties = json_object();
    json_t *required = json_array();
    for (size_t i = draw(in, PARTS_MAX); i > 0; i--) {
        const char *name = names[draw(in, sizeof names / sizeof names[0])];
        (void)json_object_set_new(properties, name, draw_schema(in, depth - 1));
        if (draw(in, 2) == 1) {
            (void)json_array_append_new(required, json_string(name));
        }
    }
    if (draw(in, 2) == 1) {
        (void)json_object_set_new(schema, "additionalProperties",
                                  draw(in, 2) == 1 ? json_false() : draw_schema(in, depth - 1));
    }
    (void)json_object_set_new(schema, "required", required);
    (void)json_object_set_new(schema, "properties", properties);
}

static json_t *draw_bound(input *in)
{
    const json_int_t number = (json_int_t)draw(in, 256) - 100;
    const double scale[] = {1, 0.5, 0.01, 1e-9, 3e7};
    const size_t kind = draw(in, sizeof scale / sizeof scale[0]);
    return kind == 0 ? json_integer(number) : json_real((double)number * scale[kind]);
}

/* A regular expression as ECMA-262 has it, and as POSIX has it. */
typedef struct two_patterns {
    char of[2][PATTERN_BYTES];
    size_t used[2];
} two_patterns;

static void add_both(two_patterns *p, const char *ecma, const char *posix)
{
    const char *const texts[] = {ecma, posix};
    for (int i = 0; i < 2; i++) {
        const int bytes =
            snprintf(p->of[i] + p->used[i], PATTERN_BYTES - p->used[i], "%s", texts[i]);
        p->used[i] += (size_t)bytes;
        BASE_ASSERT(p->used[i] < PATTERN_BYTES);
    }
}

static void draw_alternatives(input *in, int depth, two_patterns *p)
{
    static const char *const atoms[][2] = {{"a", "a"},
                                           {"b", "b"},
                                           {"\\d", "[0-9]"},
                                           {".", "."},
                                           {"[^a]", "[^a]"},
                                           {"\xc3\xa9", "\xc3\xa9"},
                                           {"\\\"", "\""},
                                           {"[\\w-]", "[a-zA-Z0-9_-]"},
                                           {"\\u00e9", "\xc3\xa9"},
                                           {"[\xc3\xa9-\xc3\xab]", "[\xc3\xa9\xc3\xaa\xc3\xab]"}};
    static const char *const counts[] = {"", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"};
    for (size_t i = draw(in, 3); i > 0; i--) {
        const size_t kind = draw(in, 12);
        if (kind < 10 || depth == 0) {
            add_both(p, atoms[kind % 10][0], atoms[kind % 10][1]);
        } else {
            add_both(p, kind == 10 ? "(" : "(?:", "(");
            draw_alternatives(in, depth - 1, p);
            add_both(p, ")", ")");
        }
        const char *count = counts[draw(in, sizeof counts / sizeof counts[0])];
        add_both(p, count, count);
    }
    if (draw(in, 4) == 1) {
        add_both(p, "|", "|");
        draw_alternatives(in, depth, p);
    }
}

/* The other one goes into a comment, which schemas may have. */
static void draw_pattern(input *in, json_t *schema)
{
    two_patterns p = {.used = {0}};
    const char *begin = draw(in, 2) == 1 ? "^(" : "(";
    add_both(&p, begin, begin);
    draw_alternatives(in, 2, &p);
    add_both(&p, ")", ")");
    if (draw(in, 2) == 1) {
        add_both(&p, "$", "$");
    }
    (void)json_object_set_new(schema, "pattern", json_string(p.of[0]));
    (void)json_object_set_new(schema, "$comment", json_string(p.of[1]));
}

static void draw_scalar_keywords(input *in, json_t *schema)
{
    static const char *const bounds[] = {"minimum", "maximum", "exclusiveMinimum",
                                         "exclusiveMaximum"};
    const size_t least = draw(in, 5);
    for (size_t i = draw(in, 3); i > 0; i--) {
        (void)json_object_set_new(schema, bounds[draw(in, 4)], draw_bound(in));
    }
    if (draw(in, 3) == 1) {
        draw_pattern(in, schema);
    }
    if (draw(in, 2) == 1) {
        (void)json_object_set_new(schema, "minLength", json_integer((json_int_t)least));
    }
    if (draw(in, 2) == 1) {
        (void)json_object_set_new(schema, "maxLength",
                                  json_integer((json_int_t)(least + draw(in, 100))));
    }
}

static json_t *draw_typed(input *in, int depth)
{
    json_t *schema = json_object();
    json_t *list = json_array();
    for (size_t i = draw(in, PARTS_MAX); i > 0; i--) {
        const char *type = types[draw(in, depth > 0 ? TYPES : SCALARS)];
        (void)json_array_append_new(list, json_string(type));
    }
    draw_list_keywords(in, depth, schema);
    draw_object_keywords(in, depth, schema);
    draw_scalar_keywords(in, schema);
    if (json_array_size(list) == 1) {
        (void)json_object_set(schema, "type", json_array_get(list, 0));
        json_decref(list);
    } else if (json_array_size(list) > 0) {
        (void)json_object_set_new(schema, "type", list);
    } else {
        json_decref(list);
    }
    return schema;
}

static json_t *draw_schema(input *in, int depth)
{
    const size_t kind = draw(in, 8);
    if (kind == 0 || (depth <= 0 && kind > 3)) {
        json_t *schema = json_pack("{s:s}", "type", types[draw(in, SCALARS)]);
        draw_scalar_keywords(in, schema);
        return schema;
    }
    if (kind == 1) {
        return json_pack("{s:o}", "const", draw_value(in));
    }
    if (kind == 2) {
        const char *const references[DEFINITIONS] = {"#/$defs/0", "#/$defs/1", "#/$defs/2"};
        return json_pack("{s:s}", "$ref", references[draw(in, DEFINITIONS)]);
    }
    json_t *list = json_array();
    for (size_t i = 1 + draw(in, PARTS_MAX); kind <= 5 && i > 0; i--) {
        (void)json_array_append_new(list, kind == 3 ? draw_value(in) : draw_schema(in, depth - 1));
    }
    if (kind <= 5) {
        return json_pack("{s:o}", kind == 3 ? "enum" : "anyOf", list);
    }
    json_decref(list);
    return depth > 0 ? draw_typed(in, depth) : json_object();
}

/* ---- the acceptor ---- */

static bool is_valid(const json_t *root, const json_t *schema, json_t *value);

static bool is_any_of(const json_t *root, const json_t *list, json_t *value)
{
    bool valid = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        valid = valid || is_valid(root, json_array_get(list, i), value);
    }
    return valid;
}

static bool has_type(const json_t *type, const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null"};
    bool fits = type == NULL;
    for (size_t i = 0; i < json_array_size(type); i++) {
        fits = fits || has_type(json_array_get(type, i), value);
    }
    const char *name = json_string_value(type);
    return fits || (name != NULL && (strcmp(name, names[json_typeof(value)]) == 0 ||
                                     (json_is_integer(value) && strcmp(name, "number") == 0)));
}

static bool is_valid_number(const json_t *schema, double value)
{
    const json_t *low = json_object_get(schema, "minimum");
    const json_t *high = json_object_get(schema, "maximum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum");
    const json_t *below = json_object_get(schema, "exclusiveMaximum");
    return (low == NULL || value >= json_number_value(low)) &&
           (high == NULL || value <= json_number_value(high)) &&
           (above == NULL || value > json_number_value(above)) &&
           (below == NULL || value < json_number_value(below));
}

static bool matches(const char *pattern, const char *text)
{
    regex_t compiled;
    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        BASE_ASSERT(false);
    }
    const bool found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

static bool is_valid_text(const json_t *schema, const char *text)
{
    const char *pattern = json_string_value(json_object_get(schema, "$comment"));
    const json_t *least = json_object_get(schema, "minLength");
    const json_t *most = json_object_get(schema, "maxLength");
    json_int_t count = 0;
    for (const char *at = text; *at != '\0'; at++) {
        count += ((uint8_t)*at & 0xc0) != 0x80 ? 1 : 0; /* jansson has checked that it is UTF-8 */
    }
    return (least == NULL || count >= json_integer_value(least)) &&
           (most == NULL || count <= json_integer_value(most)) &&
           (pattern == NULL || matches(pattern, text));
}

static bool is_valid_list(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *items = json_object_get(schema, "items");
    const json_t *least = json_object_get(schema, "minItems");
    const json_t *most = json_object_get(schema, "maxItems");
    const json_int_t count = (json_int_t)json_array_size(value);
    bool valid = (least == NULL || count >= json_integer_value(least)) &&
                 (most == NULL || count <= json_integer_value(most));
    for (size_t i = 0; items != NULL && i < (size_t)count; i++) {
        valid = valid && is_valid(root, items, json_array_get(value, i));
    }
    return valid;
}

static bool is_valid_object(const json_t *root, const json_t *schema, json_t *value)
{
    const json_t *required = json_object_get(schema, "required");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *name = NULL;
    json_t *member = NULL;
    bool valid = true;
    json_object_foreach(value, name, member)
    {
        const json_t *of = json_object_get(json_object_get(schema, "properties"), name);
        of = of != NULL ? of : others;
        valid = valid && !json_is_false(of) && (of == NULL || is_valid(root, of, member));
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        valid =
            valid && json_object_get(value, json_string_value(json_array_get(required, i))) != NULL;
    }
    return valid;
}

/* A definition that is asked about a value while it is being asked about it says no: so it says only what something else does. */
static bool is_valid_reference(const json_t *root, const char *path, json_t *value)
{
    static const json_t *asked[DEFINITIONS];
    const char *name = path + strlen("#/$defs/");
    const json_t **about = &asked[*name - '0'];
    const json_t *before = *about;
    if (before == value) {
        return false;
    }
    *about = value;
    const bool valid = is_valid(root, json_object_get(json_object_get(root, "$defs"), name), value);
    *about = before;
    return valid;
}

static bool is_valid(const json_t *root, const json_t *schema, json_t *value)
{
    const char *path = json_string_value(json_object_get(schema, "$ref"));
    const json_t *choices = json_object_get(schema, "enum");
    const json_t *only = json_object_get(schema, "const");
    const json_t *any = json_object_get(schema, "anyOf");
    bool valid = choices == NULL;
    for (size_t i = 0; i < json_array_size(choices); i++) {
        valid = valid || json_equal(json_array_get(choices, i), value) != 0;
    }
    return valid && (only == NULL || json_equal(only, value) != 0) &&
           (any == NULL || is_any_of(root, any, value)) &&
           has_type(json_object_get(schema, "type"), value) &&
           (!json_is_number(value) || is_valid_number(schema, json_number_value(value))) &&
           (!json_is_string(value) || is_valid_text(schema, json_string_value(value))) &&
           (!json_is_array(value) || is_valid_list(root, schema, value)) &&
           (!json_is_object(value) || is_valid_object(root, schema, value)) &&
           (path == NULL || is_valid_reference(root, path, value));
}

/* ---- an answer ---- */

/* The next byte of a way that is drawn. Where the noise has ended, one that closes something, if that can be. */
static uint8_t draw_byte(input *in, const proto_grammar_step *steps,
                         const rank_grammar_state *state)
{
    static const char more[] = "\"\\u0dDcCeE,:. \n~\x7f\xc3\xa9\xff\xe2\x80\xa8\xf0\x9f\x98";
    const rank_grammar_thread *thread = &state->threads[draw(in, (size_t)state->count)];
    const proto_grammar_step *step = &steps[thread->step];
    for (int32_t i = 0; in->noise_left <= 0 && i < state->count; i++) {
        const proto_grammar_step *one = &steps[state->threads[i].step];
        if (one->kind == PROTO_GRAMMAR_RANGE && strchr("\"]}", one->low) != NULL) {
            return one->low;
        }
    }
    if (step->kind == PROTO_GRAMMAR_RANGE) {
        return (uint8_t)(step->low + draw(in, (size_t)(step->high - step->low) + 1));
    }
    uint8_t byte = (uint8_t)more[draw(in, sizeof more - 1)];
    while (proto_grammar_take(step, thread->begun, byte) < 0) {
        byte++;
    }
    return byte;
}

/* False: it would become too long. */
static bool draw_answer(input *in, const proto_grammar_step *steps, char text[ANSWER_BYTES_MAX])
{
    static rank_grammar_state states[2];
    size_t used = 0;
    rank_grammar_begin(steps, &states[0]);
    for (;;) {
        const rank_grammar_state *state = &states[used % 2];
        BASE_ASSERT(state->count > 0 || state->ends != 0);
        if (state->ends != 0 && (state->count == 0 || draw(in, 2) == 0)) {
            text[used] = '\0';
            return true;
        }
        if (used + 1 == ANSWER_BYTES_MAX) {
            return false;
        }
        const uint8_t byte = draw_byte(in, steps, state);
        BASE_ASSERT(rank_grammar_take(steps, state, byte, &states[(used + 1) % 2]));
        text[used++] = (char)byte;
    }
}

static void check_answer(const json_t *schema, const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    BASE_ASSERT(value != NULL);
    BASE_ASSERT(is_valid(schema, schema, value));
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static proto_grammar_step steps[PROTO_GRAMMAR_STEPS_MAX];
    char text[ANSWER_BYTES_MAX];
    base_error error = {.message = ""};
    uint32_t count = 0;
    input in = {data, size_bytes, size_bytes, NOISE_MAX};
    BASE_ASSERT(setlocale(LC_CTYPE, "C.UTF-8") != NULL); /* of POSIX's patterns */
    json_t *root = draw_schema(&in, DEPTH_MAX);
    (void)json_object_set_new(root, "$defs",
                              json_pack("{s:o, s:o, s:o}", "0", draw_schema(&in, 2), "1",
                                        draw_schema(&in, 2), "2", draw_schema(&in, 1)));
    if (launch_schema_compile(root, steps, &count, &error) != BASE_OK) {
        BASE_ASSERT(error.message[0] != '\0' && count == 0);
        json_decref(root);
        return 0;
    }
    for (int i = 0; i < ANSWERS; i++) {
        in.noise_left = NOISE_MAX;
        if (draw_answer(&in, steps, text)) {
            check_answer(root, text);
        }
    }
    json_decref(root);
    return 0;
}
