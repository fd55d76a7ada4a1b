/* What templates can call: filters, tests, methods of strings and dicts, and global functions. A table each, whose
 * rows bind arguments to parameters by name and place. */
#ifndef RANK_JINJA_ROWS_H
#define RANK_JINJA_ROWS_H

#include "limits.h"
#include "value.h"

struct jinja_run;

typedef struct jinja_args {
    const jinja_value *at; /* (count) by place */
    size_t count;
    const jinja_pair *named; /* (named_count): strings and values */
    size_t named_count;
} jinja_args;

/* subject: what is filtered, tested, or has the method. how: the row's. slots: the parameters' arguments, JINJA_MISSING
 * where none was given. args: all as they were given. */
typedef struct jinja_call {
    jinja_value subject;
    int how;
    jinja_value slots[RANK_JINJA_SLOTS_MAX];
    const jinja_args *args;
} jinja_call;

typedef jinja_value jinja_function(struct jinja_run *run, const jinja_call *call);

typedef struct jinja_row {
    const char *name;
    jinja_function *function;
    int how; /* which of its rows, to a function that has several */
    const char *params[RANK_JINJA_SLOTS_MAX]; /* up to the first NULL */
    unsigned needed;                          /* so many must be given */
    bool takes_any;                           /* arguments are not bound */
} jinja_row;

/* NULL: there is none of that name. */
const jinja_row *jinja_filter_find(const char *name);
const jinja_row *jinja_test_find(const char *name);
const jinja_row *jinja_global_find(const char *name);
/* What the value has as a method of that name. */
const jinja_row *jinja_method_find(jinja_value object, const char *name);

/* Calls it. Fails if the arguments do not fit. */
jinja_value jinja_row_call(struct jinja_run *run, const jinja_row *row, jinja_value subject,
                           const jinja_args *args);

#endif
