/* What values are, and how they compare. Called by all that runs templates. */
#include "value.h"

#include "text.h"

jinja_value *jinja_values(jinja_work *work, size_t count)
{
    jinja_step(work, count);
    return jinja_zeros(work, count, sizeof(jinja_value));
}

jinja_value jinja_list_of(jinja_work *work, jinja_value *at, size_t count, jinja_form form)
{
    jinja_list *list = jinja_alloc(work, sizeof *list);
    *list = (jinja_list){.at = at, .count = count, .form = form};
    return (jinja_value){.kind = JINJA_LIST, .list = list};
}

jinja_value jinja_tuple_of_two(jinja_work *work, jinja_value first, jinja_value second)
{
    jinja_value *items = jinja_values(work, 2);
    items[0] = first;
    items[1] = second;
    return jinja_list_of(work, items, 2, JINJA_FORM_TUPLE);
}

const jinja_value *jinja_dict_find(jinja_work *work, const jinja_dict *dict, jinja_value key)
{
    for (size_t i = 0; i < dict->count; i++) {
        if (jinja_equal(work, dict->at[i].key, key)) {
            return &dict->at[i].value;
        }
    }
    return NULL;
}

const jinja_value *jinja_dict_find_name(jinja_work *work, const jinja_dict *dict, const char *name)
{
    for (size_t i = 0; i < dict->count; i++) {
        if (dict->at[i].key.kind == JINJA_STRING && jinja_string_is(dict->at[i].key.string, name)) {
            jinja_step(work, i);
            return &dict->at[i].value;
        }
    }
    jinja_step(work, dict->count);
    return NULL;
}

void jinja_need_key(jinja_work *work, jinja_value key)
{
    const bool tuple = key.kind == JINJA_LIST && key.list->form == JINJA_FORM_TUPLE;
    if (key.kind == JINJA_DICT || (key.kind == JINJA_LIST && key.list->form == JINJA_FORM_LIST)) {
        jinja_fail(work, BASE_ERR_INVALID, "a %s cannot be a dict's key", jinja_type_name(key));
    }
    jinja_enter(work);
    for (size_t i = 0; tuple && i < key.list->count; i++) {
        jinja_need_key(work, key.list->at[i]);
    }
    jinja_leave(work);
}

void jinja_dict_set(jinja_work *work, jinja_dict *dict, jinja_value key, jinja_value value)
{
    jinja_need_key(work, key);
    jinja_value *old = (jinja_value *)jinja_dict_find(work, dict, key);
    if (old != NULL) {
        *old = value;
        return;
    }
    dict->at = jinja_grow(work, dict->at, dict->count, &dict->room, sizeof *dict->at);
    dict->at[dict->count++] = (jinja_pair){.key = key, .value = value};
}

const char *jinja_type_name(jinja_value value)
{
    static const char *const forms[] = {[JINJA_FORM_LIST] = "list",
                                        [JINJA_FORM_TUPLE] = "tuple",
                                        [JINJA_FORM_RANGE] = "range",
                                        [JINJA_FORM_VIEW] = "dict_items",
                                        [JINJA_FORM_ITERATOR] = "generator"};
    static const char *const names[] = {
        [JINJA_MISSING] = "missing",   [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",     [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",           [JINJA_REAL] = "float",
        [JINJA_STRING] = "str",        [JINJA_LIST] = "list",
        [JINJA_DICT] = "dict",         [JINJA_NAMESPACE] = "Namespace",
        [JINJA_LOOP] = "LoopContext",  [JINJA_MACRO] = "Macro",
        [JINJA_FUNCTION] = "function", [JINJA_METHOD] = "method"};
    return value.kind == JINJA_LIST ? forms[value.list->form] : names[value.kind];
}

bool jinja_is_true(jinja_value value)
{
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.flag;
    case JINJA_INT:
        return value.integer != 0;
    case JINJA_REAL:
        return value.real != 0;
    case JINJA_STRING:
        return value.string->bytes > 0;
    case JINJA_LIST:
        return value.list->count > 0 || value.list->form == JINJA_FORM_ITERATOR;
    case JINJA_DICT:
        return value.dict->count > 0;
    default:
        return true;
    }
}

bool jinja_is_number(jinja_value value)
{
    return value.kind == JINJA_BOOL || value.kind == JINJA_INT || value.kind == JINJA_REAL;
}

double jinja_as_real(jinja_value value)
{
    return value.kind == JINJA_REAL  ? value.real
           : value.kind == JINJA_INT ? (double)value.integer
                                     : (double)value.flag;
}

int64_t jinja_as_int(jinja_work *work, jinja_value value)
{
    if (value.kind != JINJA_INT && value.kind != JINJA_BOOL) {
        jinja_need_defined(work, value);
        jinja_fail(work, BASE_ERR_INVALID, "a %s where an integer is needed",
                   jinja_type_name(value));
    }
    return value.kind == JINJA_INT ? value.integer : (int64_t)value.flag;
}

void jinja_need_defined(jinja_work *work, jinja_value value)
{
    if (value.kind != JINJA_UNDEFINED) {
        return;
    }
    if (value.owner == JINJA_MISSING) {
        jinja_fail(work, BASE_ERR_INVALID, "'%s' is undefined", value.name);
    }
    const jinja_value owner = {.kind = value.owner == JINJA_LIST ? JINJA_NONE : value.owner};
    jinja_fail(work, BASE_ERR_INVALID, "a %s has no member '%s'",
               value.owner == JINJA_LIST ? "list" : jinja_type_name(owner), value.name);
}

const jinja_list *jinja_items_of(jinja_work *work, jinja_value value)
{
    jinja_list *items = jinja_zeros(work, 1, sizeof *items);
    if (value.kind == JINJA_LIST && value.list->form == JINJA_FORM_ITERATOR) {
        items->at = value.list->at + value.list->taken;
        items->count = value.list->count - value.list->taken;
        value.list->taken = value.list->count;
        return items;
    }
    if (value.kind == JINJA_LIST) {
        return value.list;
    }
    if (value.kind == JINJA_STRING) {
        items->at = jinja_points(work, value.string, &items->count);
        return items;
    }
    if (value.kind == JINJA_DICT) {
        items->count = value.dict->count;
        items->at = jinja_values(work, items->count);
        for (size_t i = 0; i < items->count; i++) {
            items->at[i] = value.dict->at[i].key;
        }
        return items;
    }
    if (value.kind != JINJA_UNDEFINED) {
        jinja_fail(work, BASE_ERR_INVALID, "a %s has no items", jinja_type_name(value));
    }
    return items;
}

size_t jinja_length_of(jinja_work *work, jinja_value value)
{
    if (value.kind == JINJA_STRING) {
        return jinja_point_count(work, value.string);
    }
    if (value.kind == JINJA_LIST && value.list->form != JINJA_FORM_ITERATOR) {
        return value.list->count;
    }
    if (value.kind != JINJA_DICT && value.kind != JINJA_UNDEFINED) {
        jinja_fail(work, BASE_ERR_INVALID, "a %s has no length", jinja_type_name(value));
    }
    return value.kind == JINJA_DICT ? value.dict->count : 0;
}
