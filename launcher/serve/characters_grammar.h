/* One character of a set (characters.h) in a JSON string, as steps of a grammar (json_grammar.h).
 * Pure. */
#ifndef LAUNCH_CHARACTERS_GRAMMAR_H
#define LAUNCH_CHARACTERS_GRAMMAR_H

#include "serve/characters.h"
#include "serve/json_grammar.h"

/* Each is written as itself or, if JSON wants an escape, as the shortest one. The steps are called;
 * 0: the set has no character, or only NUL and surrogates. */
launch_step launch_grammar_characters(launch_grammar *grammar, const launch_characters *set);

#endif
