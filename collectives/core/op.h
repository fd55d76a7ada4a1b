/* The inside of operations.
 *
 * Progress: a communicator's started operations stand in a queue in the order of their sequence
 * numbers, and go through the stages below in that order. An operation's own work begins when all
 * earlier ones have done theirs, so what ranks send each other needs no tags. */
#ifndef COLL_SRC_OP_H
#define COLL_SRC_OP_H

#include "coll/coll.h"
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
    COLL_STAGE_IDLE = 0,
    COLL_STAGE_QUEUED,    /* started, but too many stand before it to post it yet */
    COLL_STAGE_ARRIVING,  /* posted; waits for the flag of every peer */
    COLL_STAGE_RUNNING,   /* this rank's part is under way */
    COLL_STAGE_FINISHING, /* done here; waits for peers to have done their part */
    COLL_STAGE_DONE,
} coll_stage;

/* How an operation's bytes move; chosen when all have arrived, the same on every rank. */
typedef enum coll_protocol {
    COLL_PROTOCOL_INLINE = 0, /* in the flags, or nothing moves at all */
    COLL_PROTOCOL_EAGER,      /* copied into shared memory, read there by whoever needs it */
    COLL_PROTOCOL_ZERO_COPY,  /* loads from and stores to peers' arenas */
    COLL_PROTOCOL_STAGED,     /* window by window through staging buffers in shared memory */
    COLL_PROTOCOL_PLAN,       /* a plan over streams */
} coll_protocol;

/* How a zero-copy operation moves its bytes. */
typedef enum coll_pattern {
    COLL_PATTERN_SLICES = 0, /* each rank combines a slice of all, stores it to all that take it */
    COLL_PATTERN_PULL,       /* each rank loads its part from its peers' buffers */
    COLL_PATTERN_PUSH,       /* each rank stores its block to its peers' buffers */
    COLL_PATTERN_SHARE, /* a broadcast: its root stores a slice to all, and they load the rest */
    COLL_PATTERN_MIXED, /* small: some ranks' buffers lie in arenas, some were copied */
} coll_pattern;

/* A slice of a vector: whole cache lines, as equal as can be. */
typedef struct coll_slice {
    size_t begin; /* bytes */
    size_t size_bytes;
} coll_slice;

/* How far an staged operation has come, in windows. */
typedef struct coll_staging {
    size_t count;
    size_t room_bytes; /* of a window */
    size_t ring;       /* windows in a staging buffer */
    size_t part_bytes; /* of each part, in a window */
    uint64_t first;    /* the number of its first window */
    size_t in;         /* put into this rank's buffer */
    size_t reduced;    /* this rank has no slice left to do */
    size_t out;        /* taken */
    size_t own_taken;  /* 1 + the last whose own slice was stored to recv at once */
} coll_staging;

typedef struct coll_track {
    int index;           /* of the current step */
    bool loaded;         /* `step` holds it */
    bool ended;          /* past the last step */
    size_t offset_bytes; /* done of the current step's blocks */
    coll_step step;
} coll_track;

struct coll_op {
    coll_comm *comm;
    coll_op *next; /* in the queue */
    bool queued;
    bool varies;    /* parts differ in size: part_ends holds */
    bool head_done; /* send, receive: the head has been sent or seen */
    coll_op_desc desc;
    coll_descriptor descriptor;
    uint32_t digest;
    size_t element_bytes;
    size_t total_bytes; /* count × element_bytes: of kinds with a part per rank, the own part */
    size_t whole_bytes; /* all parts; else total_bytes */
    size_t send_bytes;  /* in this rank's buffers; 0 where one is not used */
    size_t recv_bytes;
    size_t shown_bytes; /* the most that a rank shows its peers if flags are to carry it all */
    size_t *part_ends;  /* (size + 1) where the parts begin, if they vary */
    const coll_kernel *kernel;
    coll_buffer_ref ref;
    coll_shape shape;
    coll_op_desc given; /* what desc was made from */
    bool ready;         /* `given` was checked, and all else follows from it */
    bool routed;        /* first_protocol holds */
    coll_protocol first_protocol;

    uint64_t sequence;
    uint64_t word;
    uint64_t flight;     /* its number in the flight recorder */
    int64_t deadline_ns; /* of the next wait for it, which began before; 0: counts from then */
    coll_stage stage;
    coll_protocol protocol;
    coll_pattern pattern;
    coll_staging staging;
    bool put_early;      /* the first window was put before the flag was posted */
    bool kept;           /* the own part of recv holds what it is to hold */
    uint64_t round;      /* the first round of slices */
    int slice;           /* zero-copy: under way; -1: none yet */
    bool aside;          /* the result is in this rank's slot for now */
    int source;          /* pulling: how many sources are done */
    int arrived;         /* peers below this rank have arrived */
    int finished;        /* peers below this rank have finished */
    size_t offset_bytes; /* zero-copy: done of the slice, or part */
    const uint8_t *sources[COLL_RANKS_MAX]; /* zero-copy: peers' inputs and outputs, mapped here */
    uint8_t *targets[COLL_RANKS_MAX];
    coll_buffer_ref refs[COLL_RANKS_MAX]; /* which these, and pattern, follow from, */
    uint64_t refs_known;                  /* while this is 1 + comm->arena_changes */
    coll_plan plan;
    uint8_t *scratch; /* of the plan; holds the whole vector's bytes from scratch_begin on */
    size_t scratch_begin;
    size_t scratch_bytes;
    int track_count;
    int tracks_ended;
    coll_track *tracks; /* room for every plan on this communicator */
};

/* op_init.c */

/* Checks desc and writes the operation; its memory (tracks, scratch, parts) stays. */
COLL_MUST_CHECK coll_status coll_op_init(coll_op *op, coll_comm *comm, const coll_op_desc *desc,
                                         coll_error *reterr);

/* op.c */

COLL_MUST_CHECK coll_status coll_op_alloc(coll_comm *comm, coll_op **op, coll_error *reterr);
/* Makes comm->blocking, which stands in no queue, the operation of a blocking call, ready to be
 * numbered: one that was made from desc lately, or one made anew. */
COLL_MUST_CHECK coll_status coll_op_recall(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                                           coll_error *reterr);
/* Runs an operation of the library's own: everybody arrives, and agrees on kind and count. */
COLL_MUST_CHECK coll_status coll_op_agree(coll_comm *comm, int kind, uint64_t count,
                                          coll_error *reterr);

/* Runs an operation that no descriptor of the caller's makes: `kind` goes into the flag. */
COLL_MUST_CHECK coll_status coll_op_run_as(coll_comm *comm, const coll_op_desc *desc, int kind,
                                           uint64_t count, coll_error *reterr);

/* Gives op its sequence number, and the state it begins with. */
void coll_op_number(coll_op *op);

#endif
