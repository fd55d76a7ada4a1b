/* Filters of lists and dicts as wholes. Found by calls.c. */

#include "attribute.h"
#include "order.h"
#include "row_tables.h"
#include "run.h"
#include "write.h"

static jinja_value filter_length(jinja_run *run, const jinja_call *call)
{
    return jinja_int((int64_t)jinja_length_of(run->work, call->subject));
}

static jinja_value filter_default(jinja_run *run, const jinja_call *call)
{
    const bool lacks = call->subject.kind == JINJA_UNDEFINED ||
                       (jinja_is_true(call->slots[1]) && !jinja_is_true(call->subject));
    const jinja_value given = call->slots[0];
    if (!lacks) {
        return call->subject;
    }
    return jinja_is_given(given) ? given : jinja_string_of(run->work, "");
}

/* The first item that is left, of an iterator, which loses it. */
static jinja_value filter_first(jinja_run *run, const jinja_call *call)
{
    const jinja_value value = call->subject;
    if (value.kind == JINJA_LIST && value.list->form == JINJA_FORM_ITERATOR) {
        return value.list->taken < value.list->count
                   ? value.list->at[value.list->taken++]
                   : jinja_undefined("the first of nothing", JINJA_MISSING);
    }
    const jinja_list *items = jinja_items_of(run->work, value);
    return items->count > 0 ? items->at[0] : jinja_undefined("the first of nothing", JINJA_MISSING);
}

static void refuse_iterator(jinja_run *run, jinja_value value)
{
    if (value.kind == JINJA_LIST && value.list->form == JINJA_FORM_ITERATOR) {
        jinja_fail(run->work, BASE_ERR_INVALID, "a generator has no end to begin at");
    }
}

static jinja_value filter_last(jinja_run *run, const jinja_call *call)
{
    refuse_iterator(run, call->subject);
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    return items->count > 0 ? items->at[items->count - 1]
                            : jinja_undefined("the last of nothing", JINJA_MISSING);
}

static jinja_value filter_list(jinja_run *run, const jinja_call *call)
{
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    return jinja_list_of(run->work, items->at, items->count, JINJA_FORM_LIST);
}

static jinja_value filter_join(jinja_run *run, const jinja_call *call)
{
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    jinja_text text = {.work = run->work};
    for (size_t i = 0; i < items->count; i++) {
        if (i > 0 && jinja_is_given(call->slots[0])) {
            jinja_write(&text, call->slots[0]);
        }
        jinja_write(&text, jinja_attribute(run, items->at[i], call->slots[1]));
        jinja_step(run->work, 1);
    }
    return jinja_text_end(&text);
}

static jinja_value filter_reverse(jinja_run *run, const jinja_call *call)
{
    refuse_iterator(run, call->subject);
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    if (call->subject.kind == JINJA_STRING) {
        jinja_text text = {.work = run->work};
        for (size_t i = items->count; i > 0; i--) {
            jinja_text_put(&text, items->at[i - 1].string);
        }
        return jinja_text_end(&text);
    }
    jinja_value *reversed = jinja_values(run->work, items->count);
    for (size_t i = 0; i < items->count; i++) {
        reversed[i] = items->at[items->count - 1 - i];
    }
    return jinja_list_of(run->work, reversed, items->count, JINJA_FORM_ITERATOR);
}

static jinja_value filter_sort(jinja_run *run, const jinja_call *call)
{
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    jinja_pair *pairs = jinja_zeros(run->work, items->count, sizeof *pairs);
    jinja_value *sorted = jinja_values(run->work, items->count);
    for (size_t i = 0; i < items->count; i++) {
        jinja_value *key =
            jinja_values(run->work, 1); /* a list, as which equal keys need no order */
        key[0] = jinja_sort_key(run, items->at[i], call->slots[2], call->slots[1]);
        pairs[i].key = jinja_list_of(run->work, key, 1, JINJA_FORM_LIST);
        pairs[i].value = items->at[i];
    }
    jinja_sort(run->work, pairs, items->count, jinja_is_true(call->slots[0]));
    for (size_t i = 0; i < items->count; i++) {
        sorted[i] = pairs[i].value;
    }
    return jinja_list_of(run->work, sorted, items->count, JINJA_FORM_LIST);
}

static jinja_value filter_unique(jinja_run *run, const jinja_call *call)
{
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    jinja_value *unique = jinja_values(run->work, items->count);
    jinja_dict seen = {.count = 0};
    for (size_t i = 0; i < items->count; i++) {
        const size_t before = seen.count;
        const jinja_value key = jinja_sort_key(run, items->at[i], call->slots[1], call->slots[0]);
        jinja_dict_set(run->work, &seen, key, jinja_none());
        if (seen.count > before) {
            unique[before] = items->at[i];
        }
    }
    return jinja_list_of(run->work, unique, seen.count, JINJA_FORM_ITERATOR);
}

enum { LEAST, GREATEST };

/* The least or the greatest; the first of those that are equal. */
static jinja_value filter_extreme(jinja_run *run, const jinja_call *call)
{
    const bool greatest = call->how == GREATEST;
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    jinja_value best = jinja_undefined("the least of nothing", JINJA_MISSING);
    jinja_value best_key = jinja_none();
    for (size_t i = 0; i < items->count; i++) {
        const jinja_value key = jinja_sort_key(run, items->at[i], call->slots[1], call->slots[0]);
        if (i == 0 || (greatest ? jinja_is_less(run->work, best_key, key)
                                : jinja_is_less(run->work, key, best_key))) {
            best = items->at[i];
            best_key = key;
        }
    }
    return best;
}

static jinja_value filter_sum(jinja_run *run, const jinja_call *call)
{
    const jinja_list *items = jinja_items_of(run->work, call->subject);
    jinja_value sum = jinja_is_given(call->slots[1]) ? call->slots[1] : jinja_int(0);
    if (sum.kind == JINJA_STRING) {
        jinja_fail(run->work, BASE_ERR_INVALID, "strings have no sum: join them");
    }
    for (size_t i = 0; i < items->count; i++) {
        const jinja_value item = jinja_attribute(run, items->at[i], call->slots[0]);
        sum = jinja_operate(run, JINJA_ADD, sum, item);
    }
    return sum;
}

static jinja_value filter_items(jinja_run *run, const jinja_call *call)
{
    const jinja_value value = call->subject;
    if (value.kind != JINJA_DICT && value.kind != JINJA_UNDEFINED) {
        jinja_fail(run->work, BASE_ERR_INVALID, "a %s has no pairs", jinja_type_name(value));
    }
    const size_t count = value.kind == JINJA_DICT ? value.dict->count : 0;
    jinja_value *pairs = jinja_values(run->work, count);
    for (size_t i = 0; i < count; i++) {
        pairs[i] = jinja_tuple_of_two(run->work, value.dict->at[i].key, value.dict->at[i].value);
    }
    return jinja_list_of(run->work, pairs, count, JINJA_FORM_ITERATOR);
}

static jinja_value filter_dictsort(jinja_run *run, const jinja_call *call)
{
    const jinja_value by = call->slots[1];
    const bool by_value = by.kind == JINJA_STRING && jinja_string_is(by.string, "value");
    if (call->subject.kind != JINJA_DICT) {
        jinja_need_defined(run->work, call->subject);
        jinja_fail(run->work, BASE_ERR_INVALID, "dictsort of a %s", jinja_type_name(call->subject));
    }
    const jinja_dict *dict = call->subject.dict;
    jinja_pair *pairs = jinja_zeros(run->work, dict->count, sizeof *pairs);
    jinja_value *sorted = jinja_values(run->work, dict->count);
    for (size_t i = 0; i < dict->count; i++) {
        const jinja_value what = by_value ? dict->at[i].value : dict->at[i].key;
        pairs[i].key = jinja_sort_key(run, what, jinja_none(), call->slots[0]);
        pairs[i].value = jinja_tuple_of_two(run->work, dict->at[i].key, dict->at[i].value);
    }
    jinja_sort(run->work, pairs, dict->count, jinja_is_true(call->slots[2]));
    for (size_t i = 0; i < dict->count; i++) {
        sorted[i] = pairs[i].value;
    }
    return jinja_list_of(run->work, sorted, dict->count, JINJA_FORM_LIST);
}

const jinja_row jinja_list_filters[] = {
    {.name = "length", .function = filter_length},
    {.name = "count", .function = filter_length},
    {.name = "default", .function = filter_default, .params = {"default_value", "boolean"}},
    {.name = "d", .function = filter_default, .params = {"default_value", "boolean"}},
    {.name = "first", .function = filter_first},
    {.name = "last", .function = filter_last},
    {.name = "list", .function = filter_list},
    {.name = "join", .function = filter_join, .params = {"d", "attribute"}},
    {.name = "reverse", .function = filter_reverse},
    {.name = "sort", .function = filter_sort, .params = {"reverse", "case_sensitive", "attribute"}},
    {.name = "unique", .function = filter_unique, .params = {"case_sensitive", "attribute"}},
    {.name = "min",
     .function = filter_extreme,
     .how = LEAST,
     .params = {"case_sensitive", "attribute"}},
    {.name = "max",
     .function = filter_extreme,
     .how = GREATEST,
     .params = {"case_sensitive", "attribute"}},
    {.name = "sum", .function = filter_sum, .params = {"attribute", "start"}},
    {.name = "items", .function = filter_items},
    {.name = "dictsort",
     .function = filter_dictsort,
     .params = {"case_sensitive", "by", "reverse"}},
    {.name = NULL},
};
