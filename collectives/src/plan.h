/* Plans: what each rank does in an algorithm, as a generator without I/O, clock or memory.
 *
 * A rank's plan is a handful of tracks that run side by side; the steps of one track follow each
 * other. A step moves one block between this rank and one peer, in chunks of an agreed size, and
 * may depend on one earlier step over the same block: chunk c of a step may go as soon as chunk c
 * of the step it comes after is done. That is all the pipelining there is, and all that an executor
 * needs.
 *
 * Blocks: all-reduce is cut into one block per rank by ring and direct, and is one block in tree;
 * broadcast is one block; all-gather's block b is rank b's contribution.
 *
 * Streams: bytes from a rank to another in one lane arrive in the order sent. At most one track of
 * a rank sends to a given (peer, lane), and at most one receives from it.
 *
 * Ring reads the input of combined block b in the order ((r[b+1] + r[b+2]) + …) + r[b]; tree (a
 * single binomial tree, rooted at rank 0) and direct use the canonical order of tree_order.h. */
#ifndef COLL_SRC_PLAN_H
#define COLL_SRC_PLAN_H

#include <stdbool.h>

#include "coll/coll.h"

typedef enum coll_action {
    COLL_ACTION_SEND = 1,    /* block to the peer */
    COLL_ACTION_COPY = 2,    /* block from the peer into the output */
    COLL_ACTION_COMBINE = 3, /* output block = own and incoming block combined */
    COLL_ACTION_GATHER =
        4, /* output block = all ranks' blocks in canonical order, own from input */
} coll_action;

typedef struct coll_plan {
    coll_algorithm algorithm; /* not AUTO */
    coll_kind kind;           /* not BARRIER */
    int ranks;
    int rank;
    int root; /* broadcast */
} coll_plan;

typedef struct coll_step {
    coll_action action;
    int peer; /* not for GATHER */
    int block;
    int lane;
    bool from_input; /* the own bytes are the caller's input, else what is in the output so far */
    bool incoming_left; /* COMBINE: the peer's block is the left operand */
    int after_track;    /* -1: depends on nothing */
    int after_step;
} coll_step;

/* How many tracks this rank's plan has; some may have no step. */
int coll_plan_track_count(const coll_plan *plan);

/* Writes step `index` (0, 1, …) of the track; false past its last step. */
bool coll_plan_step(const coll_plan *plan, int track, int index, coll_step *step);

/* How many blocks the operation is cut into. */
int coll_plan_block_count(const coll_plan *plan);

/* One generator per algorithm, behind coll_plan_step. */
int coll_ring_track_count(const coll_plan *plan);
bool coll_ring_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_binomial_track_count(const coll_plan *plan);
bool coll_binomial_step(const coll_plan *plan, int track, int index, coll_step *step);
int coll_direct_track_count(const coll_plan *plan);
bool coll_direct_step(const coll_plan *plan, int track, int index, coll_step *step);

#endif
