/* Strings cut into parts, and put together. */
#ifndef RANK_JINJA_LINES_H
#define RANK_JINJA_LINES_H

#include "text.h"

/* The lines, as Python's str.splitlines: none behind the last line end. keeps: with their ends. */
jinja_value *jinja_lines_of(jinja_work *work, const jinja_string *string, bool keeps,
                            size_t *count);

/* A list of strings that grows. One of zeros is empty. */
typedef struct jinja_parts {
    jinja_value *at; /* (count) */
    size_t count;
    size_t room;
} jinja_parts;

void jinja_parts_add(jinja_work *work, jinja_parts *parts, jinja_string part);

#endif
