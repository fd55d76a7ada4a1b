/* Capitals and a full stop, as careful people type: "he goed to rome" becomes "He goed to Rome." */
#ifndef CORPUS_DRESS_H
#define CORPUS_DRESS_H

#include "grammar.h"
#include "pattern.h"

/* Makes the first word, and those of words.tsv's placeholder "capital", begin with a capital
 * letter, and ends a sentence that is not a question with a full stop. In place. A sentence without
 * room for the full stop stays as it is. */
void corpus_dress(const corpus_grammar *grammar, char sentence[CORPUS_SENTENCE_BYTES]);

#endif
