/* Numbers between bounds, as steps of a grammar (json_grammar.h). Pure.
 *
 * Such a number has no exponent, and LAUNCH_NUMBER_DIGITS_MAX digits at most in front of its point
 * and behind it together: as doubles, two of them that differ are not the same. So a number that is
 * above a bound as a text is above it for each reader. */
#ifndef LAUNCH_NUMBER_GRAMMAR_H
#define LAUNCH_NUMBER_GRAMMAR_H

#include "serve/json_grammar.h"

typedef struct launch_bounds {
    const struct json_t *low; /* a number; NULL: there is none */
    const struct json_t *high;
    bool low_open; /* the bound itself is out */
    bool high_open;
} launch_bounds;

/* 0: there is no such number. */
launch_step launch_grammar_bounded(launch_grammar *grammar, const launch_bounds *bounds,
                                   bool integer, launch_step next);

#endif
