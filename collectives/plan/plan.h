/* Plans: what each rank does in an algorithm, as a generator without I/O, clock or memory.
 *
 * A rank's plan is a handful of tracks that run side by side; the steps of one track follow each
 * other. A step moves or combines a contiguous range of blocks, in chunks of an agreed size, and
 * may come after one step of another track: it begins when that track has reached the step, and
 * handles no byte that the step also covers before the step has handled it. That is all the
 * pipelining there is, and all that an executor needs.
 *
 * Blocks: a plan speaks of blocks by index and never of bytes. In the kinds whose buffers have one
 * part per rank (all-gather, reduce-scatter, gather, scatter, all-to-all) block b is rank b's part,
 * and parts may differ in size; in the others the vector is cut into coll_plan_block_count blocks,
 * as equal as can be. All-to-all's block b is what goes to rank b in INPUT, and what came from rank
 * b in OUTPUT.
 *
 * Spaces: INPUT is the caller's send buffer, OUTPUT its recv buffer, SCRATCH memory of the
 * operation's own that holds the blocks coll_plan_scratch names. A buffer that has one part only
 * (all-gather's and gather's INPUT, reduce-scatter's and scatter's OUTPUT) holds the own block
 * alone; where the kind gives a rank no buffer (OUTPUT away from the root of reduce and gather,
 * INPUT away from the root of broadcast and scatter) no step names it, but for the MOVE of a
 * broadcast's root, which is left out where there is no OUTPUT. Plans are right whether INPUT and
 * OUTPUT are in place or apart.
 *
 * Streams: bytes from a rank to another in one channel arrive in the order sent. At most one track
 * of a rank sends to a given (peer, channel), and at most one receives from it.
 *
 * Order: direct, recursive_doubling and halving_doubling combine in the canonical order of
 * tree_order.h, and so does two_level where hosts lie right; ring and tree have orders of their
 * own, described in their files. */
#ifndef COLL_SRC_PLAN_H
#define COLL_SRC_PLAN_H

#include <stdbool.h>

#include "coll/coll.h"
#include "plan/hosts.h"

typedef enum coll_action {
    COLL_ACTION_SEND = 1,    /* source to the peer */
    COLL_ACTION_COPY = 2,    /* from the peer into target */
    COLL_ACTION_COMBINE = 3, /* target = source and what comes from the peer, combined */
    COLL_ACTION_GATHER = 4,  /* target = all members' operands in canonical order, own in source */
    COLL_ACTION_MOVE = 5,    /* source into target, both here; nothing to do where they are one */
    COLL_ACTION_MERGE = 6,   /* target = source and SCRATCH combined; SCRATCH is "incoming" */
} coll_action;

typedef enum coll_space {
    COLL_SPACE_INPUT = 0,
    COLL_SPACE_OUTPUT = 1,
    COLL_SPACE_SCRATCH = 2,
} coll_space;

/* Whose operands a GATHER combines; coll_plan_members lists them. */
typedef enum coll_group {
    COLL_GROUP_ALL = 0,        /* every rank */
    COLL_GROUP_HOST = 1,       /* the ranks of this rank's host */
    COLL_GROUP_LOCAL_RANK = 2, /* of each host the rank with this rank's local rank */
    COLL_GROUP_LEADERS = 3,    /* of each host the rank that deals with the root; the root of its */
} coll_group;

typedef struct coll_plan {
    coll_algorithm algorithm; /* not AUTO */
    coll_kind kind;           /* not BARRIER, SEND or RECEIVE */
    int ranks;
    int rank;
    int root;                /* broadcast, reduce, gather, scatter */
    const coll_hosts *hosts; /* hosts.h; NULL: all on one host */
} coll_plan;

typedef struct coll_step {
    coll_action action;
    int peer; /* SEND, COPY, COMBINE */
    int channel;
    int block; /* the first of the range */
    int block_count;
    coll_space source;
    coll_space target;
    coll_group group;   /* GATHER */
    bool incoming_left; /* COMBINE, MERGE: the incoming block is the left operand */
    bool final;         /* the complete value arises here: an average is divided now */
    int after_track;    /* -1: comes after nothing */
    int after_step;
} coll_step;

/* The most tracks that a plan has. */
#define COLL_PLAN_TRACKS_MAX(ranks) (3 * (ranks) + 6)

/* How many tracks this rank's plan has; some may have no step. */
int coll_plan_track_count(const coll_plan *plan);

/* Writes step `index` (0, 1, …) of the track; false past its last step. */
bool coll_plan_step(const coll_plan *plan, int track, int index, coll_step *step);

/* How many blocks the operation is cut into, the same on every rank. */
int coll_plan_block_count(const coll_plan *plan);

/* Whether the step reads or writes SCRATCH. */
bool coll_step_uses_scratch(const coll_step *step);

/* The blocks that this rank keeps in SCRATCH: [*first, *first + the count returned). Walks the
 * plan; 0 blocks for most. */
int coll_plan_scratch(const coll_plan *plan, int *first);

/* The ranks whose operands a GATHER of the group combines, ascending, this rank among them; writes
 * at most plan->ranks of them and returns how many. */
int coll_plan_members(const coll_plan *plan, coll_group group, int *members);

/* Whether the plan combines in the canonical order; true for kinds that combine nothing. The same
 * on every rank. */
bool coll_plan_is_canonical(const coll_plan *plan);

/* Whether block b of the kind is rank b's part. */
bool coll_kind_is_by_rank(coll_kind kind);

#endif
