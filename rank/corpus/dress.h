/* A sentence as people type it with care: "he goed to rome" becomes "He goed to Rome." */
#ifndef CORPUS_DRESS_H
#define CORPUS_DRESS_H

#include "grammar.h"
#include "pattern.h"

/* Gives the first word and those of words.tsv's placeholder "capital" a capital letter, and a
 * sentence that is no question a full stop. In place; a sentence without room for the full stop
 * stays as it is. */
void corpus_dress(const corpus_grammar *grammar, char sentence[CORPUS_SENTENCE_BYTES]);

#endif
