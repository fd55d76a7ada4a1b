/* Steps of decoding that a device replays: a few shapes that come again and again, each captured
 * once. A step reads its tokens, tables and lengths at addresses, so that its shape is all there is
 * to know. Ranks that share a model have the same steps, so they capture the same ones.
 *
 * The first step of a shape runs without a graph: operations that are made only once, all-reduces
 * among them, cannot be made while a step is captured. The second is captured. One thread. */
#ifndef RANK_GENERATE_STEP_GRAPHS_H
#define RANK_GENERATE_STEP_GRAPHS_H

#include "generate/step_tables.h"
#include "model/family.h"
#include "parallel/tensor/tp.h"

enum { RANK_STEP_GRAPHS_MAX = 8, RANK_STEP_SIZES_MAX = 8 };

/* How many sequences a step of decoding is padded to, where `most` can run: one of at most
 * RANK_STEP_SIZES_MAX sizes, `most` and its halves, rounded up. */
size_t rank_step_size(size_t most, size_t sequences);

typedef struct rank_step_graph {
    size_t rows;
    size_t segments;
    size_t active;
    uint64_t used;      /* the step that used it last, from 1; 0: the entry is free */
    rank_graph *graph;  /* NULL: the shape was seen once */
    rank_tp_costs once; /* of one replay */
} rank_step_graph;

typedef struct rank_step_graphs {
    uint64_t steps;
    uint64_t replays;
    rank_step_graph entries[RANK_STEP_GRAPHS_MAX];
} rank_step_graphs;

/* What a step of this shape is to do; the entry is the graphs'. */
typedef enum rank_step_way { RANK_STEP_RUN, RANK_STEP_CAPTURE, RANK_STEP_REPLAY } rank_step_way;
rank_step_way rank_step_graphs_find(rank_step_graphs *graphs, const rank_device *device,
                                    const rank_rows *rows, rank_step_graph **entry);

/* Enqueues the copy of the step's tables and the family's operations: runs, captures or replays
 * them. */
BASE_MUST_CHECK base_status rank_step_graphs_decode(rank_step_graphs *graphs, const rank_run *run,
                                                    const rank_step_tables *tables,
                                                    const rank_decode_args *args,
                                                    rank_tp_group *group, base_error *reterr);

/* Destroys all graphs. Before the group's communicator is ended: an abort waits for them. */
void rank_step_graphs_fini(rank_step_graphs *graphs, const rank_device *device);

#endif
