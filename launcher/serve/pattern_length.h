/* A pattern whose texts have some length, as steps of a grammar (json_grammar.h). Pure. */
#ifndef LAUNCH_PATTERN_LENGTH_H
#define LAUNCH_PATTERN_LENGTH_H

#include "serve/json_grammar.h"

/* The steps from the one with the number `from` on are a pattern's: splits, and a call for each
 * character. The step before `from` ends the text. They are replaced by steps that count the
 * characters. Returns the step that begins; 0: no text of such a length matches. */
launch_step launch_grammar_count(launch_grammar *grammar, const launch_text *text, uint32_t from,
                                 launch_step begin);

#endif
