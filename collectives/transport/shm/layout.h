/* What lies in a rank's shared memory, and what a rank remembers of its peers'.
 *
 * A rank has one segment per communicator, which it alone writes (but for the doorbell,
 * and claims and results of slices that others may take, slices.c). Whatever is read
 * from a peer's and decides what is done is read once and checked before use: a peer can spoil
 * results, and make the communicator fail, no more. */
#ifndef COLL_SRC_SHM_LAYOUT_H
#define COLL_SRC_SHM_LAYOUT_H

#include "core/op.h"

typedef struct shm_counter {
    _Alignas(128) _Atomic uint64_t value;
} shm_counter;

typedef enum shm_slumber {
    SHM_AWAKE = 0,
    SHM_ASLEEP = 1,  /* on the doorbell's futex */
    SHM_POLLING = 2, /* on sockets, and an eventfd that stands for the doorbell (hybrid.c) */
} shm_slumber;

/* A rank's doorbell: in its segment of the world communicator, for all its communicators. Peers
 * look at the first cache line after whatever they publish, so it holds all that could concern them
 * then. */
typedef struct shm_doorbell {
    _Alignas(128) _Atomic uint32_t asleep; /* a shm_slumber */
    _Atomic uint32_t failures;             /* communicators of this rank that have failed */
    _Alignas(128) _Atomic uint32_t rung;   /* the futex */
} shm_doorbell;

/* A failure notice: why this rank gave up the communicator. */
typedef struct shm_failure_notice {
    _Alignas(128) _Atomic uint32_t set;
    int32_t status;
    uint32_t origin; /* 1 + the rank that failed first; 0: this one */
    char text[COLL_ERROR_MESSAGE_BYTES];
} shm_failure_notice;

/* What stands at the start of a segment; then the slots, the staging buffers, and the frames. */
typedef struct shm_segment {
    shm_doorbell doorbell;
    shm_counter finished;
    shm_counter staged;   /* windows that this rank has put into its staging buffers */
    shm_counter consumed; /* windows of which this rank has taken all that it takes */
    shm_counter reduced;  /* rounds in which this rank's slice is done */
    shm_counter claimed;  /* the rank that does this rank's slice; written by that rank */
    coll_flag flags[COLL_FLAG_COUNT];
    shm_failure_notice failure_notice;
    shm_counter waits; /* ranks that this one has been waiting for, a bit for each */
    shm_counter sent[COLL_CHANNELS][COLL_RANKS_MAX];  /* frames put for a peer */
    shm_counter taken[COLL_CHANNELS][COLL_RANKS_MAX]; /* frames of a peer's that were taken */
} shm_segment;

typedef struct shm_peer {
    uint64_t seen;     /* flags up to this operation were compared with this rank's own */
    uint64_t done;     /* the peer has done its part of all operations up to this */
    uint64_t consumed; /* the peer needs no window up to this any more */
} shm_peer;

typedef struct shm_comm {
    shm_segment *segments[COLL_RANKS_MAX]; /* by rank in the communicator; own included */
    /* This rank's own copies of its counters, and the last it saw of the other side's. */
    uint64_t sent[COLL_CHANNELS][COLL_RANKS_MAX];
    uint64_t sent_taken[COLL_CHANNELS][COLL_RANKS_MAX];
    uint64_t taken[COLL_CHANNELS][COLL_RANKS_MAX];
    shm_peer peers[COLL_RANKS_MAX];
    uint64_t peers_done;                    /* no peer's `done` is less */
    uint64_t windows;                       /* of all operations whose own part is done, */
    uint64_t ring_first;                    /* the first window that is as long as the last, */
    size_t ring_room_bytes;                 /* which is so long at most */
    uint64_t rounds;                        /* and their rounds of slices */
    uint64_t words[COLL_FLAG_COUNT];        /* what this rank's flags show */
    coll_descriptor shown[COLL_FLAG_COUNT]; /* and the descriptors beside them */
    uint32_t shown_digests[COLL_FLAG_COUNT];
} shm_comm;

typedef struct shm_context {
    shm_doorbell *doorbells[COLL_RANKS_MAX];
    uint32_t failures_seen[COLL_RANKS_MAX];
    int doorbell_fds[COLL_RANKS_MAX]; /* eventfds of peers that may sleep polling; -1 */
} shm_context;

/* Where a rank's contribution to an operation lies, if it went by a slot. */
static inline uint8_t *shm_slot(shm_segment *segment, uint64_t sequence)
{
    return (uint8_t *)segment + sizeof(shm_segment) +
           sequence % COLL_SHM_SLOTS * COLL_SHM_SLOT_BYTES;
}

/* A rank's staging buffer. */
static inline uint8_t *shm_staging(shm_segment *segment)
{
    return (uint8_t *)segment + sizeof(shm_segment) + (size_t)COLL_SHM_SLOTS * COLL_SHM_SLOT_BYTES;
}

/* shm.c */

/* Size of a rank's segment, frames included. */
size_t coll_shm_segment_bytes(int ranks);

/* Wakes all peers of the communicator that have gone to sleep. */
void coll_shm_wake_peers(coll_comm *comm);
/* The same after something was published; and receives the failure notices of peers. */
void coll_shm_published(coll_comm *comm);
/* The same after something was published by a plain store. */
void coll_shm_notify(coll_comm *comm);

/* Shows peers how this rank sleeps, or that it is awake. */
void coll_shm_slumber(coll_context *context, shm_slumber how);

/* credit.c */

enum { COLL_FLAG_QUIET = 1 }; /* in a flag's word: its rank has done all earlier operations */

/* A rank's flag of an operation. */
static inline const coll_flag *coll_shm_flag(const shm_comm *link, int rank, uint64_t sequence)
{
    return &link->segments[rank]->flags[sequence % COLL_FLAG_COUNT];
}

/* Whether the flag of this operation may be written. */
bool coll_shm_may_post(const coll_op *op);
/* Whether the peer is what keeps op from being posted. */
bool coll_shm_withholds(const coll_op *op, int peer);
/* Compares a peer's flags with this rank's own up to operation `until`, as far as they have come.
 * False if they differ. */
bool coll_shm_walk(coll_comm *comm, int peer, uint64_t until);
/* Fails the communicator over a flag that is not this rank's; false. */
bool coll_shm_fail_flag(coll_comm *comm, int peer, uint64_t sequence, uint64_t word);

/* protocol.c: functions of the transport's table. */
void coll_shm_post(coll_op *op, const void *payload, size_t payload_bytes);
/* The same for peers that are awake: coll_shm_notify wakes those that sleep. */
void coll_shm_show(coll_op *op);
void coll_shm_advance(coll_op *op, bool *moved);
/* The same for a rank that has nothing else to do: looks so many times for what it waits for. */
void coll_shm_advance_looking(coll_op *op, unsigned looks, bool *moved);

/* copies.c */

/* Whether all of op goes by flags, or slots, wherever buffers lie. */
static inline bool coll_shm_copies(const coll_op *op)
{
    return op->protocol == COLL_PROTOCOL_INLINE
               ? op->comm->size > 1
               : op->protocol == COLL_PROTOCOL_EAGER &&
                     (op->desc.kind != COLL_ALL_REDUCE || op->total_bytes <= COLL_SHM_COPY_BYTES);
}

/* While peers are on their way: copies what of recv is this rank's own already. */
void coll_shm_keep(coll_op *op);
/* Whether the flags of all that op waits for show it, each looked at so many times. */
bool coll_shm_arrived(coll_op *op, unsigned looks);
/* Takes what this rank takes of copied contributions. */
void coll_shm_take_copies(coll_op *op);
/* All of an operation that coll_shm_copies, was shown, and after which none was; false: not all
 * have arrived. */
bool coll_shm_copy(coll_op *op, unsigned looks);

/* run.c: another one. */
bool coll_shm_run(coll_comm *comm, const coll_op_desc *desc, coll_status *status,
                  coll_error *reterr);

/* zero_copy.c */

/* Whether every buffer that op needs lies in an arena; refs are all ranks', as
 * they posted them. Fills sources and targets.
 * A reference outside its arena fails the communicator. */
bool coll_zero_copy_fits(coll_op *op, const coll_buffer_ref *refs);
/* One piece of this rank's part, or of op->slice; true when that is done. */
bool coll_zero_copy_advance(coll_op *op);
/* Whether op cannot end before `peer` has done its part,
 * which reads or writes this rank's memory. */
bool coll_zero_copy_awaits(const coll_op *op, int peer);

/* slices.c: slices of a round, which ranks do for themselves, or for each other. */

enum {
    COLL_SLICE_NONE = -1,  /* all are taken */
    COLL_SLICE_LATER = -2, /* all but some whose last round has not ended */
};

/* Rank `slice`'s slice of a vector that so many ranks share. */
coll_slice coll_slice_of(size_t total_bytes, int ranks, int slice);

/* The slice to do next, `last` being the one just done (negative: none yet). */
int coll_shm_slice_next(const coll_comm *comm, uint64_t round, int last);
/* Marks a slice as done; coll_shm_published wakes peers that sleep. */
void coll_shm_slice_end(const coll_comm *comm, uint64_t round, int slice);
/* Whether it is, and with it all that its owner and others wrote for it can be read. */
bool coll_shm_slice_ended(const coll_comm *comm, uint64_t round, int slice);
/* Whether a slice of the round is with the peer, or its own to do, and not done. */
bool coll_shm_slices_await(const coll_comm *comm, uint64_t round, int peer);

/* staged.c: operations on memory that peers cannot map. */

/* Puts the first window of op, which is about to be posted, if nothing stands before it; false:
 * that is for later. */
bool coll_staged_put_early(coll_op *op);
/* Once all ranks have come, and no way was found that needs no staging. */
void coll_staged_begin(coll_op *op);
/* One window's part; true when this rank's part of op is done. */
bool coll_staged_advance(coll_op *op, bool *moved);
/* Whether op, running, cannot go on without the peer. */
bool coll_staged_awaits(const coll_op *op, int peer);

/* fail.c */

/* Sends peers a failure notice: why the communicator has failed here. */
void coll_shm_send_failure(coll_comm *comm);
/* Receives failure notices: notes which communicators a peer has given up. */
void coll_shm_receive_failures(coll_context *context);
/* Propagates a failure: fails the communicator if a peer has given it up. */
void coll_shm_propagate_failure(coll_comm *comm);
void coll_shm_finalize(coll_comm *comm);
void coll_shm_show_waits(coll_comm *comm, uint64_t waits);
uint64_t coll_shm_waits_of(const coll_comm *comm, int peer);
/* Fails communicators that do not move on because a peer has given up or gone; op is waited for. */
void coll_shm_watch(coll_op *op);
bool coll_shm_awaits(const coll_op *op, int peer);

#endif
