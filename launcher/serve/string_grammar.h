/* Strings as steps of a grammar (json_grammar.h): any, of some length, or of a pattern. Pure.
 *
 * A character counts once, however it is written. No string has the character NUL. */
#ifndef LAUNCH_STRING_GRAMMAR_H
#define LAUNCH_STRING_GRAMMAR_H

#include "serve/json_grammar.h"

launch_step launch_grammar_string(launch_grammar *grammar, launch_step next);

/* *why: NULL, or why no grammar is made of the pattern. */
launch_step launch_grammar_string_of(launch_grammar *grammar, const launch_text *text,
                                     launch_step next, const char **why);

/* One character in any of its forms: a step to be called. */
launch_step launch_grammar_character(launch_grammar *grammar);

#endif
