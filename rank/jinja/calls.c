/* Calls of rows, macros and methods. Called by eval.c and by filters that call others. */
#include <string.h>

#include "row_tables.h"
#include "run.h"

/* ---- which rows there are ---- */

static const jinja_row *find(const jinja_row *const tables[], const char *name)
{
    for (; *tables != NULL; tables++) {
        for (const jinja_row *row = *tables; row->name != NULL; row++) {
            if (strcmp(row->name, name) == 0) {
                return row;
            }
        }
    }
    return NULL;
}

const jinja_row *jinja_filter_find(const char *name)
{
    static const jinja_row *const tables[] = {jinja_text_filters, jinja_number_filters,
                                              jinja_list_filters, jinja_choice_filters, NULL};
    return find(tables, name);
}

const jinja_row *jinja_test_find(const char *name)
{
    static const jinja_row *const tables[] = {jinja_tests, NULL};
    return find(tables, name);
}

const jinja_row *jinja_global_find(const char *name)
{
    static const jinja_row *const tables[] = {jinja_globals, NULL};
    return find(tables, name);
}

const jinja_row *jinja_method_find(jinja_value object, const char *name)
{
    static const jinja_row *const strings[] = {jinja_string_methods, jinja_split_methods, NULL};
    static const jinja_row *const lists[] = {jinja_list_methods, NULL};
    static const jinja_row *const dicts[] = {jinja_dict_methods, NULL};
    switch (object.kind) {
    case JINJA_STRING:
        return find(strings, name);
    case JINJA_LIST:
        return object.list->form <= JINJA_FORM_TUPLE ? find(lists, name) : NULL;
    case JINJA_DICT:
        return find(dicts, name);
    default:
        return NULL;
    }
}

/* ---- rows ---- */

static size_t param_count(const jinja_row *row)
{
    size_t count = 0;
    while (count < RANK_JINJA_SLOTS_MAX && row->params[count] != NULL) {
        count++;
    }
    return count;
}

static void bind_named(jinja_run *run, const jinja_row *row, size_t count, jinja_call *call)
{
    for (size_t i = 0; i < call->args->named_count; i++) {
        const jinja_string *name = call->args->named[i].key.string;
        size_t place = 0;
        while (place < count && !jinja_string_is(name, row->params[place])) {
            place++;
        }
        if (place == count || jinja_is_given(call->slots[place])) {
            jinja_fail(run->work, BASE_ERR_INVALID, "%s takes no argument '%s' there", row->name,
                       jinja_name_of(run->work, name));
        }
        call->slots[place] = call->args->named[i].value;
    }
}

jinja_value jinja_row_call(jinja_run *run, const jinja_row *row, jinja_value subject,
                           const jinja_args *args)
{
    jinja_call call = {.subject = subject, .how = row->how, .args = args};
    const size_t count = param_count(row);
    jinja_step(run->work, 1);
    if (row->takes_any) {
        return row->function(run, &call);
    }
    if (args->count > count) {
        jinja_fail(run->work, BASE_ERR_INVALID, "%s takes %zu arguments, not %zu", row->name, count,
                   args->count);
    }
    for (size_t i = 0; i < args->count; i++) {
        call.slots[i] = args->at[i];
    }
    bind_named(run, row, count, &call);
    for (size_t i = 0; i < row->needed; i++) {
        if (!jinja_is_given(call.slots[i])) {
            jinja_fail(run->work, BASE_ERR_INVALID, "%s needs its argument '%s'", row->name,
                       row->params[i]);
        }
    }
    return row->function(run, &call);
}

/* ---- macros ---- */

static size_t target_of(const jinja_node *node, const jinja_string *name)
{
    size_t place = 0;
    while (place < node->targets.count && !jinja_string_is(name, node->targets.at[place].name)) {
        place++;
    }
    return place;
}

/* Arguments into the macro's variables. */
static void bind_macro(jinja_run *run, const jinja_node *node, const jinja_args *args,
                       jinja_value *values)
{
    if (args->count > node->targets.count) {
        jinja_fail(run->work, BASE_ERR_INVALID, "the macro %s takes %zu arguments, not %zu",
                   node->name, node->targets.count, args->count);
    }
    for (size_t i = 0; i < args->count; i++) {
        values[i] = args->at[i];
    }
    for (size_t i = 0; i < args->named_count; i++) {
        const size_t place = target_of(node, args->named[i].key.string);
        if (place == node->targets.count && jinja_string_is(args->named[i].key.string, "caller")) {
            jinja_set_variable(run, "caller", args->named[i].value);
            continue;
        }
        if (place == node->targets.count || jinja_is_given(values[place])) {
            jinja_fail(run->work, BASE_ERR_INVALID, "the macro %s takes no argument '%s' there",
                       node->name, jinja_name_of(run->work, args->named[i].key.string));
        }
        values[place] = args->named[i].value;
    }
}

static jinja_value call_macro(jinja_run *run, const jinja_macro *macro, const jinja_args *args)
{
    const jinja_node *node = macro->node;
    jinja_frame *frame = jinja_zeros(run->work, 1, sizeof *frame);
    jinja_frame *outer = run->frame;
    jinja_value *values = jinja_values(run->work, node->targets.count);
    frame->around = macro->around;
    run->frame = frame;
    bind_macro(run, node, args, values);
    for (size_t i = 0; i < node->targets.count; i++) {
        const char *name = node->targets.at[i].name;
        if (!jinja_is_given(values[i])) {
            values[i] = node->items.at[i] != NULL ? jinja_eval(run, node->items.at[i])
                                                  : jinja_undefined(name, JINJA_MISSING);
        }
        jinja_set_variable(run, name, values[i]);
    }
    run->frame = outer;
    return jinja_capture(run, frame, &node->body);
}

jinja_value jinja_call_value(jinja_run *run, jinja_value callee, const jinja_args *args)
{
    jinja_value value;
    jinja_enter(run->work);
    if (callee.kind == JINJA_MACRO) {
        value = call_macro(run, callee.macro, args);
    } else if (callee.kind == JINJA_FUNCTION) {
        value = jinja_row_call(run, callee.function, jinja_none(), args);
    } else if (callee.kind == JINJA_METHOD) {
        value = jinja_row_call(run, callee.method->row, callee.method->object, args);
    } else if (callee.kind == JINJA_UNDEFINED && callee.owner == JINJA_MISSING &&
               strcmp(callee.name, "strftime_now") == 0) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED,
                   "the template asks for today's date (strftime_now): say it with --chat-date "
                   "DATE, or --chat-date today");
    } else {
        jinja_need_defined(run->work, callee);
        jinja_fail(run->work, BASE_ERR_INVALID, "a %s cannot be called", jinja_type_name(callee));
    }
    jinja_leave(run->work);
    return value;
}
