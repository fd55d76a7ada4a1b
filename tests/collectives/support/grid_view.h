/* A case of the grid as one rank sees it: its counts and buffers, and what must come out. Shared by
 * grid_case.c and grid_expect.c. */
#ifndef TEST_COLL_GRID_VIEW_H
#define TEST_COLL_GRID_VIEW_H

#include "grid_case.h"

enum { GRID_RANKS_MAX = 64 };

typedef struct grid_view {
    const grid_case *c; /* `count` is that of maps */
    int rank;
    int ranks;
    size_t size;  /* of an element, or a map, */
    size_t group; /* of which an element has so many */
    size_t counts[GRID_RANKS_MAX];
    size_t given[GRID_RANKS_MAX]; /* the same in elements */
    size_t recv_counts[GRID_RANKS_MAX];
    size_t begins[GRID_RANKS_MAX + 1];      /* of the parts, in elements */
    size_t recv_begins[GRID_RANKS_MAX + 1]; /* the same, unless every pair of ranks has a count */
    size_t send_count;                      /* in this rank's buffers */
    size_t recv_count;
    size_t own_offset; /* of this rank's part, in the larger buffer of the two, in elements */
    uint8_t *send;
    uint8_t *recv;
    unsigned salt;
    coll_reduction own; /* of maps; else 0 */
    uint8_t neutral[COLL_ELEMENT_BYTES_MAX];
} grid_view;

bool grid_may_be_in_place(const grid_case *c);

/* Elements that one rank sends to another in an all-to-all with counts; in place as many as it gets
 * from that one. */
size_t grid_pair_count(const grid_case *c, int from, int to);

/* The salt, with exact inputs where the reference does not know the order of the sums. */
unsigned grid_salt(const grid_view *v, unsigned salt);

/* What element `index` of this rank's recv buffer must be. */
void grid_expect(const grid_view *v, size_t index, uint8_t *element);

#endif
