/* Where the time of each step went on every rank that shares a model, and which ranks waited for
 * which.
 *
 * Each rank logs when a step, and each exchange in it, began and ended. From time to time, between
 * two steps, the ranks gather their logs. Then for every exchange:
 *
 *     waiting     from the time at which a rank enters it to the time at which the last rank does
 *     transfer    the rest of that rank's time in it
 *
 * The last rank to enter holds up the others, for the sum of their waiting times. The slowest rank
 * of a step is the one that holds up the others longest in it.
 *
 * Ranks of one host share a clock. If they are on several hosts, nothing of this can be known, and
 * there is no trace. Steps in which nothing was computed do not count.
 *
 * One thread. Memory is bounded, and none is allocated during a step. */
#ifndef RANK_GENERATE_STEP_TRACE_H
#define RANK_GENERATE_STEP_TRACE_H

#include "base/status.h"
#include "coll/coll.h"
#include "parallel/tensor/exchange_log.h"

enum { RANK_STEPS_KEPT_MAX = 1 << 20 };

/* Sums over the steps of one rank, in ns except for slowest_steps. */
typedef struct rank_step_share {
    double step_ns;
    double reduce_transfer_ns; /* all-reduces */
    double reduce_waiting_ns;
    double gather_transfer_ns; /* the exchange of candidates */
    double gather_waiting_ns;
    double held_up_ns;    /* how long other ranks waited for this one, summed over them */
    double slowest_steps; /* steps whose slowest rank this was */
} rank_step_share;

/* One step. */
typedef struct rank_step_cost {
    int64_t step_ns;     /* from the first rank's begin to the last one's end */
    int64_t transfer_ns; /* of all its exchanges: the mean over the ranks, as the next */
    int64_t waiting_ns;
    int64_t held_up_ns; /* how long the others waited for the slowest, summed over them */
    int32_t slowest;    /* the slowest rank; -1: no rank waited */
    int32_t tokens;     /* computed */
    int32_t drawn;
} rank_step_cost;

/* What a step consisted of; the same on every rank. */
typedef struct rank_step_shape {
    int32_t reduces;   /* all-reduces, which come first, */
    int32_t exchanges; /* and all exchanges */
    int32_t tokens;
    int32_t drawn;
} rank_step_shape;

/* Adds the step to each rank's shares (ranks), and writes its cost. spans: rank r's are at spans +
 * r * stride, the step's own and then its exchanges'. Pure. */
void rank_step_compare(const rank_span *spans, size_t stride, int ranks,
                       const rank_step_shape *shape, rank_step_share *shares, rank_step_cost *cost);

typedef struct rank_step_trace rank_step_trace;

/* comm may be NULL: one rank alone. *trace becomes NULL if the ranks are on several hosts. */
BASE_MUST_CHECK base_status rank_step_trace_create(coll_comm *comm, rank_step_trace **trace,
                                                   base_error *reterr);
void rank_step_trace_destroy(rank_step_trace *trace); /* NULL is fine, here and below */

/* The log for the exchanges of a step. */
rank_exchange_log *rank_step_trace_log(rank_step_trace *trace);

void rank_step_trace_begin(rank_step_trace *trace, int64_t now_ns);
void rank_step_trace_reduced(rank_step_trace *trace); /* the step's all-reduces are done */
void rank_step_trace_end(rank_step_trace *trace, int64_t now_ns, int32_t tokens, int32_t drawn);

/* Local: forgets all steps so far. Every rank does so after the same step. */
void rank_step_trace_reset(rank_step_trace *trace);

/* Collective, between steps: gathers the logs when they are half full, or with `all`. */
BASE_MUST_CHECK base_status rank_step_trace_gather(rank_step_trace *trace, bool all,
                                                   base_error *reterr);

/* Of the steps that were gathered: all ranks' shares, on every rank. NULL: not known, or there is
 * no other rank to share with. */
const rank_step_share *rank_step_trace_shares(const rank_step_trace *trace);

/* On rank 0: the costs of the first RANK_STEPS_KEPT_MAX of these steps; NULL elsewhere. */
const rank_step_cost *rank_step_trace_steps(const rank_step_trace *trace, size_t *count);

#endif
