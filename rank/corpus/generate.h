/* The corpus: lines made from the grammar, always the same ones.
 *
 * Held out: each verb is kept out of training in at most two frames. They are those with the
 * smallest hash of verb and frame among the frames that use it, and the second has another form
 * than the first. So training has every held-out verb in other frames, and every frame with other
 * verbs. A predicate ("be happy") is held out of its first frame only.
 *
 * One wrong sentence has one correction, in all training and held-out lines together, and no right
 * sentence is a wrong one elsewhere. Both are checked, and a grammar that breaks them is
 * refused. */
#ifndef CORPUS_GENERATE_H
#define CORPUS_GENERATE_H

#include "base/status.h"
#include "grammar.h"
#include "pattern.h"

typedef struct corpus_line {
    char wrong[CORPUS_SENTENCE_BYTES];
    char right[CORPUS_SENTENCE_BYTES];
    const char *rule;
    const char *verb;
    const char *frame;
    bool held_out;
} corpus_line;

typedef struct corpus_lines {
    corpus_line *lines;
    size_t count;
    size_t capacity;
} corpus_lines;

/* All lines in a shuffled order; the caller frees with fini. */
BASE_MUST_CHECK base_status corpus_generate(const corpus_grammar *grammar, corpus_lines *lines,
                                            base_error *reterr);
void corpus_lines_fini(corpus_lines *lines);

/* What JSONL holds between wrong and right in "text". */
#define CORPUS_ARROW " \xe2\x86\x92 "

#endif
