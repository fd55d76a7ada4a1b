/* One case of the grid: one operation on all ranks of a job, its buffers between guard bytes, every
 * byte compared with the reference. */
#ifndef TEST_COLL_GRID_CASE_H
#define TEST_COLL_GRID_CASE_H

#include "ranks.h"

typedef enum grid_placement {
    GRID_APART,
    GRID_IN_PLACE,
    GRID_MISALIGNED, /* at odd addresses */
    GRID_MISALIGNED_IN_PLACE,
    GRID_ARENA,
    GRID_ARENA_IN_PLACE,
    GRID_ARENA_MISALIGNED,
    GRID_ARENA_SEND, /* the send buffer only */
    GRID_PLACEMENTS,
} grid_placement;

typedef struct grid_case {
    coll_kind kind; /* COLL_SEND: each rank to the next, and received from the one before */
    bool varies;    /* with a count for each rank; all-to-all: for each pair of ranks */
    size_t count;
    coll_type type; /* also REFERENCE_MAPS: then of a reduction of the program's own, */
    size_t group;   /* and so many maps are an element; 0: one */
    coll_reduce_op reduce;
    int root;
    coll_algorithm algorithm;
    grid_placement placement;
} grid_case;

typedef struct grid_rank {
    test_rank *rank;
    coll_comm *comm;
    coll_arena *arena;
    uint8_t *memory; /* private, as large as the arena */
    size_t bytes;
    unsigned salt;
} grid_rank;

/* Bytes of memory that a case takes on one rank of n, guards included. */
size_t grid_case_bytes(const grid_case *c, int ranks);

/* Runs the case on this rank; all ranks of the job run the same cases in the same order. False
 * after test_rank_fail. */
bool grid_case_run(grid_rank *g, const grid_case *c);

/* The same in two calls, with others of other buffers between. Ranks may end their cases in different
 * orders. NULL, or false, after test_rank_fail. The end frees it. */
typedef struct grid_flight grid_flight;
grid_flight *grid_case_start(grid_rank *g, const grid_case *c);
bool grid_case_end(grid_rank *g, grid_flight *f);

#endif
