/* A template's variables, of JSON. */
#ifndef RANK_JINJA_VARIABLES_H
#define RANK_JINJA_VARIABLES_H

#include "run.h"

struct json_t;

/* Sets a variable for each member. Strings in element i of a list that is `traced` (jinja.h) have the origin i + 1. The JSON is read
 * only now, and its strings are the variables': it must stay until the run ends. */
void jinja_set_variables(jinja_run *run, const struct json_t *variables, const char *const *traced);

#endif
