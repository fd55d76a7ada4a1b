/* Literals, names, brackets, and what stands behind them. Called by parse_expression.c. */
#include <string.h>

#include "parsing.h"
#include "rows.h"

static const jinja_node *literal(jinja_parsing *parsing, jinja_value value)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_LITERAL);
    node->value = value;
    return node;
}

static const jinja_node *parse_name(jinja_parsing *parsing)
{
    static const struct {
        const char *name;
        jinja_value value;
    } known[] = {{"true", {.kind = JINJA_BOOL, .flag = true}},
                 {"True", {.kind = JINJA_BOOL, .flag = true}},
                 {"false", {.kind = JINJA_BOOL}},
                 {"False", {.kind = JINJA_BOOL}},
                 {"none", {.kind = JINJA_NONE}},
                 {"None", {.kind = JINJA_NONE}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (jinja_take_name(parsing, known[i].name)) {
            return literal(parsing, known[i].value);
        }
    }
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_NAME);
    node->name = jinja_need_any_name(parsing);
    jinja_names *names = parsing->names;
    names->at = jinja_grow(parsing->work, names->at, names->count, &names->room, sizeof *names->at);
    names->at[names->count++] = node->name;
    return node;
}

static const jinja_node *parse_strings(jinja_parsing *parsing)
{
    jinja_text text = {.work = parsing->work};
    for (; parsing->token->kind == JINJA_TOKEN_STRING; parsing->token++) {
        jinja_text_put(&text, parsing->token->value.string);
    }
    return literal(parsing, jinja_text_end(&text));
}

static const jinja_node *parse_list(jinja_parsing *parsing)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_LIST);
    jinja_need_sign(parsing, "[");
    while (!jinja_at_sign(parsing, "]")) {
        jinja_nodes_add(parsing, &node->items, jinja_parse_expression(parsing));
        if (!jinja_take_sign(parsing, ",")) {
            break;
        }
    }
    jinja_need_sign(parsing, "]");
    return node;
}

static const jinja_node *parse_dict(jinja_parsing *parsing)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_DICT);
    jinja_need_sign(parsing, "{");
    while (!jinja_at_sign(parsing, "}")) {
        jinja_nodes_add(parsing, &node->items, jinja_parse_expression(parsing));
        jinja_need_sign(parsing, ":");
        jinja_nodes_add(parsing, &node->items, jinja_parse_expression(parsing));
        if (!jinja_take_sign(parsing, ",")) {
            break;
        }
    }
    jinja_need_sign(parsing, "}");
    return node;
}

static const jinja_node *parse_brackets(jinja_parsing *parsing)
{
    const jinja_node *node = NULL;
    jinja_need_sign(parsing, "(");
    if (jinja_at_sign(parsing, ")")) {
        node = jinja_node_new(parsing, JINJA_NODE_TUPLE);
    } else {
        node = jinja_parse_tuple(parsing, true);
    }
    jinja_need_sign(parsing, ")");
    return node;
}

const jinja_node *jinja_parse_primary(jinja_parsing *parsing)
{
    const jinja_token *token = parsing->token;
    switch (token->kind) {
    case JINJA_TOKEN_NAME:
        return parse_name(parsing);
    case JINJA_TOKEN_STRING:
        return parse_strings(parsing);
    case JINJA_TOKEN_INT:
    case JINJA_TOKEN_REAL:
        parsing->token++;
        return literal(parsing, token->value);
    default:
        break;
    }
    if (jinja_at_sign(parsing, "(")) {
        return parse_brackets(parsing);
    }
    if (jinja_at_sign(parsing, "[")) {
        return parse_list(parsing);
    }
    if (jinja_at_sign(parsing, "{")) {
        return parse_dict(parsing);
    }
    jinja_unexpected(parsing);
}

/* ---- what stands behind ---- */

static bool at_slice_end(const jinja_parsing *parsing)
{
    return jinja_at_sign(parsing, ":") || jinja_at_sign(parsing, "]") ||
           jinja_at_sign(parsing, ",");
}

/* Behind the [. */
static const jinja_node *parse_item(jinja_parsing *parsing, const jinja_node *object)
{
    const jinja_node *first = NULL;
    if (!jinja_at_sign(parsing, ":")) {
        first = jinja_parse_expression(parsing);
    }
    const bool slices = jinja_at_sign(parsing, ":");
    jinja_node *node = jinja_node_new(parsing, slices ? JINJA_NODE_SLICE : JINJA_NODE_ITEM);
    node->a = object;
    node->b = first;
    for (int i = 0; slices && i < 3; i++) {
        const jinja_node *part = i == 0 ? first : NULL;
        if (i > 0 && jinja_take_sign(parsing, ":") && !at_slice_end(parsing)) {
            part = jinja_parse_expression(parsing);
        }
        jinja_nodes_add(parsing, &node->items, part);
    }
    jinja_need_sign(parsing, "]");
    return node;
}

static const jinja_node *parse_member(jinja_parsing *parsing, const jinja_node *object)
{
    const bool by_number = parsing->token->kind == JINJA_TOKEN_INT;
    jinja_node *node = jinja_node_new(parsing, by_number ? JINJA_NODE_ITEM : JINJA_NODE_MEMBER);
    node->a = object;
    if (by_number) {
        node->b = jinja_parse_primary(parsing);
    } else {
        node->name = jinja_need_any_name(parsing);
    }
    return node;
}

/* (a, b, c=d) */
static void parse_args(jinja_parsing *parsing, jinja_node *node)
{
    bool named = false;
    jinja_need_sign(parsing, "(");
    while (!jinja_at_sign(parsing, ")")) {
        const jinja_token *token = parsing->token;
        if (jinja_at_sign(parsing, "**")) {
            jinja_fail(parsing->work, BASE_ERR_UNSUPPORTED, "arguments with ** are not known here");
        }
        if (token->kind == JINJA_TOKEN_NAME && token[1].kind == JINJA_TOKEN_SIGN &&
            strcmp(token[1].name, "=") == 0) {
            jinja_node *keyword = jinja_node_new(parsing, JINJA_NODE_KEYWORD);
            keyword->name = token->name;
            keyword->value = jinja_string_of(parsing->work, token->name);
            parsing->token += 2;
            keyword->a = jinja_parse_expression(parsing);
            jinja_nodes_add(parsing, &node->items, keyword);
            named = true;
        } else if (named) {
            jinja_unexpected(parsing);
        } else if (jinja_take_sign(parsing, "*")) {
            jinja_node *spread = jinja_node_new(parsing, JINJA_NODE_SPREAD);
            spread->a = jinja_parse_expression(parsing);
            jinja_nodes_add(parsing, &node->items, spread);
            named = true;
        } else {
            jinja_nodes_add(parsing, &node->items, jinja_parse_expression(parsing));
        }
        if (!jinja_take_sign(parsing, ",")) {
            break;
        }
    }
    jinja_need_sign(parsing, ")");
}

static const jinja_node *parse_call(jinja_parsing *parsing, const jinja_node *callee)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_CALL);
    node->a = callee;
    parse_args(parsing, node);
    return node;
}

const jinja_node *jinja_parse_postfix(jinja_parsing *parsing, const jinja_node *node)
{
    for (;;) {
        if (jinja_take_sign(parsing, ".")) {
            node = parse_member(parsing, node);
        } else if (jinja_take_sign(parsing, "[")) {
            node = parse_item(parsing, node);
        } else if (jinja_at_sign(parsing, "(")) {
            node = parse_call(parsing, node);
        } else {
            return node;
        }
    }
}

static const jinja_node *parse_filter(jinja_parsing *parsing, const jinja_node *subject)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_FILTER);
    node->a = subject;
    node->name = jinja_need_any_name(parsing);
    node->row = jinja_filter_find(node->name);
    if (node->row == NULL) {
        jinja_fail(parsing->work, BASE_ERR_UNSUPPORTED, "the filter '%s' is not known here",
                   node->name);
    }
    if (jinja_at_sign(parsing, "(")) {
        parse_args(parsing, node);
    }
    return node;
}

/* Whether the argument of a test may begin there, without brackets. */
static bool at_argument(const jinja_parsing *parsing)
{
    const jinja_token_kind kind = parsing->token->kind;
    if (kind == JINJA_TOKEN_NAME) {
        return !jinja_at_name(parsing, "else") && !jinja_at_name(parsing, "or") &&
               !jinja_at_name(parsing, "and");
    }
    return kind == JINJA_TOKEN_STRING || kind == JINJA_TOKEN_INT || kind == JINJA_TOKEN_REAL ||
           jinja_at_sign(parsing, "[") || jinja_at_sign(parsing, "{");
}

static const jinja_node *parse_test(jinja_parsing *parsing, const jinja_node *subject)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_TEST);
    node->a = subject;
    node->negative = jinja_take_name(parsing, "not");
    node->name = jinja_need_any_name(parsing);
    node->row = jinja_test_find(node->name);
    if (node->row == NULL) {
        jinja_fail(parsing->work, BASE_ERR_UNSUPPORTED, "the test '%s' is not known here",
                   node->name);
    }
    if (jinja_at_sign(parsing, "(")) {
        parse_args(parsing, node);
    } else if (at_argument(parsing)) {
        if (jinja_at_name(parsing, "is")) {
            jinja_unexpected(parsing);
        }
        jinja_nodes_add(parsing, &node->items,
                        jinja_parse_postfix(parsing, jinja_parse_primary(parsing)));
    }
    return node;
}

const jinja_node *jinja_parse_filters(jinja_parsing *parsing, const jinja_node *node)
{
    for (;;) {
        if (jinja_take_sign(parsing, "|")) {
            node = parse_filter(parsing, node);
        } else if (jinja_take_name(parsing, "is")) {
            node = parse_test(parsing, node);
        } else if (jinja_at_sign(parsing, "(")) {
            node = parse_call(parsing, node);
        } else {
            return node;
        }
    }
}
