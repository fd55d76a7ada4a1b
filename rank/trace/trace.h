/* What one rank did in its last steps, as spans of time: passes, layers, operations, waits, exchanges.
 *
 * Who does something notes when it began, and adds a span when it ends:
 *
 *     const int64_t begun_ns = rank_trace_begin(trace);
 *     ...
 *     rank_trace_add(trace, (rank_trace_span){.kind = RANK_TRACE_LAYER, .begin_ns = begun_ns, ...});
 *
 * Spans of the rank's thread are nested. Those of exchanges under way may overlap each other. An exchange that the
 * thread is in from its begin to its end is one span of both.
 *
 * Spans stand in rings, and the newest stay. Operations are many, and have a ring of their own: they cannot displace
 * the spans that say which step, pass or exchange it is. Only what happens between step_begin and step_end is
 * taken. A trace that is NULL, or between steps, costs one comparison; otherwise a span costs one reading of the
 * clock.
 *
 * One thread. No allocation after create. */
#ifndef RANK_TRACE_TRACE_H
#define RANK_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    RANK_TRACE_SPANS_MAX = 1 << 14,     /* of a ring of one rank: 512 KiB */
    RANK_TRACE_SPANS_ALL_MAX = 1 << 17, /* of a ring of all ranks together: rank 0 gathers them */
};

/* `index` is what the name of the kind counts; without a note it has none. Of an exchange, `detail` is 1 + the
 * algorithm; 0: not known. */
typedef enum rank_trace_kind {
    RANK_TRACE_STEP,
    RANK_TRACE_BATCH,    /* the next micro-batch is read */
    RANK_TRACE_FORWARD,  /* of micro-batch `index`; detail: the stage's chunk */
    RANK_TRACE_BACKWARD, /* the same */
    RANK_TRACE_WEIGHTS,  /* the same: the second pass of a split backward */
    RANK_TRACE_DECODE, /* a step of decoding: forward of `index` tokens; detail: the drafted ones of them */
    RANK_TRACE_LAYER,     /* number `index` */
    RANK_TRACE_EMBEDDING, /* parts of a step of decoding, as the next three */
    RANK_TRACE_ATTENTION, /* of a layer: from its norm to its sum over the ranks */
    RANK_TRACE_MLP,       /* the same */
    RANK_TRACE_OUTPUT,    /* logits */
    RANK_TRACE_DRAFT,     /* a model drafts */
    RANK_TRACE_OPERATION, /* index: a rank_part */
    RANK_TRACE_CALLS,     /* exchanges are started and moved on while backward goes on */
    RANK_TRACE_MERGE,     /* a micro-batch's gradients are added to those of the ones before */
    RANK_TRACE_OPTIMIZER,
    RANK_TRACE_NEWTON_SCHULZ, /* Muon's iterations of matrix `index`, in the optimizer */
    RANK_TRACE_DRAW, /* `index` tokens are drawn; detail: those that were drafted, and so count beyond one */
    RANK_TRACE_OUTER,   /* the outer step of a round */
    RANK_TRACE_REDUCE,  /* the all-reduce of bucket `index` */
    RANK_TRACE_SCATTER, /* with ZeRO its reduce-scatter */
    RANK_TRACE_GATHER,  /* the parameters of unit `index`, or of all units */
    RANK_TRACE_BARRIER,
    RANK_TRACE_SUMS,       /* the step's losses and counts, over all ranks */
    RANK_TRACE_NORM,       /* the norm of what ranks share */
    RANK_TRACE_HEADS,      /* rows for heads, between ranks that share a micro-batch */
    RANK_TRACE_EXPERTS,    /* rows for experts */
    RANK_TRACE_PARTS,      /* sums of the parts of a layer */
    RANK_TRACE_CANDIDATES, /* the most probable tokens of each rank's part of the vocabulary */
    RANK_TRACE_LOGITS,     /* all logits of a row */
    RANK_TRACE_RECORD,     /* what rank 0 has decided: texts that begin or are cancelled */
    RANK_TRACE_RECEIVE,    /* a message of stage `index` */
    RANK_TRACE_SEND,       /* a message to stage `index` */
    RANK_TRACE_SENT,       /* messages that are not taken yet */
    RANK_TRACE_TIED, /* the gradient of the matrix that the first stage and the last both have */
    RANK_TRACE_MATRICES, /* parts of matrices, to the rank that computes them and back */
    RANK_TRACE_KINDS,
} rank_trace_kind;

/* What a span is of. */
enum {
    RANK_TRACE_THREAD = 1 << 0,    /* the rank's thread: of an exchange, it waits for that */
    RANK_TRACE_EXCHANGE = 1 << 1,  /* an exchange under way */
    RANK_TRACE_ALL_RANKS = 1 << 2, /* of all ranks: nobody ends it before everybody has begun it */
};

typedef struct rank_trace_span {
    int64_t begin_ns; /* base_now_ns */
    int64_t end_ns;   /* 0 for rank_trace_add: now */
    uint64_t bytes;   /* of an exchange; 0: not known, or none */
    int32_t index;    /* -1: none */
    uint8_t kind;
    uint8_t of;     /* bits; 0: the thread */
    uint8_t detail; /* see the kind */
} rank_trace_span;

typedef struct rank_trace_ring {
    rank_trace_span *spans; /* (capacity); span number i is at i % capacity */
    uint64_t count;         /* added so far */
    int64_t lost_ns;        /* when the last one ended whose place another has taken */
} rank_trace_ring;

typedef struct rank_trace {
    size_t capacity; /* of each ring */
    rank_trace_ring spans;
    rank_trace_ring operations;
    int64_t last_ns;     /* the end of the last span: where an operation begins */
    int64_t step_ns;     /* when the current step began */
    int32_t micro_batch; /* the current one */
    int32_t
        next_step; /* of an engine, which counts its steps here, and after INT32_MAX from 0 again */
    int steps_wanted; /* the last ones, for the file */
    bool on;          /* a step is under way */
} rank_trace;

/* Of each ring of one of so many ranks. */
size_t rank_trace_capacity(int ranks);

/* For the last `steps` steps of one of so many ranks. */
BASE_MUST_CHECK base_status rank_trace_create(int steps, int ranks, rank_trace **trace,
                                              base_error *reterr);
void rank_trace_destroy(rank_trace *trace); /* NULL is fine, here and below */

/* Forgets all steps so far. */
void rank_trace_reset(rank_trace *trace);

void rank_trace_step_begin(rank_trace *trace, int64_t now_ns);
void rank_trace_step_end(rank_trace *trace, int32_t step, int64_t now_ns);

/* The same of the next step of an engine. */
void rank_trace_step_end_next(rank_trace *trace, int64_t now_ns);

/* The time, for a span that begins. 0: nothing is taken. */
int64_t rank_trace_begin(rank_trace *trace);

/* The span ends. Returns when, for one that begins then; 0: nothing is taken. */
int64_t rank_trace_add(rank_trace *trace, rank_trace_span span);

/* An operation has ended, now. It began when the span before it ended, or when one around it began. */
void rank_trace_operation(rank_trace *trace, int32_t part, int64_t now_ns);

/* ---- what a ring has; pure ---- */

/* How many of the last steps are in the ring as a whole, `most` at most. */
int rank_trace_whole_steps(const rank_trace *trace, const rank_trace_ring *ring, int most);

/* Copies the spans of the last `steps` steps, in the order in which they ended; of 0 steps those of the last one that
 * are left. `to` has room for `capacity` of them. Returns how many. */
size_t rank_trace_take(const rank_trace *trace, const rank_trace_ring *ring, int steps,
                       rank_trace_span *to);

#endif
