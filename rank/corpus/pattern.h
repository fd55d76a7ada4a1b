/* Fills a sentence pattern: "{subject} didn't {base} {object} {when}".
 *
 * The chosen subject, object, time or modal depends only on the seed and the placeholder's name. So
 * the wrong and the right pattern of a line agree if they have the same seed. */
#ifndef CORPUS_PATTERN_H
#define CORPUS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "grammar.h"

enum { CORPUS_SENTENCE_BYTES = 160 }; /* with the final NUL */

typedef struct corpus_fill {
    const corpus_grammar *grammar;
    const corpus_verb *verb;
    const corpus_subject *subject;
    uint64_t seed;
} corpus_fill;

typedef enum corpus_filled {
    CORPUS_FILLED,
    CORPUS_NOT_FOR_THIS, /* the placeholder has nothing for this verb or subject */
    CORPUS_UNKNOWN_PLACEHOLDER,
    CORPUS_TOO_LONG,
} corpus_filled;

/* Picks the subject for a wrong pattern: {he} asks for one like he, {they} for i and the others. */
const corpus_subject *corpus_pick_subject(const corpus_grammar *grammar, const char *wrong,
                                          uint64_t seed);

corpus_filled corpus_pattern_fill(const corpus_fill *fill, const char *pattern,
                                  char sentence[CORPUS_SENTENCE_BYTES]);

/* SplitMix64's output function (Steele, Lea and Flood 2014), and FNV-1a over a text mixed into a
 * seed. */
uint64_t corpus_mix(uint64_t value);
uint64_t corpus_hash(uint64_t seed, const char *text);

#endif
