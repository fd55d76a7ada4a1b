/* Statements as they run. Called by jinja.c and calls.c. */
#include <string.h>

#include "run.h"
#include "write.h"

void jinja_set_variable(jinja_run *run, const char *name, jinja_value value)
{
    jinja_frame *frame = run->frame;
    jinja_step(run->work, frame->count / 4);
    for (size_t i = 0; i < frame->count; i++) {
        if (strcmp(frame->at[i].name, name) == 0) {
            frame->at[i].value = value;
            return;
        }
    }
    frame->at = jinja_grow(run->work, frame->at, frame->count, &frame->room, sizeof *frame->at);
    frame->at[frame->count++] = (jinja_variable){.name = name, .value = value};
}

static void set_target(jinja_run *run, const jinja_target *target, jinja_value value)
{
    if (target->member == NULL) {
        jinja_set_variable(run, target->name, value);
        return;
    }
    const jinja_value space = jinja_variable_of(run, target->name);
    if (space.kind != JINJA_NAMESPACE) {
        jinja_need_defined(run->work, space);
        jinja_fail(run->work, BASE_ERR_INVALID, "%s is no namespace, whose members can be set",
                   target->name);
    }
    jinja_dict_set(run->work, space.dict, jinja_string_of(run->work, target->member), value);
}

static void set_targets(jinja_run *run, const jinja_targets *targets, jinja_value value)
{
    if (!targets->unpacks) {
        set_target(run, &targets->at[0], value);
        return;
    }
    jinja_need_defined(run->work, value);
    const jinja_list *items = jinja_items_of(run->work, value);
    if (items->count != targets->count) {
        jinja_fail(run->work, BASE_ERR_INVALID, "%zu values for %zu variables", items->count,
                   targets->count);
    }
    for (size_t i = 0; i < targets->count; i++) {
        set_target(run, &targets->at[i], items->at[i]);
    }
}

jinja_value jinja_capture(jinja_run *run, jinja_frame *frame, const jinja_nodes *body)
{
    jinja_text text = {.work = run->work};
    jinja_frame *outer_frame = run->frame;
    jinja_text *outer_text = run->text;
    run->frame = frame;
    run->text = &text;
    (void)jinja_run_body(run, body);
    run->frame = outer_frame;
    run->text = outer_text;
    return jinja_text_end(&text);
}

/* What a set block writes. */
static jinja_value eval_block(jinja_run *run, const jinja_node *node)
{
    jinja_frame *frame = jinja_zeros(run->work, 1, sizeof *frame);
    frame->around = run->frame;
    return jinja_capture(run, frame, &node->body);
}

static void run_set(jinja_run *run, const jinja_node *node)
{
    const jinja_value value = node->a != NULL ? jinja_eval(run, node->a) : eval_block(run, node);
    set_targets(run, &node->targets, value);
}

static jinja_flow run_if(jinja_run *run, const jinja_node *node)
{
    for (size_t i = 0; i < node->items.count; i++) {
        const jinja_node *branch = node->items.at[i];
        if (branch->a == NULL || jinja_is_true(jinja_eval(run, branch->a))) {
            return jinja_run_body(run, &branch->body);
        }
    }
    return JINJA_GOES_ON;
}

/* Those of the items that the loop's condition takes. */
static const jinja_list *filter_items(jinja_run *run, const jinja_node *node,
                                      const jinja_list *items)
{
    jinja_list *taken = jinja_zeros(run->work, 1, sizeof *taken);
    taken->at = jinja_values(run->work, items->count);
    for (size_t i = 0; i < items->count; i++) {
        run->frame->count = 0;
        set_targets(run, &node->targets, items->at[i]);
        if (jinja_is_true(jinja_eval(run, node->b))) {
            taken->at[taken->count++] = items->at[i];
        }
    }
    return taken;
}

/* What stands behind else runs unless a body ran to its end: so Jinja has it where there are break and continue. */
static jinja_flow run_for(jinja_run *run, const jinja_node *node)
{
    bool ended = false;
    jinja_flow flow = JINJA_GOES_ON;
    jinja_frame *outer = run->frame;
    jinja_frame *frame = jinja_zeros(run->work, 1, sizeof *frame);
    jinja_loop *loop = jinja_zeros(run->work, 1, sizeof *loop);
    frame->around = outer;
    loop->items = jinja_items_of(run->work, jinja_eval(run, node->a));
    run->frame = frame;
    if (node->b != NULL) {
        loop->items = filter_items(run, node, loop->items);
    }
    for (loop->index = 0; loop->index < loop->items->count; loop->index++) {
        jinja_step(run->work, 1);
        frame->count = 0;
        jinja_set_variable(run, "loop", (jinja_value){.kind = JINJA_LOOP, .loop = loop});
        set_targets(run, &node->targets, loop->items->at[loop->index]);
        flow = jinja_run_body(run, &node->body);
        ended = ended || flow == JINJA_GOES_ON;
        if (flow == JINJA_BREAKS) {
            break;
        }
    }
    flow = JINJA_GOES_ON;
    if (!ended) {
        frame->count = 0;
        flow = jinja_run_body(run, &node->items);
    }
    run->frame = outer;
    return flow;
}

static void define_macro(jinja_run *run, const jinja_node *node)
{
    jinja_macro *macro = jinja_alloc(run->work, sizeof *macro);
    *macro = (jinja_macro){.node = node, .around = run->frame};
    jinja_set_variable(run, node->name, (jinja_value){.kind = JINJA_MACRO, .macro = macro});
}

/* Calls a macro, which can call the body. */
static void run_caller(jinja_run *run, const jinja_node *node)
{
    jinja_macro *caller = jinja_alloc(run->work, sizeof *caller);
    *caller = (jinja_macro){.node = node, .around = run->frame};
    const jinja_value callee = jinja_eval(run, node->a->a);
    jinja_args args = jinja_eval_args(run, &node->a->items);
    jinja_pair *named = jinja_zeros(run->work, args.named_count + 1, sizeof *named);
    if (args.named_count > 0) {
        memcpy(named, args.named, args.named_count * sizeof *named);
    }
    named[args.named_count++] = (jinja_pair){.key = jinja_string_of(run->work, node->name),
                                             .value = {.kind = JINJA_MACRO, .macro = caller}};
    args.named = named;
    jinja_write(run->text, jinja_call_value(run, callee, &args));
}

static void run_scope(jinja_run *run, const jinja_node *node)
{
    jinja_frame *frame = jinja_zeros(run->work, 1, sizeof *frame);
    jinja_frame *outer = run->frame;
    frame->around = outer;
    run->frame = frame;
    (void)jinja_run_body(run, &node->body);
    run->frame = outer;
}

static void run_print(jinja_run *run, const jinja_node *node)
{
    const jinja_value value = jinja_eval(run, node->a);
    run->work->line = node->line;
    jinja_write(run->text, value);
}

static jinja_flow run_statement(jinja_run *run, const jinja_node *node)
{
    run->work->line = node->line;
    switch (node->kind) {
    case JINJA_NODE_TEXT:
        jinja_text_put(run->text, node->value.string);
        return JINJA_GOES_ON;
    case JINJA_NODE_PRINT:
        run_print(run, node);
        return JINJA_GOES_ON;
    case JINJA_NODE_IF:
        return run_if(run, node);
    case JINJA_NODE_FOR:
        return run_for(run, node);
    case JINJA_NODE_SET:
        run_set(run, node);
        return JINJA_GOES_ON;
    case JINJA_NODE_MACRO:
        define_macro(run, node);
        return JINJA_GOES_ON;
    case JINJA_NODE_CALLER:
        run_caller(run, node);
        return JINJA_GOES_ON;
    case JINJA_NODE_SCOPE:
        run_scope(run, node);
        return JINJA_GOES_ON;
    default:
        return node->kind == JINJA_NODE_BREAK ? JINJA_BREAKS : JINJA_CONTINUES;
    }
}

jinja_flow jinja_run_body(jinja_run *run, const jinja_nodes *body)
{
    jinja_flow flow = JINJA_GOES_ON;
    jinja_enter(run->work);
    for (size_t i = 0; i < body->count && flow == JINJA_GOES_ON; i++) {
        jinja_step(run->work, 1);
        flow = run_statement(run, body->at[i]);
    }
    jinja_leave(run->work);
    return flow;
}
