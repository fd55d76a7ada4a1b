/* Where a text stands in a grammar: all ways in which the grammar can have come to it, as threads. Pure. */
#ifndef RANK_GENERATE_GRAMMAR_STATE_H
#define RANK_GENERATE_GRAMMAR_STATE_H

#include "proto/grammar.h"

/* Where there are more, the last are left out: what only they lead to is not taken. */
enum { RANK_GRAMMAR_THREADS_MAX = 256 };

typedef struct rank_grammar_thread {
    uint16_t step;                          /* one that reads a byte */
    uint8_t begun;                          /* proto_grammar_plain: of a character's bytes */
    uint8_t depth;                          /* calls that have not returned, */
    uint16_t back[PROTO_GRAMMAR_DEPTH_MAX]; /* and where they return to */
} rank_grammar_thread;

typedef struct rank_grammar_state {
    int32_t count;
    int32_t ends; /* 1: the text may end here */
    int32_t work; /* from the state before: steps and threads that were looked at */
    rank_grammar_thread threads[RANK_GRAMMAR_THREADS_MAX];
} rank_grammar_state;

/* The state before the first byte. steps: checked. */
void rank_grammar_begin(const proto_grammar_step *steps, rank_grammar_state *state);

/* The state behind one more byte. False: the grammar does not take it. */
bool rank_grammar_take(const proto_grammar_step *steps, const rank_grammar_state *from,
                       uint8_t byte, rank_grammar_state *to);

/* Whether two states take the same texts, since they have the same threads. */
bool rank_grammar_is_same(const rank_grammar_state *a, const rank_grammar_state *b);

/* How many plain characters in turn are taken, whichever they are; at most `most`. 0, too, where
 * only some of more would be. */
int rank_grammar_plain_run(const proto_grammar_step *steps, const rank_grammar_state *state,
                           int most);

#endif
