/* An operation: one collective, send or receive of one communicator.
 *
 * The collectives that a rank has started are in their communicator's queue, in the order of their
 * sequence numbers, which is the same on all ranks. They go through the stages below. The work of
 * an operation begins when this rank's part of all earlier ones is done. So the frames that ranks
 * send each other need no tags. */
#ifndef COLL_SRC_OP_H
#define COLL_SRC_OP_H

#include "coll/coll.h"
#include "common/kinds.h"
#include "common/limits.h"
#include "core/comm.h"
#include "core/flag.h"
#include "core/shape.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

static inline size_t coll_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

typedef enum coll_stage {
    COLL_STAGE_IDLE = 0,  /* of operations on streams, always */
    COLL_STAGE_QUEUED,    /* started, not posted: too many earlier ones are not done */
    COLL_STAGE_ARRIVING,  /* posted; waits for the flag of every peer */
    COLL_STAGE_RUNNING,   /* this rank's part is under way */
    COLL_STAGE_FINISHING, /* done here; waits for peers to have done their part */
    COLL_STAGE_DONE,
} coll_stage;

/* How a zero-copy operation moves its bytes. */
typedef enum coll_pattern {
    COLL_PATTERN_SLICES = 0, /* each rank combines a slice of all, stores it to all that take it */
    COLL_PATTERN_PULL,       /* each rank loads its part from its peers' buffers */
    COLL_PATTERN_PUSH,       /* each rank stores its block to its peers' buffers */
    COLL_PATTERN_SHARE, /* a broadcast: its root stores a slice to all, and they load the rest */
} coll_pattern;

/* Bytes of a vector, or of a buffer. */
typedef struct coll_range {
    size_t begin;
    size_t size_bytes;
} coll_range;

/* Eager and inline operations need nothing beside the fields that all have. The other protocols
 * have a struct each. */

/* Staged: how far an operation has come, in windows. */
typedef struct coll_op_staged {
    size_t count;
    size_t room_bytes; /* of a window */
    size_t ring;       /* windows in a staging buffer */
    size_t part_bytes; /* of each part, in a window */
    uint64_t first;    /* the number of its first window */
    size_t in;         /* put into this rank's buffer */
    size_t reduced;    /* this rank has no slice left to do */
    size_t out;        /* taken */
    size_t own_taken;  /* 1 + the last whose own slice was stored to recv at once */
    uint64_t round;    /* the first round of slices */
    bool put_early;    /* the first window was put before the flag was posted */
} coll_op_staged;

/* Zero-copy: where peers' buffers are, and how far this rank has come. */
typedef struct coll_op_zero_copy {
    coll_pattern pattern;
    int finished;                           /* peers below this rank have finished */
    int slice;                              /* under way; -1: none yet */
    int source;                             /* pulling: how many sources are done */
    size_t offset_bytes;                    /* done of the slice, or part */
    uint64_t round;                         /* of the slices */
    const uint8_t *sources[COLL_RANKS_MAX]; /* this rank's parts of peers' inputs, mapped here, */
    uint8_t *targets[COLL_RANKS_MAX];       /* and peers' outputs */
    coll_buffer_ref refs[COLL_RANKS_MAX];   /* which these, and pattern, follow from, */
    uint64_t refs_known;                    /* while this is 1 + comm->arena_changes */
} coll_op_zero_copy;

typedef struct coll_track {
    int index;           /* of the current step */
    bool loaded;         /* `step` holds it */
    bool ended;          /* past the last step */
    size_t offset_bytes; /* done of the current step's blocks */
    coll_step step;
} coll_track;

/* A plan over streams. */
typedef struct coll_op_plan {
    coll_plan schedule;
    size_t chunk_bytes; /* what goes in one frame: whole elements */
    uint8_t *scratch;   /* holds the whole vector's bytes from scratch_begin on */
    size_t scratch_begin;
    size_t scratch_bytes;
    int track_count;
    int tracks_ended;
    coll_track *tracks; /* behind the operation; room for every plan on this communicator */
} coll_op_plan;

/* A send or receive. */
typedef struct coll_op_p2p {
    size_t offset_bytes; /* done of the message */
    bool head_done;      /* the head has been sent or seen */
    /* Of a message that its receiver reads where it lies. */
    uint64_t frame;      /* its head's, among those to this peer, from 1; 0: it is not such a one */
    const uint8_t *from; /* what the receiver reads; else NULL */
} coll_op_p2p;

/* Since when tests have found an operation not done, and nothing moving. */
typedef struct coll_op_still {
    uint64_t sequence; /* of the operation, */
    uint64_t moves;    /* and how far context->moves was: of any other this says nothing */
    int64_t since_ns;
} coll_op_still;

typedef struct coll_device_op coll_device_op;

struct coll_op {
    /* What a start and its progress change: one cache line (coll_op_alloc aligns it). */
    coll_comm *comm; /* NULL: it has been destroyed */
    coll_op *next;   /* in the queue */
    uint64_t sequence;
    uint64_t word;       /* of its flag */
    uint64_t flight;     /* its number in the flight recorder */
    int64_t deadline_ns; /* of a wait that has begun already; 0: the next wait computes its own */
    coll_stage stage;
    coll_protocol protocol;
    int arrived;     /* peers below this rank have arrived */
    bool queued;     /* in its communicator's queue, or a stream's */
    bool unreported; /* the program has started it, and not been told that it is done */
    bool own_copied; /* this rank's own part of recv is already there */

    /* What stays from start to start. */
    bool ready;  /* `given` was checked, and all that follows was made from it */
    bool routed; /* first_protocol was computed */
    bool varies; /* parts differ in size: part_ends is used */
    bool
        pairwise; /* an all-to-all with counts: every pair of ranks has its own, recv_ends is used */
    coll_protocol first_protocol;
    uint32_t digest;
    coll_op_desc desc;
    coll_shape shape;
    const coll_kernel *kernel;
    coll_reduction reduction; /* the program's own, if desc has one: `own` calls it */
    coll_kernel own;
    size_t element_bytes;
    size_t unit_bytes;  /* whole elements, a cache line or more: what vectors are cut into */
    size_t total_bytes; /* count × element_bytes: the vector, or this rank's part of it */
    size_t whole_bytes; /* the vector, or all ranks' parts together */
    size_t send_bytes;  /* of this rank's buffers; 0 for one that is not used */
    size_t recv_bytes;
    size_t shown_bytes; /* the largest payload of any rank, if flags carried all operands */
    size_t *part_ends;  /* size + 1 offsets between the parts, if they vary; pairwise: in send, */
    size_t *recv_ends;  /* and as many in recv, behind the others */
    coll_buffer_ref ref;
    coll_op_desc given; /* what desc was made from */
    coll_descriptor descriptor;

    coll_op_still still;
    coll_op_p2p p2p;
    coll_op_staged staged;
    coll_op_plan plan;
    coll_op_zero_copy zero_copy;
    coll_device_op *device; /* of an operation on a stream; NULL */
    coll_op *made_next;     /* of those that the program has made on comm, */
    coll_op **made_link;    /* and what points to this one; NULL: it is none of them */
};

/* The first operation of a communicator's queue that is not done, for which all later ones wait;
 * NULL: there is none. */
static inline coll_op *coll_comm_first(const coll_comm *comm)
{
    coll_op *op = comm->head;
    while (op != NULL && op->stage == COLL_STAGE_DONE) {
        op = op->next;
    }
    return op;
}

/* The most of `bytes` that is whole units. */
static inline size_t coll_op_units(const coll_op *op, size_t bytes)
{
    return bytes - bytes % op->unit_bytes;
}

/* op's plan, if that algorithm runs it. */
static inline coll_plan coll_op_plan_of(const coll_op *op, coll_algorithm algorithm)
{
    return (coll_plan){.algorithm = algorithm,
                       .kind = op->desc.kind,
                       .ranks = op->comm->size,
                       .rank = op->comm->rank,
                       .root = op->desc.root,
                       .hosts = &op->comm->hosts};
}

/* op_init.c */

/* Checks desc and fills op in. Memory that op has (tracks, scratch, parts) is used again. */
COLL_MUST_CHECK coll_status coll_op_init(coll_op *op, coll_comm *comm, const coll_op_desc *desc,
                                         coll_error *reterr);

/* op.c */

/* Takes all operations of the program's from a communicator that is about to go: what is called with
 * one of them afterwards fails, and its owner still destroys it. */
void coll_op_orphan(coll_comm *comm);
/* With nothing in it but its communicator. NULL: no memory. */
coll_op *coll_op_alloc(coll_comm *comm);
/* Fails the communicator because there is none for an operation. */
COLL_MUST_CHECK coll_status coll_op_lacks(coll_comm *comm, coll_error *reterr);
/* Sets comm->blocking, which is in no queue, to the operation of a blocking call: one that was made
 * from the same desc lately, or a new one. coll_op_number has to follow. */
COLL_MUST_CHECK coll_status coll_op_recall(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                                           coll_error *reterr);
/* Runs an operation of the library's own: everybody arrives, and agrees on what its flag shows in
 * place of desc. */
COLL_MUST_CHECK coll_status coll_op_run_as(coll_comm *comm, const coll_op_desc *desc,
                                           const coll_descriptor *shown, coll_error *reterr);
/* The same of a barrier that shows kind and count. */
COLL_MUST_CHECK coll_status coll_op_agree(coll_comm *comm, int kind, uint64_t count,
                                          coll_error *reterr);

/* Gives op the next sequence number, and resets its state. */
void coll_op_number(coll_op *op);

#endif
