/* Strings as steps of a grammar (json_grammar.h): any, of some length. Pure.
 *
 * A character counts once, however it is written. No string has the character NUL. */
#ifndef LAUNCH_STRING_GRAMMAR_H
#define LAUNCH_STRING_GRAMMAR_H

#include "serve/json_grammar.h"

launch_step launch_grammar_string(launch_grammar *grammar, launch_step next);

launch_step launch_grammar_string_of(launch_grammar *grammar, const launch_text *text,
                                     launch_step next);

#endif
