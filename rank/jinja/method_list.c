/* Methods of lists and dicts. Found by calls.c. Those that change them are refused, as by the sandbox that
 * transformers runs templates in. */
#include "row_tables.h"
#include "run.h"

BASE_NORETURN static jinja_value method_refused(jinja_run *run, const jinja_call *call)
{
    jinja_fail(run->work, BASE_ERR_INVALID,
               "a method that changes a %s: templates run in a sandbox, where it cannot be changed",
               jinja_type_name(call->subject));
}

static jinja_value method_index(jinja_run *run, const jinja_call *call)
{
    const jinja_list *list = call->subject.list;
    for (size_t i = 0; i < list->count; i++) {
        if (jinja_equal(run->work, list->at[i], call->slots[0])) {
            return jinja_int((int64_t)i);
        }
    }
    jinja_fail(run->work, BASE_ERR_INVALID, "index of what is not in the list");
}

static jinja_value method_count(jinja_run *run, const jinja_call *call)
{
    const jinja_list *list = call->subject.list;
    int64_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        count += jinja_equal(run->work, list->at[i], call->slots[0]) ? 1 : 0;
    }
    return jinja_int(count);
}

static jinja_value method_get(jinja_run *run, const jinja_call *call)
{
    jinja_need_key(run->work, call->slots[0]);
    const jinja_value *found = jinja_dict_find(run->work, call->subject.dict, call->slots[0]);
    if (found != NULL) {
        return *found;
    }
    return jinja_is_given(call->slots[1]) ? call->slots[1] : jinja_none();
}

/* Nothing changes a dict, so it is its own copy. */
static jinja_value method_copy(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return call->subject;
}

typedef enum view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } view;

static jinja_value method_view(jinja_run *run, const jinja_call *call)
{
    const jinja_dict *dict = call->subject.dict;
    const view what = (view)call->how;
    jinja_value *items = jinja_values(run->work, dict->count);
    for (size_t i = 0; i < dict->count; i++) {
        items[i] = what == VIEW_KEYS ? dict->at[i].key
                   : what == VIEW_VALUES
                       ? dict->at[i].value
                       : jinja_tuple_of_two(run->work, dict->at[i].key, dict->at[i].value);
    }
    return jinja_list_of(run->work, items, dict->count, JINJA_FORM_VIEW);
}

const jinja_row jinja_list_methods[] = {
    {.name = "index", .function = method_index, .params = {"value"}, .needed = 1},
    {.name = "count", .function = method_count, .params = {"value"}, .needed = 1},
    {.name = "append", .function = method_refused, .takes_any = true},
    {.name = "extend", .function = method_refused, .takes_any = true},
    {.name = "insert", .function = method_refused, .takes_any = true},
    {.name = "pop", .function = method_refused, .takes_any = true},
    {.name = "remove", .function = method_refused, .takes_any = true},
    {.name = "clear", .function = method_refused, .takes_any = true},
    {.name = "reverse", .function = method_refused, .takes_any = true},
    {.name = "sort", .function = method_refused, .takes_any = true},
    {.name = NULL},
};

const jinja_row jinja_dict_methods[] = {
    {.name = "get", .function = method_get, .params = {"key", "default"}, .needed = 1},
    {.name = "copy", .function = method_copy},
    {.name = "keys", .function = method_view, .how = VIEW_KEYS},
    {.name = "values", .function = method_view, .how = VIEW_VALUES},
    {.name = "items", .function = method_view, .how = VIEW_ITEMS},
    {.name = "update", .function = method_refused, .takes_any = true},
    {.name = "pop", .function = method_refused, .takes_any = true},
    {.name = "popitem", .function = method_refused, .takes_any = true},
    {.name = "setdefault", .function = method_refused, .takes_any = true},
    {.name = "clear", .function = method_refused, .takes_any = true},
    {.name = NULL},
};
