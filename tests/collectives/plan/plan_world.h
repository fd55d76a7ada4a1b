/* The plans of all ranks, played out on symbols: who holds what, combined in which order.
 *
 * A value is an expression over ranks' operands ("r0", "(r0+r1)"), interned so that equal
 * expressions are equal numbers. Every block is two cells, and a stream holds a single cell, so
 * that pipelining and the lack of room are both felt. What a plan must not do (read what was not
 * written, name a buffer that is not there, combine an operand twice, let two tracks use one
 * stream, …) is noted in `broken`, as text. */
#ifndef TEST_COLL_PLAN_WORLD_H
#define TEST_COLL_PLAN_WORLD_H

#include "plan/plan.h"

enum {
    WORLD_RANKS_MAX = 64,
    WORLD_BLOCKS_MAX = 256,
    WORLD_CELLS = 2, /* of a block */
    WORLD_EXPR_NONE = 0,
    WORLD_EXPR_NEUTRAL = 1, /* of no rank */
};

typedef struct world_value {
    uint32_t expr;  /* WORLD_EXPR_NONE: nothing was written here */
    uint16_t block; /* of the sender's INPUT */
    uint8_t cell;
    bool final; /* complete, and marked so */
} world_value;

typedef struct world_case {
    coll_plan plan; /* rank is set for each */
    bool in_place;
    int slow; /* from 1: this rank moves only when no other can; 0: they take turns. Where a step lacks
                 the wait for another one, such a rank shows it. */
} world_case;

/* Plays the case; NULL, or what went wrong. */
const char *world_play(const world_case *c);

/* What the case left in OUTPUT, after world_play. */
world_value world_output(int rank, int block, int cell);

/* Expressions. */
uint32_t world_leaf(int rank);
uint32_t world_combine(uint32_t left, uint32_t right);
/* The canonical order over ranks [first, first + count). */
uint32_t world_canonical(int first, int count);

#endif
