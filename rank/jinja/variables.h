/* A template's variables, of JSON. */
#ifndef RANK_JINJA_VARIABLES_H
#define RANK_JINJA_VARIABLES_H

#include "jinja.h"
#include "run.h"

/* Sets a variable for each member of what is given. The JSON is read only now, and its strings are the variables':
 * it must stay until the run ends. */
void jinja_set_variables(jinja_run *run, const rank_jinja_given *given);

#endif
