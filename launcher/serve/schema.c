/* Makes a grammar of a JSON schema. Called by completion_body.c. */
#include "serve/schema.h"

#include <jansson.h>
#include <string.h>

#include "proto/request.h"
#include "serve/json_pointer.h"
#include "serve/schema_scalars.h"

enum {
    NESTED_MAX = 64,
    TYPES_MAX = 7, /* of one value: there are no more */
};

static launch_step compile(launch_compiler *c, const json_t *schema, launch_step next);

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(*words, word) != 0) {
        words++;
    }
    return *words != NULL;
}

/* Refuses keywords that are not known, and beside a keyword that says all those that would say more. */
static bool check_keywords(launch_compiler *c, const json_t *schema, const char *says_all)
{
    static const char *const notes[] = {
        "title", "description", "default",    "examples", "$schema",   "$id",           "$comment",
        "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "discriminator", NULL};
    static const char *const values[] = {"enum", "const", NULL};
    static const char *const known[] = {
        "type",      "properties",       "required",         "additionalProperties",
        "items",     "minItems",         "maxItems",         "minLength",
        "maxLength", "pattern",          "format",           "minimum",
        "maximum",   "exclusiveMinimum", "exclusiveMaximum", NULL};
    const bool typed = says_all != NULL && is_one_of(says_all, values);
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        if (is_one_of(key, notes) || (typed && strcmp(key, "type") == 0)) {
            continue;
        }
        if (strcmp(key, "format") == 0 && launch_schema_format(value) == NULL) {
            (void)launch_schema_refuse(c, key, "must be date, time, date-time or uuid");
            return false;
        }
        if (says_all == NULL ? !is_one_of(key, known) : strcmp(key, says_all) != 0) {
            (void)launch_schema_refuse(
                c, key,
                is_one_of(key, known)
                    ? "not supported beside enum, const, anyOf, oneOf, allOf or $ref"
                    : "not supported in a schema");
            return false;
        }
    }
    return true;
}

/* ---- objects and lists ---- */

/* A schema that is compiled to be called. */
static launch_step compile_called(launch_compiler *c, const json_t *schema)
{
    return schema == NULL || json_is_true(schema) ? launch_grammar_any(&c->grammar)
                                                  : compile(c, schema, LAUNCH_GRAMMAR_RETURN);
}

/* The name and the value, and then `next`. */
static launch_step compile_property(launch_compiler *c, const char *name, const json_t *schema,
                                    launch_step next)
{
    const char *before = c->name;
    json_t *names = json_pack("[s]", name);
    c->name = name;
    launch_step begin = launch_grammar_blank(&c->grammar, compile(c, schema, next));
    begin = launch_grammar_text(&c->grammar, ":", begin);
    begin = launch_grammar_one_of(&c->grammar, names, begin);
    c->name = before;
    json_decref(names);
    return begin;
}

/* From the last property back. `one` is what must come: this property or, where it may be left out, a later one. `more` is what
 * may follow a property: a comma and one, or the end, if none that is required is left. */
static launch_step compile_properties(launch_compiler *c, const json_t *properties,
                                      const json_t *needed, launch_step next)
{
    launch_grammar *grammar = &c->grammar;
    const char *name = NULL;
    json_t *schema = NULL;
    json_t *names = json_array();
    json_object_foreach((json_t *)(uintptr_t)properties, name, schema)
    {
        (void)json_array_append_new(names, json_string(name));
    }
    const launch_step end = launch_grammar_text(grammar, "}", next);
    const launch_step last = launch_grammar_blank(grammar, end);
    const size_t count = json_array_size(names);
    launch_step more = last;
    launch_step one = end;
    bool may_end = true;
    for (size_t i = count; i-- > 0 && grammar->status == BASE_OK;) {
        name = json_string_value(json_array_get(names, i));
        const bool optional = json_object_get(needed, name) == NULL;
        const launch_step own = compile_property(c, name, json_object_get(properties, name), more);
        one = optional && i + 1 < count ? launch_grammar_either(grammar, own, one) : own;
        may_end = may_end && optional;
        more = launch_grammar_text(grammar, ",", launch_grammar_blank(grammar, one));
        more = may_end ? launch_grammar_either(grammar, more, last) : more;
    }
    json_decref(names);
    one = may_end && count > 0 ? launch_grammar_either(grammar, one, end) : one;
    return launch_grammar_text(grammar, "{", launch_grammar_blank(grammar, one));
}

static launch_step compile_object(launch_compiler *c, const json_t *schema, launch_step next)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    const json_t *others = json_object_get(schema, "additionalProperties");
    size_t index = 0;
    const json_t *one = NULL;
    if (properties != NULL && !json_is_object(properties)) {
        return launch_schema_refuse(c, "properties", "must be an object");
    }
    if (required != NULL && !json_is_array(required)) {
        return launch_schema_refuse(c, "required", "must be a list");
    }
    json_t *needed = json_object();
    json_array_foreach(required, index, one)
    {
        json_t *property = json_object_get(properties, json_string_value(one));
        if (property == NULL || json_object_set(needed, json_string_value(one), property) != 0) {
            json_decref(needed);
            return launch_schema_refuse(c, "required", "has a name that is none of the properties");
        }
    }
    const launch_step begin =
        json_object_size(properties) > 0 || json_is_false(others)
            ? compile_properties(c, properties, needed, next)
            : launch_grammar_map(&c->grammar, compile_called(c, others), next);
    json_decref(needed);
    return begin;
}

static launch_step compile_array(launch_compiler *c, const json_t *schema, launch_step next)
{
    static const char *const keys[] = {"minItems", "maxItems"};
    int64_t counts[2];
    if (!launch_schema_counts(c, schema, keys, counts)) {
        return LAUNCH_GRAMMAR_RETURN;
    }
    return launch_grammar_list(&c->grammar, compile_called(c, json_object_get(schema, "items")),
                               counts[0], counts[1], next);
}

/* ---- schemas ---- */

static launch_step compile_type(launch_compiler *c, const json_t *schema, const char *type,
                                launch_step next)
{
    launch_grammar *grammar = &c->grammar;
    if (type == NULL) {
        return launch_schema_refuse(c, "type", "must be a text, or a list of texts");
    }
    if (strcmp(type, "object") == 0) {
        return compile_object(c, schema, next);
    }
    if (strcmp(type, "array") == 0) {
        return compile_array(c, schema, next);
    }
    if (strcmp(type, "string") == 0) {
        return launch_schema_string(c, schema, next);
    }
    if (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0) {
        return launch_schema_number(c, schema, type[0] == 'i', next);
    }
    if (strcmp(type, "boolean") == 0) {
        return launch_grammar_either(grammar, launch_grammar_text(grammar, "true", next),
                                     launch_grammar_text(grammar, "false", next));
    }
    return strcmp(type, "null") == 0 ? launch_grammar_text(grammar, "null", next)
                                     : launch_schema_refuse(c, "type", "there is no such type");
}

static launch_step compile_reference(launch_compiler *c, const json_t *schema, launch_step next)
{
    const char *path = json_string_value(json_object_get(schema, "$ref"));
    const json_t *to = path != NULL ? launch_json_pointer_find(c->root, path) : NULL;
    int i = 0;
    if (to == NULL) {
        return launch_schema_refuse(c, "$ref",
                                    "must name a schema within this one, as #/$defs/NAME");
    }
    while (i < c->reference_count && c->references[i].to != to) {
        i++;
    }
    if (i == LAUNCH_REFERENCES_MAX) {
        return launch_schema_refuse(c, "$ref", "too many different ones");
    }
    if (i == c->reference_count) {
        const launch_step begin = launch_grammar_promise(&c->grammar);
        c->references[c->reference_count++] = (launch_reference){to, begin};
        const launch_step first = compile(c, to, LAUNCH_GRAMMAR_RETURN);
        launch_grammar_keep(&c->grammar, begin, first, first);
    }
    return launch_grammar_call(&c->grammar, c->references[i].begin, next);
}

/* One of a list of types, or of schemas. */
static launch_step compile_each(launch_compiler *c, const json_t *schema, const char *key,
                                launch_step next)
{
    const json_t *list = json_object_get(schema, key);
    const bool types = strcmp(key, "type") == 0;
    launch_step begin = 0;
    if (json_array_size(list) == 0) {
        return launch_schema_refuse(c, key, "must be a list that is not empty");
    }
    for (size_t i = json_array_size(list); i-- > 0 && c->grammar.status == BASE_OK;) {
        const json_t *one = json_array_get(list, i);
        const launch_step own =
            types ? compile_type(c, schema, json_string_value(one), next) : compile(c, one, next);
        begin = begin == 0 ? own : launch_grammar_either(&c->grammar, own, begin);
    }
    return begin;
}

/* The first of the keywords that the schema has; NULL: none. */
static const char *find_key(const json_t *schema, const char *const *keys)
{
    while (*keys != NULL && json_object_get(schema, *keys) == NULL) {
        keys++;
    }
    return *keys;
}

static launch_step call_any(launch_compiler *c, launch_step next)
{
    return launch_grammar_call(&c->grammar, launch_grammar_any(&c->grammar), next);
}

/* A keyword that says all that the schema does. */
static launch_step compile_said(launch_compiler *c, const json_t *schema, const char *key,
                                launch_step next)
{
    static const char *const values[] = {"enum", "const", NULL};
    if (strcmp(key, "$ref") == 0) {
        return compile_reference(c, schema, next);
    }
    if (is_one_of(key, values)) {
        return launch_schema_values(c, schema, key, next);
    }
    if (strcmp(key, "oneOf") == 0 && json_object_get(schema, "discriminator") == NULL) {
        return launch_schema_refuse(c, key, "not supported without a discriminator: see anyOf");
    }
    if (strcmp(key, "allOf") == 0 && json_array_size(json_object_get(schema, key)) > 1) {
        return launch_schema_refuse(c, key, "more than one is not supported");
    }
    return compile_each(c, schema, key, next);
}

static launch_step compile_keywords(launch_compiler *c, const json_t *schema, launch_step next)
{
    static const char *const all[] = {"$ref", "anyOf", "oneOf", "allOf", "enum", "const", NULL};
    static const char *const of_objects[] = {"properties", "required", "additionalProperties",
                                             NULL};
    static const char *const of_lists[] = {"items", "minItems", "maxItems", NULL};
    static const char *const of_texts[] = {"minLength", "maxLength", "pattern", "format", NULL};
    static const char *const of_numbers[] = {"minimum", "maximum", "exclusiveMinimum",
                                             "exclusiveMaximum", NULL};
    const char *says_all = find_key(schema, all);
    const json_t *type = json_object_get(schema, "type");
    if (!check_keywords(c, schema, says_all)) {
        return LAUNCH_GRAMMAR_RETURN;
    }
    if (json_array_size(type) > TYPES_MAX) {
        return launch_schema_refuse(c, "type", "a list of more types than there are");
    }
    if (says_all != NULL) {
        return compile_said(c, schema, says_all, next);
    }
    if (type != NULL) {
        return json_is_string(type) ? compile_type(c, schema, json_string_value(type), next)
                                    : compile_each(c, schema, "type", next);
    }
    if (find_key(schema, of_objects) != NULL) {
        return compile_object(c, schema, next);
    }
    if (find_key(schema, of_lists) != NULL) {
        return compile_array(c, schema, next);
    }
    if (find_key(schema, of_texts) != NULL) {
        return launch_schema_string(c, schema, next);
    }
    return find_key(schema, of_numbers) != NULL ? launch_schema_number(c, schema, false, next)
                                                : call_any(c, next);
}

static launch_step compile(launch_compiler *c, const json_t *schema, launch_step next)
{
    launch_step begin = LAUNCH_GRAMMAR_RETURN;
    if (c->grammar.status != BASE_OK) {
        return begin;
    }
    if (c->nested == NESTED_MAX) {
        return launch_schema_refuse(c, "schema", "nested too deep");
    }
    c->nested++;
    if (json_is_true(schema)) {
        begin = call_any(c, next);
    } else if (json_is_object(schema)) {
        begin = compile_keywords(c, schema, next);
    } else {
        begin = launch_schema_refuse(c, "schema", "must be an object");
    }
    c->nested--;
    return begin;
}

/* Finds the schema of a response_format; NULL: it has none. False: it is no such thing. */
static bool find_schema(const json_t *value, const json_t **schema)
{
    static const char *const keys[] = {"name", "description", "schema", "strict", NULL};
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *named = json_object_get(value, "json_schema");
    const char *key = NULL;
    json_t *member = NULL;
    *schema = json_object_get(named, "schema");
    json_object_foreach((json_t *)(uintptr_t)named, key, member)
    {
        if (!is_one_of(key, keys)) {
            return false;
        }
    }
    if (type == NULL || json_object_size(value) != (named != NULL ? 2U : 1U)) {
        return false;
    }
    return strcmp(type, "json_schema") == 0
               ? *schema != NULL
               : named == NULL && (strcmp(type, "text") == 0 || strcmp(type, "json_object") == 0);
}

base_status launch_schema_compile(const json_t *schema, proto_grammar_step *steps, uint32_t *count,
                                  base_error *reterr)
{
    launch_compiler c = {.name = "", .root = schema};
    launch_grammar *grammar = &c.grammar;
    launch_grammar_init(grammar, steps, reterr);
    launch_step begin = c.root != NULL ? compile(&c, c.root, LAUNCH_GRAMMAR_RETURN)
                                       : launch_grammar_map(grammar, launch_grammar_any(grammar),
                                                            LAUNCH_GRAMMAR_RETURN);
    begin = launch_grammar_blank(grammar, begin);
    launch_grammar_keep(grammar, 0, begin, begin);
    base_status status = grammar->status;
    if (status == BASE_OK) {
        status = proto_grammar_check(grammar->steps, grammar->count, reterr);
    }
    *count = status == BASE_OK ? grammar->count : 0;
    return status;
}

base_status launch_schema_read(const json_t *value, proto_grammar_step *steps, uint32_t *count,
                               base_error *reterr)
{
    const json_t *schema = NULL;
    *count = 0;
    if (!find_schema(value, &schema)) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            PROTO_FORMAT_KEY
            ": must be {\"type\": \"text\"}, {\"type\": \"json_object\"}, or {\"type\": "
            "\"json_schema\", \"json_schema\": {\"name\": ..., \"schema\": ...}}");
    }
    if (strcmp(json_string_value(json_object_get(value, "type")), "text") == 0) {
        return BASE_OK;
    }
    const base_status status = launch_schema_compile(schema, steps, count, reterr);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, PROTO_FORMAT_KEY);
}
