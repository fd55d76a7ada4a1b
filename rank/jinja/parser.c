/* Statements. Called by jinja.c. */
#include "parser.h"

#include <string.h>

#include "parsing.h"

/* ---- tokens ---- */

jinja_node *jinja_node_new(jinja_parsing *parsing, jinja_node_kind kind)
{
    jinja_node *node = jinja_zeros(parsing->work, 1, sizeof *node);
    node->kind = kind;
    node->line = parsing->token->line;
    return node;
}

void jinja_nodes_add(jinja_parsing *parsing, jinja_nodes *nodes, const jinja_node *node)
{
    nodes->at = jinja_grow(parsing->work, nodes->at, nodes->count, &nodes->room, sizeof *nodes->at);
    nodes->at[nodes->count++] = node;
}

static bool at_token(const jinja_parsing *parsing, jinja_token_kind kind, const char *name)
{
    return parsing->token->kind == kind && strcmp(parsing->token->name, name) == 0;
}

bool jinja_at_name(const jinja_parsing *parsing, const char *name)
{
    return at_token(parsing, JINJA_TOKEN_NAME, name);
}

bool jinja_at_sign(const jinja_parsing *parsing, const char *sign)
{
    return at_token(parsing, JINJA_TOKEN_SIGN, sign);
}

bool jinja_take_name(jinja_parsing *parsing, const char *name)
{
    const bool there = jinja_at_name(parsing, name);
    parsing->token += there ? 1 : 0;
    return there;
}

bool jinja_take_sign(jinja_parsing *parsing, const char *sign)
{
    const bool there = jinja_at_sign(parsing, sign);
    parsing->token += there ? 1 : 0;
    return there;
}

void jinja_unexpected(jinja_parsing *parsing)
{
    static const char *const what[] = {[JINJA_TOKEN_END] = "the end of the template",
                                       [JINJA_TOKEN_TEXT] = "text",
                                       [JINJA_TOKEN_PRINT] = "{{",
                                       [JINJA_TOKEN_PRINT_END] = "}}",
                                       [JINJA_TOKEN_TAG] = "{%",
                                       [JINJA_TOKEN_TAG_END] = "%}",
                                       [JINJA_TOKEN_NAME] = "",
                                       [JINJA_TOKEN_STRING] = "a string",
                                       [JINJA_TOKEN_INT] = "a number",
                                       [JINJA_TOKEN_REAL] = "a number",
                                       [JINJA_TOKEN_SIGN] = ""};
    const jinja_token *token = parsing->token;
    parsing->work->line = token->line;
    jinja_fail(parsing->work, BASE_ERR_INVALID, "%s%s stands where nothing like it may be",
               what[token->kind], token->name);
}

void jinja_need_sign(jinja_parsing *parsing, const char *sign)
{
    if (!jinja_take_sign(parsing, sign)) {
        jinja_unexpected(parsing);
    }
}

const char *jinja_need_any_name(jinja_parsing *parsing)
{
    if (parsing->token->kind != JINJA_TOKEN_NAME) {
        jinja_unexpected(parsing);
    }
    return parsing->token++->name;
}

static void need_kind(jinja_parsing *parsing, jinja_token_kind kind)
{
    if (parsing->token->kind != kind) {
        jinja_unexpected(parsing);
    }
    parsing->token++;
}

static void need_name(jinja_parsing *parsing, const char *name)
{
    if (!jinja_take_name(parsing, name)) {
        jinja_unexpected(parsing);
    }
}

/* ---- statements ---- */

static jinja_nodes parse_body(jinja_parsing *parsing, const char *const ends[]);

/* The body of a tag up to {% end %}; from the end of the tag on. */
static jinja_nodes parse_block(jinja_parsing *parsing, const char *end)
{
    const char *const ends[] = {end, NULL};
    need_kind(parsing, JINJA_TOKEN_TAG_END);
    const jinja_nodes body = parse_body(parsing, ends);
    need_name(parsing, end);
    return body;
}

static const jinja_node *parse_if(jinja_parsing *parsing)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_IF);
    bool more = true;
    const jinja_node *condition = jinja_parse_tuple(parsing, false);
    while (more) {
        jinja_node *branch = jinja_node_new(parsing, JINJA_NODE_CASE);
        branch->a = condition;
        need_kind(parsing, JINJA_TOKEN_TAG_END);
        branch->body = parse_body(parsing, condition != NULL ? ends : ends + 2);
        jinja_nodes_add(parsing, &node->items, branch);
        more = !jinja_take_name(parsing, "endif");
        if (more && jinja_take_name(parsing, "elif")) {
            condition = jinja_parse_tuple(parsing, false);
        } else if (more) {
            need_name(parsing, "else");
            condition = NULL;
        }
    }
    return node;
}

static void add_target(jinja_parsing *parsing, jinja_targets *targets, bool members)
{
    targets->at =
        jinja_grow(parsing->work, targets->at, targets->count, &targets->room, sizeof *targets->at);
    jinja_target *target = &targets->at[targets->count++];
    *target = (jinja_target){.name = jinja_need_any_name(parsing)};
    if (members && jinja_take_sign(parsing, ".")) {
        target->member = jinja_need_any_name(parsing);
    }
}

/* a, or a, b with brackets or without. */
static jinja_targets parse_targets(jinja_parsing *parsing, bool members)
{
    jinja_targets targets = {.unpacks = false};
    const bool brackets = jinja_take_sign(parsing, "(");
    add_target(parsing, &targets, members);
    while (jinja_take_sign(parsing, ",")) {
        targets.unpacks = true;
        if (parsing->token->kind != JINJA_TOKEN_NAME || jinja_at_name(parsing, "in")) {
            break;
        }
        add_target(parsing, &targets, members);
    }
    if (brackets) {
        jinja_need_sign(parsing, ")");
    }
    return targets;
}

static const jinja_node *parse_for(jinja_parsing *parsing)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_FOR);
    node->targets = parse_targets(parsing, false);
    need_name(parsing, "in");
    node->a = jinja_parse_tuple(parsing, false);
    node->b = jinja_take_name(parsing, "if") ? jinja_parse_expression(parsing) : NULL;
    if (jinja_at_name(parsing, "recursive")) {
        jinja_fail(parsing->work, BASE_ERR_UNSUPPORTED, "recursive loops are not known here");
    }
    need_kind(parsing, JINJA_TOKEN_TAG_END);
    parsing->loops++;
    node->body = parse_body(parsing, ends);
    parsing->loops--;
    if (jinja_take_name(parsing, "else")) {
        node->items = parse_block(parsing, "endfor");
    } else {
        need_name(parsing, "endfor");
    }
    return node;
}

/* The body of what is called, or whose text is taken: no loop around it is its own. */
static jinja_nodes parse_apart(jinja_parsing *parsing, const char *end)
{
    const unsigned loops = parsing->loops;
    parsing->loops = 0;
    const jinja_nodes body = parse_block(parsing, end);
    parsing->loops = loops;
    return body;
}

static const jinja_node *parse_set(jinja_parsing *parsing)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_SET);
    node->targets = parse_targets(parsing, true);
    if (jinja_take_sign(parsing, "=")) {
        node->a = jinja_parse_tuple(parsing, true);
    } else if (jinja_at_sign(parsing, "|")) {
        jinja_fail(parsing->work, BASE_ERR_UNSUPPORTED,
                   "a filter of a set block is not known here");
    } else {
        node->body = parse_apart(parsing, "endset");
    }
    return node;
}

/* (a, b=c) */
static void parse_signature(jinja_parsing *parsing, jinja_node *node)
{
    jinja_need_sign(parsing, "(");
    while (!jinja_at_sign(parsing, ")")) {
        add_target(parsing, &node->targets, false);
        const bool has_default = jinja_take_sign(parsing, "=");
        if (!has_default && node->items.count > 0 &&
            node->items.at[node->items.count - 1] != NULL) {
            jinja_unexpected(parsing); /* one without a default behind one with it */
        }
        jinja_nodes_add(parsing, &node->items,
                        has_default ? jinja_parse_expression(parsing) : NULL);
        if (!jinja_take_sign(parsing, ",")) {
            break;
        }
    }
    jinja_need_sign(parsing, ")");
}

/* A body that can be called; it may not ask for arguments that have no names. */
static void parse_called(jinja_parsing *parsing, jinja_node *node, const char *end)
{
    const size_t before = parsing->names->count;
    node->body = parse_apart(parsing, end);
    for (size_t i = before; i < parsing->names->count; i++) {
        const char *name = parsing->names->at[i];
        if (strcmp(name, "varargs") == 0 || strcmp(name, "kwargs") == 0) {
            jinja_fail(parsing->work, BASE_ERR_UNSUPPORTED, "%s of a macro are not known here",
                       name);
        }
    }
}

static const jinja_node *parse_macro(jinja_parsing *parsing)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_MACRO);
    node->name = jinja_need_any_name(parsing);
    parse_signature(parsing, node);
    parse_called(parsing, node, "endmacro");
    return node;
}

static const jinja_node *parse_caller(jinja_parsing *parsing)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_CALLER);
    node->name = "caller";
    if (jinja_at_sign(parsing, "(")) {
        parse_signature(parsing, node);
    }
    node->a = jinja_parse_expression(parsing);
    if (node->a->kind != JINJA_NODE_CALL) {
        jinja_unexpected(parsing);
    }
    parse_called(parsing, node, "endcall");
    return node;
}

static const jinja_node *parse_generation(jinja_parsing *parsing)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_SCOPE);
    node->body = parse_apart(parsing, "endgeneration");
    return node;
}

/* break, continue */
static const jinja_node *parse_leap(jinja_parsing *parsing)
{
    const bool breaks = strcmp(parsing->token[-1].name, "break") == 0;
    if (parsing->loops == 0) {
        jinja_fail(parsing->work, BASE_ERR_INVALID, "%s stands in no loop",
                   breaks ? "break" : "continue");
    }
    return jinja_node_new(parsing, breaks ? JINJA_NODE_BREAK : JINJA_NODE_CONTINUE);
}

/* Behind {%. Up to and with %}. */
static const jinja_node *parse_statement(jinja_parsing *parsing)
{
    static const struct {
        const char *name;
        const jinja_node *(*parse)(jinja_parsing *parsing);
    } statements[] = {{"if", parse_if},       {"for", parse_for},
                      {"set", parse_set},     {"macro", parse_macro},
                      {"call", parse_caller}, {"generation", parse_generation},
                      {"break", parse_leap},  {"continue", parse_leap}};
    parsing->work->line = parsing->token->line;
    const char *name = jinja_need_any_name(parsing);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (strcmp(name, statements[i].name) == 0) {
            const jinja_node *node = statements[i].parse(parsing);
            need_kind(parsing, JINJA_TOKEN_TAG_END);
            return node;
        }
    }
    jinja_fail(parsing->work, BASE_ERR_UNSUPPORTED, "the statement '%s' is not known here", name);
}

/* Whether {% and one of these names are there. */
static bool at_end_tag(const jinja_parsing *parsing, const char *const ends[])
{
    if (parsing->token->kind != JINJA_TOKEN_TAG || parsing->token[1].kind != JINJA_TOKEN_NAME) {
        return false;
    }
    for (; *ends != NULL; ends++) {
        if (strcmp(parsing->token[1].name, *ends) == 0) {
            return true;
        }
    }
    return false;
}

/* Up to a tag of these names, whose {% is passed, or up to the template's end if there are none. */
static jinja_nodes parse_body(jinja_parsing *parsing, const char *const ends[])
{
    jinja_nodes body = {.count = 0};
    jinja_enter(parsing->work);
    while (!at_end_tag(parsing, ends)) {
        const jinja_token *token = parsing->token;
        parsing->work->line = token->line;
        if (token->kind == JINJA_TOKEN_END && *ends == NULL) {
            break;
        }
        if (token->kind == JINJA_TOKEN_END) {
            jinja_fail(parsing->work, BASE_ERR_INVALID, "there is no {%% %s %%}",
                       strcmp(ends[0], "elif") == 0   ? "endif"
                       : strcmp(ends[0], "else") == 0 ? ends[1]
                                                      : ends[0]);
        }
        parsing->token++;
        if (token->kind == JINJA_TOKEN_TEXT) {
            jinja_node *node = jinja_node_new(parsing, JINJA_NODE_TEXT);
            node->value = token->value;
            jinja_nodes_add(parsing, &body, node);
        } else if (token->kind == JINJA_TOKEN_PRINT) {
            jinja_node *node = jinja_node_new(parsing, JINJA_NODE_PRINT);
            node->a = jinja_parse_tuple(parsing, true);
            need_kind(parsing, JINJA_TOKEN_PRINT_END);
            jinja_nodes_add(parsing, &body, node);
        } else {
            jinja_nodes_add(parsing, &body, parse_statement(parsing));
        }
    }
    parsing->token += *ends != NULL ? 1 : 0;
    jinja_leave(parsing->work);
    return body;
}

jinja_nodes jinja_parse(jinja_work *work, const char *source, size_t bytes, jinja_names *names)
{
    static const char *const ends[] = {NULL};
    jinja_parsing parsing = {
        .work = work, .token = jinja_tokens_of(work, source, bytes), .names = names};
    return parse_body(&parsing, ends);
}
