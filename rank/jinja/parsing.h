/* What the parser's parts share: statements (parser.c), expressions (parse_expression.c, parse_primary.c). */
#ifndef RANK_JINJA_PARSING_H
#define RANK_JINJA_PARSING_H

#include "lexer.h"
#include "parser.h"

typedef struct jinja_parsing {
    jinja_work *work;
    const jinja_token *token; /* the next one */
    jinja_names *names;
    unsigned loops; /* around the statement */
} jinja_parsing;

jinja_node *jinja_node_new(jinja_parsing *parsing, jinja_node_kind kind);
void jinja_nodes_add(jinja_parsing *parsing, jinja_nodes *nodes, const jinja_node *node);

/* Whether the next token is that name or that sign. take: passes it if it is. need: fails if it is not. */
bool jinja_at_name(const jinja_parsing *parsing, const char *name);
bool jinja_at_sign(const jinja_parsing *parsing, const char *sign);
bool jinja_take_name(jinja_parsing *parsing, const char *name);
bool jinja_take_sign(jinja_parsing *parsing, const char *sign);
void jinja_need_sign(jinja_parsing *parsing, const char *sign);
const char *jinja_need_any_name(jinja_parsing *parsing);
BASE_NORETURN void jinja_unexpected(jinja_parsing *parsing);

/* An expression; `a if b else c` is one too. */
const jinja_node *jinja_parse_expression(jinja_parsing *parsing);
/* One without a choice, as stands before `if` in a loop. */
const jinja_node *jinja_parse_or(jinja_parsing *parsing);
/* One, or several with commas: a tuple. choices: whether each may be a choice. */
const jinja_node *jinja_parse_tuple(jinja_parsing *parsing, bool choices);

/* A literal, a name, or what is in brackets. */
const jinja_node *jinja_parse_primary(jinja_parsing *parsing);
/* The members, items and calls behind it. */
const jinja_node *jinja_parse_postfix(jinja_parsing *parsing, const jinja_node *node);
/* The filters and tests, and calls, behind it. */
const jinja_node *jinja_parse_filters(jinja_parsing *parsing, const jinja_node *node);

#endif
