/* What lies in a rank's shared memory, what a rank remembers of its peers' memory, and the
 * functions that the files of this directory offer each other:
 *
 *     shm.c        opens and closes, moves frames of streams, sleeps and wakes
 *     fdpass.c     passes the descriptors of segments and arenas between ranks, which
 *                  fdpass_open.c has connected
 *     swap.c       makes segments and arenas, and maps those of peers
 *     run.c        blocking calls, without the queue
 *     protocol.c   posts an operation, chooses its protocol, moves it on
 *     copies.c     inline and eager operations
 *     zero_copy.c  operations on arenas
 *     staged.c     operations on memory that peers cannot map
 *     slices.c     which rank combines which slice of a vector
 *     credit.c     when a flag or slot is used again
 *     fail.c       failure notices, and the death of a rank
 *
 * A rank has one segment per communicator. Only the rank itself writes there, with two exceptions:
 * peers ring its doorbell, and peers may do its slices (slices.c). A value that is read from a
 * peer's segment and decides what happens next is read once and checked before use. So a peer can
 * spoil results and make the communicator fail, but nothing worse. */
#ifndef COLL_SRC_SHM_LAYOUT_H
#define COLL_SRC_SHM_LAYOUT_H

#include "core/op.h"

typedef struct shm_counter {
    _Alignas(128) _Atomic uint64_t value;
} shm_counter;

/* Whether a rank sleeps, and how it is woken. */
typedef enum shm_slumber {
    SHM_AWAKE = 0,
    SHM_ASLEEP = 1,  /* waits on its doorbell's futex */
    SHM_POLLING = 2, /* polls sockets and an eventfd; ringing writes to the eventfd (hybrid.c) */
} shm_slumber;

/* A rank's doorbell. There is one for all its communicators, in its segment of the world
 * communicator. Peers read the first cache line after everything that they publish: to see whether
 * the rank has to be woken, and whether it has failed. The futex has a cache line of its own. */
typedef struct shm_doorbell {
    _Alignas(128) _Atomic uint32_t asleep; /* a shm_slumber */
    _Atomic uint32_t failures;             /* how many communicators of this rank have failed */
    _Alignas(128) _Atomic uint32_t rung;   /* the futex: how often it was rung */
} shm_doorbell;

/* A failure notice: why this rank gave up the communicator. */
typedef struct shm_failure_notice {
    _Alignas(128) _Atomic uint32_t set; /* 1: the rest holds */
    int32_t status;
    uint32_t origin; /* 1 + the rank that failed first; 0: this one */
    uint64_t gone;   /* bits of the context's ranks that this one knows to have gone */
    char text[COLL_ERROR_MESSAGE_BYTES];
} shm_failure_notice;

/* The start of a segment. The slots, the staging buffer and the frames follow it. */
typedef struct shm_segment {
    shm_doorbell doorbell;
    shm_counter finished; /* this rank has done its part of all operations up to this number */
    shm_counter staged;   /* windows that this rank has put into its staging buffer */
    shm_counter consumed; /* windows of which this rank has taken all that it takes */
    shm_counter reduced;  /* rounds in which this rank's slice is done */
    shm_counter claimed;  /* the rank that does this rank's slice; written by that rank */
    coll_flag flags[COLL_FLAG_COUNT];
    /* Of each flag, if its operation is pairwise: its part_ends and recv_ends, one behind the other. */
    size_t ends[COLL_FLAG_COUNT][2 * (COLL_RANKS_MAX + 1)];
    shm_failure_notice failure_notice;
    shm_counter waits; /* the ranks that this one has been waiting for, one bit each */
    shm_counter sent[COLL_CHANNELS][COLL_RANKS_MAX];  /* frames that this rank sent to each peer */
    shm_counter taken[COLL_CHANNELS][COLL_RANKS_MAX]; /* frames that it took from each peer */
} shm_segment;

/* What this rank knows of a peer: the numbers of the last operation or window for which it
 * holds. */
typedef struct shm_peer {
    uint64_t seen;     /* the peer's flags up to this operation agree with this rank's own */
    uint64_t done;     /* the peer has done its part of all operations up to this one */
    uint64_t consumed; /* the peer needs no window before this number any more */
} shm_peer;

typedef struct shm_comm {
    shm_segment *segments[COLL_RANKS_MAX]; /* by rank in the communicator; own included */

    /* Streams: private copies of this rank's counters. */
    uint64_t sent[COLL_CHANNELS][COLL_RANKS_MAX];
    uint64_t taken[COLL_CHANNELS][COLL_RANKS_MAX];
    uint64_t sent_taken[COLL_CHANNELS][COLL_RANKS_MAX]; /* of the sent, taken when last looked */

    shm_peer peers[COLL_RANKS_MAX];
    uint64_t peers_done; /* the least `done` of all peers */

    /* Staging: counted over all operations of which this rank has done its part. */
    uint64_t windows;
    uint64_t rounds;        /* of slices */
    size_t ring_room_bytes; /* room of one window, as the staging buffer is cut now */
    uint64_t ring_first;    /* the first window since it was cut so */

    /* What this rank's flags show. Comparisons use these copies: a peer could overwrite the
     * segment. */
    uint64_t words[COLL_FLAG_COUNT];
    coll_descriptor shown[COLL_FLAG_COUNT];
    uint32_t shown_digests[COLL_FLAG_COUNT]; /* of the descriptors */
} shm_comm;

/* Of a context: what concerns all communicators of a rank. By rank of the context. */
typedef struct shm_context {
    shm_doorbell *doorbells[COLL_RANKS_MAX];
    uint32_t failures_seen[COLL_RANKS_MAX]; /* of each doorbell's `failures` */
    int doorbell_fds[COLL_RANKS_MAX];       /* eventfds of peers that may poll; -1: none */
} shm_context;

/* Of a pairwise operation: where the blocks of a rank begin in its send, and in its recv. */
static inline const size_t *shm_ends(const shm_segment *segment, const coll_op *op, bool of_recv)
{
    return segment->ends[op->sequence % COLL_FLAG_COUNT] + (of_recv ? op->comm->size + 1 : 0);
}

/* A rank's contribution to an eager operation. */
static inline uint8_t *shm_slot(shm_segment *segment, uint64_t sequence)
{
    return (uint8_t *)segment + sizeof(shm_segment) +
           sequence % COLL_SHM_SLOTS * COLL_SHM_SLOT_BYTES;
}

/* A rank's staging buffer, for staged operations. */
static inline uint8_t *shm_staging(shm_segment *segment)
{
    return (uint8_t *)segment + sizeof(shm_segment) + (size_t)COLL_SHM_SLOTS * COLL_SHM_SLOT_BYTES;
}

/* shm.c */

/* Size of a rank's segment, frames included. */
size_t coll_shm_segment_bytes(int ranks);

/* Wakes all peers of the communicator that have gone to sleep. */
void coll_shm_wake_peers(coll_comm *comm);
/* The same, and receives the failure notices of peers. To be called after a sequentially consistent
 * store that peers may wait for. */
void coll_shm_published(coll_comm *comm);
/* The same after a store with less order: does the fence first. */
void coll_shm_notify(coll_comm *comm);

/* Shows peers how this rank sleeps, or that it is awake. */
void coll_shm_slumber(coll_context *context, shm_slumber how);

/* credit.c */

/* Bit 0 of a flag's word: its rank has done its part of all earlier operations. */
enum { COLL_FLAG_QUIET = 1 };

/* A rank's flag for an operation. */
static inline const coll_flag *coll_shm_flag(const shm_comm *shm, int rank, uint64_t sequence)
{
    return &shm->segments[rank]->flags[sequence % COLL_FLAG_COUNT];
}

/* Whether op may be posted: no peer needs any more what its flag and slot will overwrite. */
bool coll_shm_may_post(const coll_op *op);
/* Whether this peer still needs it. */
bool coll_shm_withholds(const coll_op *op, int peer);
/* Compares a peer's flags with this rank's own up to operation `until`, as far as the peer has
 * posted them. False if they differ; the communicator has failed then. */
bool coll_shm_compare_flags(coll_comm *comm, int peer, uint64_t until);
/* Fails the communicator because a peer's flag differs from this rank's own. Returns false. */
bool coll_shm_fail_flag(coll_comm *comm, int peer, uint64_t sequence, uint64_t word);

/* protocol.c */

/* In the transport's table. post writes op's flag and wakes peers that sleep. */
void coll_shm_post(coll_op *op, const void *payload, size_t payload_bytes);
void coll_shm_advance(coll_op *op, bool *moved);
/* Writes op's flag, without waking anybody. */
void coll_shm_write_flag(coll_op *op);
/* As coll_shm_advance, but reads what it waits for `looks` times before it gives up. */
void coll_shm_advance_looking(coll_op *op, unsigned looks, bool *moved);

/* copies.c */

/* Whether op is inline or eager wherever the buffers lie. An all-reduce or scan above
 * COLL_SHM_COPY_BYTES is eager only if some buffer lies outside the arenas. */
static inline bool coll_shm_is_copied(const coll_op *op)
{
    return op->protocol == COLL_PROTOCOL_INLINE
               ? op->comm->size > 1
               : op->protocol == COLL_PROTOCOL_EAGER && (!coll_kind_reduces_to_all(op->desc.kind) ||
                                                         op->total_bytes <= COLL_SHM_COPY_BYTES);
}

/* Copies this rank's own part to recv while its peers are on their way, where that pays. */
void coll_shm_copy_own(coll_op *op);
/* Whether all peers that op waits for have posted it. Reads each flag up to `looks` times. */
bool coll_shm_arrived(coll_op *op, unsigned looks);
/* Takes this rank's parts of all contributions, from flags or slots. */
void coll_shm_take_copies(coll_op *op);
/* The whole rest of an inline or eager operation that was posted last. False: not all peers that it
 * waits for have arrived. */
bool coll_shm_copy(coll_op *op, unsigned looks);

/* run.c, in the transport's table: a blocking call, without the queue. False: it has to go the
 * ordinary way. */
bool coll_shm_run(coll_comm *comm, const coll_op_desc *desc, coll_status *status,
                  coll_error *reterr);

/* zero_copy.c */

/* Whether every buffer that op needs lies in an arena. refs are those that all ranks posted. Fills
 * op's sources and targets. A reference that leads out of its arena fails the communicator. */
bool coll_zero_copy_fits(coll_op *op, const coll_buffer_ref *refs);
/* One piece of this rank's part, or of the slice that it does. True when that is done. */
bool coll_zero_copy_advance(coll_op *op);
/* Whether op cannot end before `peer` has done its part, because that part reads or writes this
 * rank's memory. */
bool coll_zero_copy_awaits(const coll_op *op, int peer);

/* slices.c: the slices of a round. Ranks do their own, or each other's. */

enum {
    COLL_SLICE_NONE = -1, /* other ranks do, or have done, all that are left */
    COLL_SLICE_LATER =
        -2, /* the slices that are left cannot begin: an earlier round goes on there */
};

/* A scan of few ranks, in which each combines its own prefix: a copy and a wait less than by slices,
 * but the more ranks, the more often an operand is read. */
static inline bool coll_shm_scans_apart(const coll_op *op)
{
    enum { APART_RANKS_MAX = 4 };
    return coll_kind_is_scan(op->desc.kind) && op->comm->size <= APART_RANKS_MAX;
}

/* Slice `slice` of a vector, one for each rank: whole units (coll_op), as equal as can be. */
coll_range coll_slice_of(const coll_op *op, size_t total_bytes, int slice);
/* What this rank sends in an all-reduce or reduce in slices: its operand of the others' slices, and
 * the result of its own to those that take it. */
size_t coll_slices_sent_bytes(const coll_op *op);

/* The slice to do next: its number, or COLL_SLICE_…. `last` is the one just done, or negative. */
int coll_shm_slice_next(const coll_comm *comm, uint64_t round, int last);
/* Marks a slice as done. coll_shm_published has to follow. */
void coll_shm_slice_end(const coll_comm *comm, uint64_t round, int slice);
/* Whether a slice is done. If so, all that was written for it can be read. */
bool coll_shm_slice_ended(const coll_comm *comm, uint64_t round, int slice);
/* Whether a slice of the round is not done, and the peer has to do it. */
bool coll_shm_slices_await(const coll_comm *comm, uint64_t round, int peer);

/* staged.c: operations on memory that peers cannot map. */

/* Before op is posted: puts its first window into the staging buffer, if that has room and op is
 * likely to be staged. Returns whether it did. */
bool coll_staged_put_early(coll_op *op);
/* Begins op, when all ranks have arrived and have chosen staging. */
void coll_staged_begin(coll_op *op);
/* Some windows' parts. True when this rank's part of op is done. */
bool coll_staged_advance(coll_op *op, bool *moved);
/* Whether op, which is running, cannot go on without the peer. */
bool coll_staged_awaits(const coll_op *op, int peer);

/* fail.c */

/* In the transport's table; core/transport.h describes each. */
void coll_shm_send_failure(coll_comm *comm);
void coll_shm_propagate_failure(coll_comm *comm);
bool coll_shm_confirm_reads(coll_comm *comm);
void coll_shm_finalize(coll_comm *comm);
void coll_shm_show_waits(coll_comm *comm, uint64_t waits);
uint64_t coll_shm_waits_of(const coll_comm *comm, int peer);
void coll_shm_watch(coll_op *op);
bool coll_shm_awaits(const coll_op *op, int peer);

/* Whether a peer has counted a failure that this rank has not looked at yet. */
static inline bool coll_shm_has_counted(const coll_comm *comm, int peer)
{
    const shm_context *context_shm = comm->context->shm;
    const int rank = comm->ranks[peer];
    return atomic_load(&context_shm->doorbells[rank]->failures) != context_shm->failures_seen[rank];
}
/* Receives failure notices: notes which communicators a peer has given up. */
void coll_shm_receive_failures(coll_context *context);
/* The same of one communicator, without asking first whether any rank has counted a failure: for
 * one that has just been opened, where ranks may have given up before. */
void coll_shm_receive_failure(coll_comm *comm);

#endif
