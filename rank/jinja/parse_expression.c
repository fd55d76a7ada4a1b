/* Expressions with their operators, from the loosest to the tightest. Called by parser.c. */
#include <string.h>

#include "parsing.h"

static const jinja_node *pair(jinja_parsing *parsing, jinja_node_kind kind, const jinja_node *a,
                              const jinja_node *b)
{
    jinja_node *node = jinja_node_new(parsing, kind);
    node->a = a;
    node->b = b;
    return node;
}

static const jinja_node *operation(jinja_parsing *parsing, jinja_operator op, const jinja_node *a,
                                   const jinja_node *b)
{
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_OPERATOR);
    node->op = op;
    node->a = a;
    node->b = b;
    return node;
}

static const jinja_node *parse_unary(jinja_parsing *parsing, bool filters)
{
    const jinja_node *node = NULL;
    jinja_enter(parsing->work);
    if (jinja_at_sign(parsing, "-") || jinja_at_sign(parsing, "+")) {
        jinja_node *made = jinja_node_new(parsing, JINJA_NODE_SIGNED);
        made->negative = jinja_at_sign(parsing, "-");
        parsing->token++;
        made->a = parse_unary(parsing, false);
        node = made;
    } else {
        node = jinja_parse_primary(parsing);
    }
    node = jinja_parse_postfix(parsing, node);
    jinja_leave(parsing->work);
    return filters ? jinja_parse_filters(parsing, node) : node;
}

static const jinja_node *parse_power(jinja_parsing *parsing)
{
    const jinja_node *node = parse_unary(parsing, true);
    while (jinja_take_sign(parsing, "**")) {
        node = operation(parsing, JINJA_POWER, node, parse_unary(parsing, true));
    }
    return node;
}

static const jinja_node *parse_product(jinja_parsing *parsing)
{
    static const struct {
        const char *sign;
        jinja_operator op;
    } signs[] = {{"*", JINJA_MULTIPLY},
                 {"/", JINJA_DIVIDE},
                 {"//", JINJA_FLOOR_DIVIDE},
                 {"%", JINJA_MODULO}};
    const jinja_node *node = parse_power(parsing);
    for (size_t i = 0; i < sizeof signs / sizeof *signs;) {
        if (jinja_take_sign(parsing, signs[i].sign)) {
            node = operation(parsing, signs[i].op, node, parse_power(parsing));
            i = 0;
        } else {
            i++;
        }
    }
    return node;
}

static const jinja_node *parse_join(jinja_parsing *parsing)
{
    const jinja_node *node = parse_product(parsing);
    while (jinja_take_sign(parsing, "~")) {
        node = operation(parsing, JINJA_JOIN, node, parse_product(parsing));
    }
    return node;
}

static const jinja_node *parse_sum(jinja_parsing *parsing)
{
    const jinja_node *node = parse_join(parsing);
    while (jinja_at_sign(parsing, "+") || jinja_at_sign(parsing, "-")) {
        const jinja_operator op = jinja_at_sign(parsing, "+") ? JINJA_ADD : JINJA_SUBTRACT;
        parsing->token++;
        node = operation(parsing, op, node, parse_join(parsing));
    }
    return node;
}

/* Passes the sign of a comparison. */
static bool take_comparison(jinja_parsing *parsing, jinja_operator *op)
{
    static const struct {
        const char *sign;
        jinja_operator op;
    } signs[] = {{"==", JINJA_EQUAL},      {"!=", JINJA_NOT_EQUAL}, {"<", JINJA_LESS},
                 {"<=", JINJA_LESS_EQUAL}, {">", JINJA_GREATER},    {">=", JINJA_GREATER_EQUAL}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (jinja_take_sign(parsing, signs[i].sign)) {
            *op = signs[i].op;
            return true;
        }
    }
    if (jinja_take_name(parsing, "in")) {
        *op = JINJA_IN;
        return true;
    }
    const jinja_token *next = parsing->token->kind == JINJA_TOKEN_NAME ? parsing->token + 1 : NULL;
    if (next != NULL && jinja_at_name(parsing, "not") && next->kind == JINJA_TOKEN_NAME &&
        strcmp(next->name, "in") == 0) {
        parsing->token += 2;
        *op = JINJA_NOT_IN;
        return true;
    }
    return false;
}

static const jinja_node *parse_comparison(jinja_parsing *parsing)
{
    const jinja_node *first = parse_sum(parsing);
    jinja_node *node = NULL;
    jinja_operator op = JINJA_EQUAL;
    while (take_comparison(parsing, &op)) {
        jinja_node *compared = jinja_node_new(parsing, JINJA_NODE_COMPARED);
        compared->op = op;
        compared->b = parse_sum(parsing);
        if (node == NULL) {
            node = jinja_node_new(parsing, JINJA_NODE_COMPARE);
            node->a = first;
        }
        jinja_nodes_add(parsing, &node->items, compared);
    }
    return node != NULL ? node : first;
}

static const jinja_node *parse_not(jinja_parsing *parsing)
{
    if (!jinja_take_name(parsing, "not")) {
        return parse_comparison(parsing);
    }
    jinja_enter(parsing->work);
    const jinja_node *node = pair(parsing, JINJA_NODE_NOT, parse_not(parsing), NULL);
    jinja_leave(parsing->work);
    return node;
}

static const jinja_node *parse_and(jinja_parsing *parsing)
{
    const jinja_node *node = parse_not(parsing);
    while (jinja_take_name(parsing, "and")) {
        node = pair(parsing, JINJA_NODE_AND, node, parse_not(parsing));
    }
    return node;
}

const jinja_node *jinja_parse_or(jinja_parsing *parsing)
{
    const jinja_node *node = parse_and(parsing);
    while (jinja_take_name(parsing, "or")) {
        node = pair(parsing, JINJA_NODE_OR, node, parse_and(parsing));
    }
    return node;
}

const jinja_node *jinja_parse_expression(jinja_parsing *parsing)
{
    jinja_enter(parsing->work);
    const jinja_node *node = jinja_parse_or(parsing);
    while (jinja_take_name(parsing, "if")) {
        jinja_node *choice = jinja_node_new(parsing, JINJA_NODE_CHOICE);
        choice->a = node;
        choice->b = jinja_parse_or(parsing);
        choice->c = jinja_take_name(parsing, "else") ? jinja_parse_expression(parsing) : NULL;
        node = choice;
    }
    jinja_leave(parsing->work);
    return node;
}

/* Whether nothing can follow in a tuple. */
static bool at_tuple_end(const jinja_parsing *parsing)
{
    const jinja_token_kind kind = parsing->token->kind;
    return kind == JINJA_TOKEN_PRINT_END || kind == JINJA_TOKEN_TAG_END ||
           kind == JINJA_TOKEN_END || jinja_at_sign(parsing, ")");
}

const jinja_node *jinja_parse_tuple(jinja_parsing *parsing, bool choices)
{
    const jinja_node *first = choices ? jinja_parse_expression(parsing) : jinja_parse_or(parsing);
    if (!jinja_at_sign(parsing, ",")) {
        return first;
    }
    jinja_node *node = jinja_node_new(parsing, JINJA_NODE_TUPLE);
    jinja_nodes_add(parsing, &node->items, first);
    while (jinja_take_sign(parsing, ",") && !at_tuple_end(parsing)) {
        jinja_nodes_add(parsing, &node->items,
                        choices ? jinja_parse_expression(parsing) : jinja_parse_or(parsing));
    }
    return node;
}
