/* Strings of a pattern (pattern.h), as steps of a grammar (json_grammar.h). Pure. */
#ifndef LAUNCH_PATTERN_GRAMMAR_H
#define LAUNCH_PATTERN_GRAMMAR_H

#include "serve/json_grammar.h"

/* The step with which such a string begins, to be called; text->pattern is not NULL. *why: NULL, or
 * why there is none. */
launch_step launch_grammar_pattern(launch_grammar *grammar, const launch_text *text,
                                   const char **why);

#endif
