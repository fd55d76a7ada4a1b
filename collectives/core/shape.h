/* Which ranks give and which take what in an operation, and by which protocol.
 *
 * A rank's contribution is the start of its send buffer. A rank takes one part of the contributions
 * of all ranks, or of the root's, or nothing. It combines the parts in rank order, or copies each
 * to its target. So all kinds are one operation: give, wait for the ranks that something is taken
 * from, take. Pure arithmetic over the operation's own fields. */
#ifndef COLL_SRC_SHAPE_H
#define COLL_SRC_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

/* How an operation's bytes move. The same on every rank. */
typedef enum coll_protocol {
    COLL_PROTOCOL_INLINE = 0, /* in the flags, or nothing moves at all */
    COLL_PROTOCOL_EAGER,      /* copied into shared memory, read there by whoever needs it */
    COLL_PROTOCOL_ZERO_COPY,  /* loads from and stores to peers' arenas */
    COLL_PROTOCOL_STAGED,     /* window by window through staging buffers in shared memory */
    COLL_PROTOCOL_PLAN,       /* a plan over streams */
    COLL_PROTOCOL_UNDECIDED,  /* shared memory: chosen when all ranks have arrived */
} coll_protocol;

typedef enum coll_take {
    COLL_TAKE_NOTHING = 0,
    COLL_TAKE_ROOT,
    COLL_TAKE_ALL,
} coll_take;

typedef struct coll_shape {
    coll_take take;           /* whose contributions this rank takes a part of */
    bool reduces;             /* the parts are combined; else copied */
    int operands;             /* combined: of ranks 0, 1, … */
    bool gives;               /* whether this rank contributes anything */
    size_t give_bytes;        /* its contribution, from the start of send */
    size_t largest_bytes;     /* the largest contribution of any rank: the same on every rank */
    size_t sent_bytes;        /* of this rank's contribution, all that peers take, added up */
    size_t part_offset_bytes; /* where this rank's part lies in each contribution taken */
    size_t target_step_bytes; /* from one rank's part to the next in recv, if all parts are equally
                                 long */
} coll_shape;

/* The shape of a checked operation, on this rank. */
void coll_shape_make(const coll_op *op, coll_shape *shape);

/* Bytes that this rank takes from `source`, and where in recv they go. */
size_t coll_shape_part_bytes(const coll_op *op, int source);
size_t coll_shape_target_bytes(const coll_op *op, int source);

/* Whether a rank contributes anything. */
bool coll_shape_gives(const coll_op *op, int rank);
/* Whether `rank` takes something from `source` in this operation. */
bool coll_shape_takes(const coll_op *op, int rank, int source);

/* Whether this rank waits for a peer's flag. Inline and eager operations wait for the peers that
 * this rank takes something from, all others for every peer. */
bool coll_shape_awaits(const coll_op *op, int peer);

/* The protocol of an operation in shared memory before it is posted: inline or eager by its size,
 * else COLL_PROTOCOL_UNDECIDED. The same on every rank. `own_order`: the operation has to combine
 * in an order other than the canonical one. */
coll_protocol coll_shape_protocol(const coll_op *op, bool own_order);

#endif
