/* A running template: its variables and where its text goes. */
#ifndef RANK_JINJA_RUN_H
#define RANK_JINJA_RUN_H

#include "node.h"
#include "rows.h"
#include "text.h"
#include "work.h"

typedef struct jinja_variable {
    const char *name;
    jinja_value value;
} jinja_variable;

/* The variables of a template, a loop's body or a macro. What is not among them is looked for in those around. */
typedef struct jinja_frame jinja_frame;
struct jinja_frame {
    const jinja_frame *around;
    jinja_variable *at; /* (count) */
    size_t count;
    size_t room;
};

struct jinja_macro {
    const jinja_node *node;
    const jinja_frame *around;
};

struct jinja_loop {
    const jinja_list *items;
    size_t index;
};

typedef struct jinja_run {
    jinja_work *work;
    jinja_frame *frame;
    jinja_text *text;
    const struct tm *now; /* NULL: strftime_now is not defined */
} jinja_run;

void jinja_set_variable(jinja_run *run, const char *name, jinja_value value);
jinja_value jinja_variable_of(jinja_run *run, const char *name);

/* Runs statements up to the end, or to a break or a continue, which it returns. */
typedef enum jinja_flow { JINJA_GOES_ON, JINJA_BREAKS, JINJA_CONTINUES } jinja_flow;
jinja_flow jinja_run_body(jinja_run *run, const jinja_nodes *body);
/* Runs them with variables of their own, which begin as the frame has them; returns the text. */
jinja_value jinja_capture(jinja_run *run, jinja_frame *frame, const jinja_nodes *body);

jinja_value jinja_eval(jinja_run *run, const jinja_node *node);
jinja_value jinja_operate(jinja_run *run, jinja_operator op, jinja_value left, jinja_value right);
bool jinja_compare(jinja_run *run, jinja_operator op, jinja_value left, jinja_value right);

/* object.name and object[key]; undefined if there is none. */
jinja_value jinja_member(jinja_run *run, jinja_value object, const char *name);
jinja_value jinja_item(jinja_run *run, jinja_value object, jinja_value key);
/* bounds: begin, end and step, each none if it is not given. */
jinja_value jinja_slice(jinja_run *run, jinja_value object, const jinja_value bounds[3]);

jinja_value jinja_call_value(jinja_run *run, jinja_value callee, const jinja_args *args);
/* Evaluates a call's arguments. */
jinja_args jinja_eval_args(jinja_run *run, const jinja_nodes *items);

#endif
