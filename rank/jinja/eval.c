/* Expressions as they run. Called by statements.c. */
#include <string.h>

#include "run.h"

jinja_value jinja_variable_of(jinja_run *run, const char *name)
{
    for (const jinja_frame *frame = run->frame; frame != NULL; frame = frame->around) {
        jinja_step(run->work, 1 + frame->count / 4);
        for (size_t i = 0; i < frame->count; i++) {
            if (strcmp(frame->at[i].name, name) == 0) {
                return frame->at[i].value;
            }
        }
    }
    const jinja_row *function = jinja_global_find(name);
    if (function == NULL && (strcmp(name, "cycler") == 0 || strcmp(name, "joiner") == 0 ||
                             strcmp(name, "lipsum") == 0 || strcmp(name, "self") == 0)) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "Jinja's '%s' is not known here", name);
    }
    return function != NULL ? (jinja_value){.kind = JINJA_FUNCTION, .function = function}
                            : jinja_undefined(name, JINJA_MISSING);
}

static jinja_value eval_list(jinja_run *run, const jinja_node *node)
{
    jinja_value *items = jinja_values(run->work, node->items.count);
    for (size_t i = 0; i < node->items.count; i++) {
        items[i] = jinja_eval(run, node->items.at[i]);
    }
    return jinja_list_of(run->work, items, node->items.count,
                         node->kind == JINJA_NODE_TUPLE ? JINJA_FORM_TUPLE : JINJA_FORM_LIST);
}

static jinja_value eval_dict(jinja_run *run, const jinja_node *node)
{
    jinja_dict *dict = jinja_zeros(run->work, 1, sizeof *dict);
    for (size_t i = 0; i + 1 < node->items.count; i += 2) {
        const jinja_value key = jinja_eval(run, node->items.at[i]);
        jinja_dict_set(run->work, dict, key, jinja_eval(run, node->items.at[i + 1]));
    }
    return (jinja_value){.kind = JINJA_DICT, .dict = dict};
}

static jinja_value eval_slice(jinja_run *run, const jinja_node *node)
{
    jinja_value bounds[3];
    const jinja_value object = jinja_eval(run, node->a);
    for (size_t i = 0; i < 3; i++) {
        bounds[i] = node->items.at[i] != NULL ? jinja_eval(run, node->items.at[i]) : jinja_none();
    }
    run->work->line = node->line;
    return jinja_slice(run, object, bounds);
}

static jinja_value eval_item(jinja_run *run, const jinja_node *node)
{
    const jinja_value object = jinja_eval(run, node->a);
    const jinja_value key = jinja_eval(run, node->b);
    run->work->line = node->line;
    return jinja_item(run, object, key);
}

static jinja_value eval_member(jinja_run *run, const jinja_node *node)
{
    const jinja_value object = jinja_eval(run, node->a);
    run->work->line = node->line;
    return jinja_member(run, object, node->name);
}

jinja_args jinja_eval_args(jinja_run *run, const jinja_nodes *items)
{
    jinja_args args = {.count = 0};
    if (items->count == 0) {
        return args;
    }
    size_t room = items->count;
    jinja_value *at = jinja_values(run->work, room);
    jinja_pair *named = jinja_zeros(run->work, items->count, sizeof *named);
    for (size_t i = 0; i < items->count; i++) {
        const jinja_node *item = items->at[i];
        if (item->kind == JINJA_NODE_KEYWORD) {
            named[args.named_count++] =
                (jinja_pair){.key = item->value, .value = jinja_eval(run, item->a)};
            continue;
        }
        const jinja_value value = jinja_eval(run, item->kind == JINJA_NODE_SPREAD ? item->a : item);
        const bool spreads = item->kind == JINJA_NODE_SPREAD;
        const jinja_list *list = spreads ? jinja_items_of(run->work, value) : NULL;
        for (size_t j = 0; j < (spreads ? list->count : 1); j++) {
            at = jinja_grow(run->work, at, args.count, &room, sizeof *at);
            at[args.count++] = spreads ? list->at[j] : value;
        }
    }
    args.at = at;
    args.named = named;
    return args;
}

static jinja_value eval_call(jinja_run *run, const jinja_node *node)
{
    const jinja_value callee = jinja_eval(run, node->a);
    const jinja_args args = jinja_eval_args(run, &node->items);
    run->work->line = node->line;
    return jinja_call_value(run, callee, &args);
}

static jinja_value eval_row(jinja_run *run, const jinja_node *node)
{
    const jinja_value subject = jinja_eval(run, node->a);
    const jinja_args args = jinja_eval_args(run, &node->items);
    run->work->line = node->line;
    const jinja_value value = jinja_row_call(run, node->row, subject, &args);
    return node->kind == JINJA_NODE_TEST ? jinja_bool(jinja_is_true(value) != node->negative)
                                         : value;
}

static jinja_value eval_signed(jinja_run *run, const jinja_node *node)
{
    const jinja_value value = jinja_eval(run, node->a);
    if (value.kind == JINJA_REAL) {
        return jinja_real(node->negative ? -value.real : value.real);
    }
    return jinja_operate(run, node->negative ? JINJA_SUBTRACT : JINJA_ADD, jinja_int(0), value);
}

static jinja_value eval_operator(jinja_run *run, const jinja_node *node)
{
    const jinja_value left = jinja_eval(run, node->a);
    const jinja_value right = jinja_eval(run, node->b);
    run->work->line = node->line;
    return jinja_operate(run, node->op, left, right);
}

static jinja_value eval_compare(jinja_run *run, const jinja_node *node)
{
    jinja_value left = jinja_eval(run, node->a);
    for (size_t i = 0; i < node->items.count; i++) {
        const jinja_node *compared = node->items.at[i];
        const jinja_value right = jinja_eval(run, compared->b);
        run->work->line = node->line;
        if (!jinja_compare(run, compared->op, left, right)) {
            return jinja_bool(false);
        }
        left = right;
    }
    return jinja_bool(true);
}

/* and, or: the value that decides. */
static jinja_value eval_logic(jinja_run *run, const jinja_node *node)
{
    const jinja_value left = jinja_eval(run, node->a);
    return jinja_is_true(left) == (node->kind == JINJA_NODE_OR) ? left : jinja_eval(run, node->b);
}

static jinja_value eval_choice(jinja_run *run, const jinja_node *node)
{
    if (jinja_is_true(jinja_eval(run, node->b))) {
        return jinja_eval(run, node->a);
    }
    return node->c != NULL ? jinja_eval(run, node->c)
                           : jinja_undefined("an if without else", JINJA_MISSING);
}

static jinja_value eval_node(jinja_run *run, const jinja_node *node)
{
    switch (node->kind) {
    case JINJA_NODE_LITERAL:
        return node->value;
    case JINJA_NODE_NAME:
        return jinja_variable_of(run, node->name);
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE:
        return eval_list(run, node);
    case JINJA_NODE_DICT:
        return eval_dict(run, node);
    case JINJA_NODE_MEMBER:
        return eval_member(run, node);
    case JINJA_NODE_ITEM:
        return eval_item(run, node);
    case JINJA_NODE_SLICE:
        return eval_slice(run, node);
    case JINJA_NODE_CALL:
        return eval_call(run, node);
    case JINJA_NODE_FILTER:
    case JINJA_NODE_TEST:
        return eval_row(run, node);
    case JINJA_NODE_NOT:
        return jinja_bool(!jinja_is_true(jinja_eval(run, node->a)));
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
        return eval_logic(run, node);
    case JINJA_NODE_SIGNED:
        return eval_signed(run, node);
    case JINJA_NODE_OPERATOR:
        return eval_operator(run, node);
    case JINJA_NODE_COMPARE:
        return eval_compare(run, node);
    default:
        return eval_choice(run, node);
    }
}

jinja_value jinja_eval(jinja_run *run, const jinja_node *node)
{
    jinja_enter(run->work);
    run->work->line = node->line;
    const jinja_value value = eval_node(run, node);
    jinja_leave(run->work);
    return value;
}
