/* Tokens to nodes. */
#ifndef RANK_JINJA_PARSER_H
#define RANK_JINJA_PARSER_H

#include "node.h"

typedef struct jinja_names {
    const char **at; /* (count) */
    size_t count;
    size_t room;
} jinja_names;

/* Parses a template. *names: the variables that it reads. */
jinja_nodes jinja_parse(jinja_work *work, const char *source, size_t bytes, jinja_names *names);

#endif
