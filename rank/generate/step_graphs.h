/* Steps of decoding that a device replays: a few shapes that come again and again, each captured
 * once. A step reads its tokens, tables and lengths at addresses, so that its shape is all there is
 * to know. Ranks that share a model have the same steps. They capture the same ones: where one of
 * them cannot, none does, and that shape runs without a graph from then on. One thread. */
#ifndef RANK_GENERATE_STEP_GRAPHS_H
#define RANK_GENERATE_STEP_GRAPHS_H

#include "backend/graphs.h"
#include "generate/step_tables.h"
#include "model/family.h"
#include "parallel/tensor/tp.h"

enum { RANK_STEP_GRAPHS_MAX = 8, RANK_STEP_SIZES_MAX = 8 };

/* How many sequences a step of decoding is padded to, where `most` can run: one of at most
 * RANK_STEP_SIZES_MAX sizes, `most` and its halves, rounded up. */
size_t rank_step_size(size_t most, size_t sequences);

/* What a step is made of; all borrowed. */
typedef struct rank_step {
    const rank_run *run;
    const rank_step_tables *tables;
    const rank_decode_args *args;
    rank_tp_group *group;
    coll_comm *comm; /* the ranks that share the model; NULL: this one alone */
} rank_step;

/* Enqueues the copy of the step's tables and the family's operations: runs, captures or replays
 * them. graphs NULL: runs them. An error is one of exchanging with the other ranks whether they
 * could capture; then the step may be missing on the queue. A capture that fails is no error: the
 * graphs' info has why. */
BASE_MUST_CHECK base_status rank_step_enqueue(rank_graphs *graphs, const rank_step *step,
                                              base_error *reterr);

#endif
