/* A trace: the plans of all ranks, played on symbols in rounds, so that a reader sees who sends
 * which block to whom, and what each rank then holds.
 *
 * A value is a text. "A0" is what rank 0 has of block A in the beginning, and "(A1+A2)+A0" a sum in
 * the order in which it was added up; "0" is a reduction's neutral element. In a round, each rank
 * sends all that was there when the round began. Then it takes what has come, as far as its plan
 * goes. So the number of rounds is that of messages which wait for each other; nothing has a
 * duration. Every algorithm is played alike. */
#ifndef COLL_SIMULATE_TRACE_H
#define COLL_SIMULATE_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "plan/plan.h"

enum {
    TRACE_RANKS_MAX = 8,
    TRACE_BLOCKS_MAX = TRACE_RANKS_MAX,
    TRACE_ROUNDS_MAX = 32,
    TRACE_MESSAGES_MAX = 512,
    TRACE_TEXT_BYTES = 48, /* of a sum of TRACE_RANKS_MAX operands */
    TRACE_LINE_BYTES = 256,
    TRACE_COLUMNS = 3 + TRACE_BLOCKS_MAX,
};

typedef struct trace_value {
    char text[TRACE_TEXT_BYTES]; /* empty: nothing is there */
    unsigned ranks;              /* whose operands are in it: bit r for rank r */
} trace_value;

/* What a rank holds of a block. */
typedef struct trace_cell {
    trace_value held;
    trace_value aside; /* what it will combine with that later */
} trace_cell;

typedef struct trace_message {
    int from;
    int to;
    int channel;
    int block; /* the first of the range */
    int block_count;
    int sent_round;
    int taken_round; /* -1: still under way */
    bool aside;      /* not what the sender's cell holds, but what came aside */
    trace_value values[TRACE_BLOCKS_MAX];
} trace_message;

typedef struct trace_result {
    coll_plan plan; /* rank is not read */
    int block_count;
    int round_count;
    /* At the start, and after each round. */
    trace_cell cells[TRACE_ROUNDS_MAX + 1][TRACE_RANKS_MAX][TRACE_BLOCKS_MAX];
    bool computed[TRACE_RANKS_MAX][TRACE_BLOCKS_MAX]; /* this rank added the last operand */
    int message_count;
    trace_message messages[TRACE_MESSAGES_MAX]; /* in the order in which they were sent */
} trace_result;

/* Plays the plan of 2 to TRACE_RANKS_MAX ranks to its end; plan->rank is not read. COLL_ERR_STATE,
 * and who is stuck, if the schedule does not complete; COLL_ERR_LIMIT with more ranks, messages or
 * rounds than there is room for; COLL_ERR_MEMORY. */
COLL_MUST_CHECK coll_status trace_run(const coll_plan *plan, trace_result *result,
                                      coll_error *reterr);

/* out = left + right. */
void trace_add(const trace_value *left, const trace_value *right, trace_value *out);

/* What the rank has of the block before anything is sent. */
void trace_operand(int rank, int block, trace_value *out);

/* out = the values combined in the canonical order; `values` is written over. */
void trace_canonical(trace_value *values, int count, trace_value *out);

/* Whether the value is the sum of all ranks; never of a scan. */
bool trace_is_complete(const trace_result *played, const trace_value *value);

/* "all_reduce by ring: 3 ranks, 3 blocks, 4 rounds" */
void trace_title(const trace_result *played, char text[TRACE_LINE_BYTES]);

/* A rank's line of the table: its name, what it sends in the round, what it takes, and a block each. */
typedef struct trace_line {
    char text[TRACE_COLUMNS][TRACE_LINE_BYTES];
} trace_line;

/* Row 0 is the start, row r + 1 the end of round r. */
void trace_line_make(const trace_result *played, int row, int rank, trace_line *made);

/* Appends the blocks of a message, "AB"; or "[A0+A1]", the value, where the sender holds another one
 * as well. `text` has room for TRACE_LINE_BYTES. */
void trace_append_blocks(char *text, const trace_message *message);

/* Prints the rounds as a table, what its cells mean, and how each block's sum was added up. */
void trace_print(const trace_result *played, FILE *out);

/* Prints what the cells mean alone. */
void trace_print_key(const trace_result *played, FILE *out);

/* Prints the sums alone; nothing where nothing is added up. */
void trace_print_sums(const trace_result *played, FILE *out);

#endif
