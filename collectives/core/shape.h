/* Which ranks give and which take what in an operation over memory that all ranks can read.
 *
 * A rank's contribution is the start of its send buffer; what a rank takes is one part of the
 * contributions of all ranks, of the root's, or of none, and is either combined in rank order or
 * copied to where it belongs. With this every kind is one and the same operation: give, wait for
 * whom something is taken from, take. Pure arithmetic over the operation's own fields. */
#ifndef COLL_SRC_SHAPE_H
#define COLL_SRC_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

typedef enum coll_take {
    COLL_TAKE_NOTHING = 0,
    COLL_TAKE_ROOT,
    COLL_TAKE_ALL,
} coll_take;

typedef struct coll_shape {
    coll_take take;           /* whose contributions this rank takes a part of */
    bool reduces;             /* the parts are combined; else copied */
    bool gives;               /* whether this rank contributes anything */
    size_t give_bytes;        /* its contribution, from the start of send */
    size_t largest_bytes;     /* the largest contribution of any rank: the same on every rank */
    size_t part_offset_bytes; /* where this rank's part lies in each contribution taken */
    size_t target_step_bytes; /* what is taken of two ranks lies so far apart in recv, if parts are
                                 as long as each other */
} coll_shape;

/* The shape of a checked operation, on this rank. */
void coll_shape_make(const coll_op *op, coll_shape *shape);

/* Bytes that this rank takes from `source`, and where in recv they go. */
size_t coll_shape_part_bytes(const coll_op *op, int source);
size_t coll_shape_target_bytes(const coll_op *op, int source);

/* Whether `rank` takes something from `source` in this operation. */
bool coll_shape_takes(const coll_op *op, int rank, int source);

/* Whether this rank waits for a peer's flag: for all of them where buffers may be read in
 * place, else for those it takes something from. */
bool coll_shape_awaits(const coll_op *op, int peer);

/* Inline, eager, or what the posted buffer references will decide (COLL_PROTOCOL_PLAN for now). The
 * same on every rank. `own_order`: the operation has to combine in an order other than the
 * canonical one. */
int coll_shape_protocol(const coll_op *op, bool own_order);

#endif
