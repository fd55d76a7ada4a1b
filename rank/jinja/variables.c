/* JSON as values. Called by jinja.c. */
#include "variables.h"

#include <string.h>

#include <jansson.h>

static jinja_value value_of(jinja_work *work, const json_t *json, uint32_t origin);
static jinja_value dict_of(jinja_work *work, const json_t *json, uint32_t origin, bool is_message);

/* traced: each element is a message, whose origin is its place. */
static jinja_value list_of(jinja_work *work, const json_t *json, uint32_t origin, bool traced)
{
    const size_t count = json_array_size(json);
    jinja_value *items = jinja_values(work, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(json, i);
        const uint32_t its = traced ? (uint32_t)i + 1 : origin;
        items[i] = traced && json_is_object(item) ? dict_of(work, item, its, true)
                                                  : value_of(work, item, its);
    }
    return jinja_list_of(work, items, count, JINJA_FORM_LIST);
}

/* A message's role is one of a few words, which the caller has checked; what else is called so may be anything. */
static jinja_value dict_of(jinja_work *work, const json_t *json, uint32_t origin, bool is_message)
{
    jinja_dict *dict = jinja_zeros(work, 1, sizeof *dict);
    const char *key = NULL;
    json_t *member = NULL;
    dict->room = json_object_size(json);
    dict->at = jinja_zeros(work, dict->room, sizeof *dict->at);
    json_object_foreach((json_t *)json, key, member)
    {
        const uint32_t its = is_message && strcmp(key, "role") == 0 ? 0 : origin;
        dict->at[dict->count++] = (jinja_pair){
            .key = jinja_string_value(
                work, (jinja_string){.at = key, .bytes = strlen(key), .origin = origin}),
            .value = value_of(work, member, its)};
    }
    return (jinja_value){.kind = JINJA_DICT, .dict = dict};
}

static jinja_value value_of(jinja_work *work, const json_t *json, uint32_t origin)
{
    jinja_value value = jinja_none();
    jinja_enter(work);
    switch (json_typeof(json)) {
    case JSON_STRING:
        value = jinja_string_value(work, (jinja_string){.at = json_string_value(json),
                                                        .bytes = json_string_length(json),
                                                        .origin = origin});
        break;
    case JSON_INTEGER:
        value = jinja_int(json_integer_value(json));
        break;
    case JSON_REAL:
        value = jinja_real(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        value = jinja_bool(json_is_true(json));
        break;
    case JSON_ARRAY:
        value = list_of(work, json, origin, false);
        break;
    case JSON_OBJECT:
        value = dict_of(work, json, origin, false);
        break;
    case JSON_NULL:
        break;
    }
    jinja_leave(work);
    return value;
}

static bool is_name(const char *name, const char *given)
{
    return given != NULL && strcmp(name, given) == 0;
}

void jinja_set_variables(jinja_run *run, const rank_jinja_given *given)
{
    const char *name = NULL;
    json_t *member = NULL;
    json_object_foreach((json_t *)given->variables, name, member)
    {
        const uint32_t origin = is_name(name, given->quoted) ? RANK_JINJA_QUOTED : 0;
        const bool is_traced = is_name(name, given->traced) && json_is_array(member);
        jinja_set_variable(run, name,
                           is_traced ? list_of(run->work, member, 0, true)
                                     : value_of(run->work, member, origin));
    }
}
