/* The cost model behind `auto`, for whoever wants to see it: what an operation should take, beside
 * what it takes.
 *
 * A link costs `latency_us` until a message has arrived, `message_us` for every further message
 * that a rank sends or receives in the same round, and `byte_ns` for each byte; combining costs
 * `reduce_byte_ns`; `start_us` is common to all. There are two classes of links, inside a host and
 * between hosts. Each algorithm's time at a size is a sum of these (docs/COLLECTIVES.md has the
 * formulas). `auto` takes the cheapest algorithm among those of the canonical order, so that a
 * choice never changes bits.
 *
 * The figures are measured when a context is made, where there is something to choose: not with a
 * forced algorithm, not on one host over shared memory, where `direct` is best at every size. Or
 * they are read from options.tune_path. All ranks have the same ones. */
#ifndef COLL_TUNE_H
#define COLL_TUNE_H

#include "coll/coll.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coll_link_cost {
    double latency_us; /* from send to received, of a small message */
    double message_us; /* of each further message under way at the same time */
    double byte_ns;    /* of each byte of a long one, as many going the other way */
} coll_link_cost;

typedef struct coll_costs {
    coll_link_cost inside;  /* between ranks of one host */
    coll_link_cost between; /* between ranks of different hosts */
    double reduce_byte_ns;  /* of each byte of one operand combined with another */
    double start_us;        /* of every operation: a barrier */
} coll_costs;

/* How ranks lie on hosts, as far as costs go. */
typedef struct coll_layout {
    int ranks;
    int hosts;
    int host_ranks_max; /* of the host with most ranks */
    int host_ranks_min;
    bool contiguous; /* every host has a range of ranks */
    bool aligned;    /* and each the next 2^k: two_level has the canonical order */
} coll_layout;

/* What an operation of whole_bytes should take, in microseconds: all ranks' parts together in the
 * kinds with a part per rank, else the vector. Pure. AUTO is priced as what it would choose. */
double coll_cost_us(const coll_costs *costs, const coll_layout *shape, coll_kind kind,
                    coll_algorithm algorithm, size_t whole_bytes);

/* The cheapest algorithm of the canonical order. Pure. */
coll_algorithm coll_cost_choose(const coll_costs *costs, const coll_layout *shape, coll_kind kind,
                                size_t whole_bytes);

/* Whether `auto` may choose the algorithm. Pure. */
bool coll_cost_is_eligible(const coll_layout *shape, coll_kind kind, coll_algorithm algorithm);

/* Collective over comm: measures its links, in well under a second unless they are very slow; the
 * same figures on every rank. A class of links that the communicator does not have is given the
 * other's figures. Statuses as of the operations it runs. */
COLL_MUST_CHECK coll_status coll_tune_measure(coll_comm *comm, coll_costs *costs,
                                              coll_error *reterr);

/* The communicator's shape. */
void coll_tune_layout(const coll_comm *comm, coll_layout *shape);

/* The figures that the context's `auto` goes by; NULL where it has nothing to choose. */
const coll_costs *coll_tune_costs(const coll_context *context);

typedef struct coll_tune_row {
    double predicted_us;
    double measured_us; /* median over the repetitions of the slowest rank's time */
    bool eligible;      /* `auto` may take it */
    bool chosen;        /* and does */
} coll_tune_row;

/* An operation to compare: float32 sums over whole_bytes, rounded down to whole elements, at least
 * one per rank. */
typedef struct coll_tune_case {
    coll_kind kind;
    coll_algorithm algorithm;
    size_t whole_bytes;
} coll_tune_case;

/* Collective over comm: runs the operation a few times, and prices it with *costs, which must be
 * the same on every rank. COLL_ERR_INVALID, before anything is sent: the kind is no collective, as
 * send and receive are none. */
COLL_MUST_CHECK coll_status coll_tune_compare(coll_comm *comm, const coll_costs *costs,
                                              const coll_tune_case *which, coll_tune_row *row,
                                              coll_error *reterr);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
