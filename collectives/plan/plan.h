/* Plans: what each rank does in an algorithm. A plan is computed step by step, without I/O, clock
 * or memory. Each algorithm is one file of this directory; plan.c has the table.
 *
 * Tracks. A rank's plan has a few tracks that run side by side. The steps of one track run one
 * after the other. A step moves or combines a contiguous range of blocks, in chunks of an agreed
 * size. It may come after one step of another track. Then it begins when that track has reached
 * that step, and waits with each byte until that step has handled the byte. All pipelining is
 * expressed so.
 *
 * Blocks. A plan names blocks by index, never bytes. For kinds whose buffers have one part per rank
 * (all-gather, reduce-scatter, gather, scatter, all-to-all), block b is rank b's part, and parts
 * may differ in size. For all other kinds the vector is cut into coll_plan_block_count blocks, as
 * equal as possible. In an all-to-all, block b is what goes to rank b in INPUT, and what came from
 * rank b in OUTPUT.
 *
 * Spaces. INPUT is the caller's send buffer, OUTPUT its recv buffer. SCRATCH is memory of the
 * operation for the blocks that coll_plan_scratch names. A buffer with one part only (INPUT of
 * all-gather and gather, OUTPUT of reduce-scatter and scatter) holds this rank's own block. If the
 * kind gives a rank no buffer, no step names it: OUTPUT away from the root of reduce and gather,
 * INPUT away from the root of broadcast and scatter. There is one exception: the MOVE of a
 * broadcast's root, which is skipped if there is no OUTPUT. Plans are correct in place and out of
 * place.
 *
 * Streams. The bytes from one rank to another in one channel arrive in the order in which they were
 * sent. At most one track of a rank sends to a given (peer, channel), and at most one receives from
 * it.
 *
 * Order. direct, recursive_doubling and halving_doubling combine in the canonical order of
 * tree_order.h, scans in that of the ranks of each prefix. So does two_level where every host has
 * the next 2^k ranks. ring and tree have orders of their own, which their files describe. */
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
    COLL_ACTION_MOVE = 5,    /* source into target, both on this rank; nothing if they are one */
    COLL_ACTION_MERGE = 6,   /* target = source and SCRATCH combined; SCRATCH is "incoming" */
    COLL_ACTION_FILL = 7,    /* target = the reduction's neutral element */
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
    COLL_GROUP_LOCAL_RANK = 2, /* on each host, the rank with this rank's local rank */
    COLL_GROUP_LEADERS = 3,    /* the root, and of each other host the rank that talks to it */
    COLL_GROUP_PREFIX = 4,     /* the ranks below this one, and of a SCAN this one */
} coll_group;

/* The generators, which each have a file. An algorithm that has no form of its own for a kind borrows
 * it from another. */
typedef enum coll_form {
    COLL_FORM_RING = 0,
    COLL_FORM_TREE,
    COLL_FORM_DIRECT,
    COLL_FORM_DOUBLING,
    COLL_FORM_HALVING,
    COLL_FORM_TWO_LEVEL,
    COLL_FORM_BINOMIAL,
    COLL_FORM_DISSEMINATION,
    COLL_FORM_SCAN,
} coll_form;

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
    /* COPY, COMBINE: before, SCRATCH = what comes from the peer, on the left, and total, combined */
    bool adds_total;
    coll_space total;
    int after_track; /* the step of another track that this one follows; -1: none */
    int after_step;
} coll_step;

/* The most tracks that a plan has. */
#define COLL_PLAN_TRACKS_MAX(ranks) (3 * (ranks) + 6)

/* The form of an algorithm (not AUTO) for a kind that has plans. */
coll_form coll_plan_form(coll_algorithm algorithm, coll_kind kind);

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

#endif
