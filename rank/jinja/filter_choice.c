/* Filters that call another filter or a test for each item: map, select and the like. Found by calls.c. */
#include <string.h>

#include "attribute.h"
#include "row_tables.h"
#include "run.h"

/* One step of a path: an index if it is digits. */
static jinja_value step_into(jinja_run *run, jinja_value item, const jinja_string *name)
{
    int64_t index = 0;
    bool digits = name->bytes > 0 && name->bytes < 10;
    for (size_t i = 0; digits && i < name->bytes; i++) {
        digits = name->at[i] >= '0' && name->at[i] <= '9';
        index = 10 * index + (name->at[i] - '0');
    }
    return jinja_item(run, item, digits ? jinja_int(index) : jinja_string_value(run->work, *name));
}

jinja_value jinja_attribute(jinja_run *run, jinja_value item, jinja_value attribute)
{
    static const jinja_string point = {.at = ".", .bytes = 1};
    if (!jinja_is_given(attribute) || attribute.kind == JINJA_NONE) {
        return item;
    }
    if (attribute.kind != JINJA_STRING) {
        return jinja_item(run, item, jinja_int(jinja_as_int(run->work, attribute)));
    }
    for (size_t at = 0; at <= attribute.string->bytes;) {
        const size_t found = jinja_find(run->work, attribute.string, &point, at);
        const size_t end = found != SIZE_MAX ? found : attribute.string->bytes;
        const jinja_string name = jinja_cut(attribute.string, at, end);
        item = step_into(run, item, &name);
        at = end + 1;
    }
    return item;
}

jinja_value jinja_sort_key(jinja_run *run, jinja_value item, jinja_value attribute,
                           jinja_value case_sensitive)
{
    if (attribute.kind == JINJA_STRING && attribute.string->bytes > 0 &&
        memchr(attribute.string->at, ',', attribute.string->bytes) != NULL) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "several attributes are not known here");
    }
    const jinja_value key = jinja_attribute(run, item, attribute);
    return key.kind == JINJA_STRING && !jinja_is_true(case_sensitive)
               ? jinja_set_letters(run->work, key.string, JINJA_LOWER)
               : key;
}

/* The named argument; JINJA_MISSING: not given. */
static jinja_value named(const jinja_args *args, const char *name)
{
    for (size_t i = 0; i < args->named_count; i++) {
        if (jinja_string_is(args->named[i].key.string, name)) {
            return args->named[i].value;
        }
    }
    return (jinja_value){.kind = JINJA_MISSING};
}

/* The arguments from that place on. */
static jinja_args rest_of(const jinja_args *args, size_t from)
{
    jinja_args rest = *args;
    rest.at = args->count > from ? args->at + from : NULL;
    rest.count = args->count > from ? args->count - from : 0;
    return rest;
}

/* The row that the argument names. */
static const jinja_row *row_named(jinja_run *run, jinja_value name,
                                  const jinja_row *find(const char *name), const char *what)
{
    if (name.kind != JINJA_STRING) {
        jinja_fail(run->work, BASE_ERR_INVALID, "a %s's name is no string", what);
    }
    const char *text = jinja_name_of(run->work, name.string);
    const jinja_row *row = find(text);
    if (row == NULL) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "the %s '%s' is not known here", what, text);
    }
    return row;
}

/* None of what is false, such as none. */
static const jinja_list *items_of(jinja_run *run, jinja_value value)
{
    return jinja_is_true(value) ? jinja_items_of(run->work, value)
                                : jinja_zeros(run->work, 1, sizeof(jinja_list));
}

static jinja_value filter_map(jinja_run *run, const jinja_call *call)
{
    const jinja_list *items = items_of(run, call->subject);
    const jinja_args *args = call->args;
    const jinja_value attribute = named(args, "attribute");
    const jinja_value otherwise = named(args, "default");
    const bool by_filter = args->count > 0;
    if (by_filter == jinja_is_given(attribute)) {
        jinja_fail(run->work, BASE_ERR_INVALID, "map takes a filter or an attribute");
    }
    const jinja_row *row =
        by_filter ? row_named(run, args->at[0], jinja_filter_find, "filter") : NULL;
    const jinja_args rest = rest_of(args, 1);
    jinja_value *mapped = jinja_values(run->work, items->count);
    jinja_enter(run->work);
    for (size_t i = 0; i < items->count; i++) {
        mapped[i] = by_filter ? jinja_row_call(run, row, items->at[i], &rest)
                              : jinja_attribute(run, items->at[i], attribute);
        if (!by_filter && mapped[i].kind == JINJA_UNDEFINED && jinja_is_given(otherwise)) {
            mapped[i] = otherwise;
        }
    }
    jinja_leave(run->work);
    return jinja_list_of(run->work, mapped, items->count, JINJA_FORM_ITERATOR);
}

enum { BY_ATTRIBUTE = 1, REJECTS = 2 };

/* Those of the items whose attribute, or who themselves, pass the test, or do not. */
static jinja_value filter_choose(jinja_run *run, const jinja_call *call)
{
    const bool by_attribute = (call->how & BY_ATTRIBUTE) != 0;
    const bool takes = (call->how & REJECTS) == 0;
    const jinja_list *items = items_of(run, call->subject);
    const jinja_args *args = call->args;
    const size_t test_place = by_attribute ? 1 : 0;
    if (args->count < test_place) {
        jinja_fail(run->work, BASE_ERR_INVALID, "an attribute's name is missing");
    }
    const jinja_row *row = args->count > test_place
                               ? row_named(run, args->at[test_place], jinja_test_find, "test")
                               : NULL;
    const jinja_args rest = rest_of(args, test_place + 1);
    jinja_value *chosen = jinja_values(run->work, items->count);
    size_t count = 0;
    jinja_enter(run->work);
    for (size_t i = 0; i < items->count; i++) {
        const jinja_value what =
            by_attribute ? jinja_attribute(run, items->at[i], args->at[0]) : items->at[i];
        const jinja_value passes = row != NULL ? jinja_row_call(run, row, what, &rest) : what;
        jinja_step(run->work, 1);
        if (jinja_is_true(passes) == takes) {
            chosen[count++] = items->at[i];
        }
    }
    jinja_leave(run->work);
    return jinja_list_of(run->work, chosen, count, JINJA_FORM_ITERATOR);
}

const jinja_row jinja_choice_filters[] = {
    {.name = "map", .function = filter_map, .takes_any = true},
    {.name = "select", .function = filter_choose, .how = 0, .takes_any = true},
    {.name = "reject", .function = filter_choose, .how = REJECTS, .takes_any = true},
    {.name = "selectattr", .function = filter_choose, .how = BY_ATTRIBUTE, .takes_any = true},
    {.name = "rejectattr",
     .function = filter_choose,
     .how = BY_ATTRIBUTE | REJECTS,
     .takes_any = true},
    {.name = NULL},
};
