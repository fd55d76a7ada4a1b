/* A parsed template: a tree of nodes. It does not change. */
#ifndef RANK_JINJA_NODE_H
#define RANK_JINJA_NODE_H

#include <stdbool.h>

#include "value.h"

typedef enum jinja_node_kind {
    /* expressions */
    JINJA_NODE_LITERAL,  /* value */
    JINJA_NODE_NAME,     /* name */
    JINJA_NODE_LIST,     /* items */
    JINJA_NODE_TUPLE,    /* items */
    JINJA_NODE_DICT,     /* items: key, value, key, value, … */
    JINJA_NODE_MEMBER,   /* a.name */
    JINJA_NODE_ITEM,     /* a[b] */
    JINJA_NODE_SLICE,    /* a[items[0]:items[1]:items[2]]; NULL: not given */
    JINJA_NODE_CALL,     /* a(items) */
    JINJA_NODE_FILTER,   /* a | row(items) */
    JINJA_NODE_TEST,     /* a is row(items) */
    JINJA_NODE_KEYWORD,  /* name=a: an argument */
    JINJA_NODE_SPREAD,   /* *a: arguments */
    JINJA_NODE_NOT,      /* not a */
    JINJA_NODE_AND,      /* a and b */
    JINJA_NODE_OR,       /* a or b */
    JINJA_NODE_SIGNED,   /* -a, +a */
    JINJA_NODE_OPERATOR, /* a op b */
    JINJA_NODE_COMPARE,  /* a, and then items: COMPARED … */
    JINJA_NODE_COMPARED, /* op b */
    JINJA_NODE_CHOICE,   /* a if b else c; c NULL: undefined */
    /* statements */
    JINJA_NODE_TEXT,   /* value */
    JINJA_NODE_PRINT,  /* {{ a }} */
    JINJA_NODE_IF,     /* items: the conditions, each with its body: CASE … */
    JINJA_NODE_CASE,   /* a: the condition, NULL: else; body */
    JINJA_NODE_FOR,    /* targets in a if b: body, or items if there is none */
    JINJA_NODE_SET,    /* targets = a; a NULL: body */
    JINJA_NODE_MACRO,  /* name(targets, with items as their defaults): body */
    JINJA_NODE_SCOPE,  /* body, with variables of its own */
    JINJA_NODE_CALLER, /* a call, a, of a macro that calls this one as caller(targets): body */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
} jinja_node_kind;

typedef enum jinja_operator {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR_DIVIDE,
    JINJA_MODULO,
    JINJA_POWER,
    JINJA_JOIN, /* ~ */
    JINJA_EQUAL,
    JINJA_NOT_EQUAL,
    JINJA_LESS,
    JINJA_LESS_EQUAL,
    JINJA_GREATER,
    JINJA_GREATER_EQUAL,
    JINJA_IN,
    JINJA_NOT_IN,
} jinja_operator;

typedef struct jinja_node jinja_node;
struct jinja_row;

typedef struct jinja_nodes {
    const jinja_node **at; /* (count) */
    size_t count;
    size_t room;
} jinja_nodes;

/* What is set: a variable, or a namespace's member. */
typedef struct jinja_target {
    const char *name;
    const char *member; /* NULL: the variable */
} jinja_target;

typedef struct jinja_targets {
    jinja_target *at; /* (count) */
    size_t count;
    size_t room;
    bool unpacks; /* a tuple, also of one */
} jinja_targets;

struct jinja_node {
    jinja_node_kind kind;
    jinja_operator op;
    uint32_t line;
    bool negative; /* JINJA_NODE_SIGNED: -; JINJA_NODE_TEST: is not */
    const char *name;
    const jinja_node *a;
    const jinja_node *b;
    const jinja_node *c;
    jinja_nodes items;
    jinja_nodes body;
    jinja_targets targets;
    const struct jinja_row *row;
    jinja_value value;
};

#endif
