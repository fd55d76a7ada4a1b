/* Which rows go to which rank, where ranks share out the experts of a model: the arithmetic of the
 * exchange. Pure.
 *
 * Each of N ranks has E / N neighbouring experts of each layer. A place is one row at one of its experts
 * (backend/experts.h). A rank's own places are sorted by expert, and so by the rank that has the expert:
 * what goes to one rank stands together. A rank that receives sorts by the rank of the rows first and by
 * its experts second, which is the order in which they come. So a table of begins describes either side:
 *
 *     sent      E entries, and the end: the places of each expert of the model
 *     received  N · E / N entries, and the end: of each rank, the places of each expert that is here
 *
 * Entries from r · E / N on are what goes to rank r, or what comes from it. The way back swaps the two. */
#ifndef RANK_PARALLEL_EXPERT_DISPATCH_H
#define RANK_PARALLEL_EXPERT_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What does not change from layer to layer. */
typedef struct rank_ep_cut {
    int ranks;
    size_t experts;  /* of the model: a multiple of ranks */
    size_t rows_max; /* of one rank, before they are routed */
    size_t chosen;   /* experts that a row goes to */
} rank_ep_cut;

/* The experts that one rank has. */
static inline size_t rank_ep_here(const rank_ep_cut *cut)
{
    return cut->experts / (size_t)cut->ranks;
}

/* The places that one rank can send to one: a row's experts are different ones. */
size_t rank_ep_block_max(const rank_ep_cut *cut);

/* The places that one rank can receive, itself included. */
size_t rank_ep_received_max(const rank_ep_cut *cut);

/* Places first … first + count. */
typedef struct rank_ep_places {
    size_t first;
    size_t count;
} rank_ep_places;

/* What goes to a rank, or comes from it, by a table of begins. */
rank_ep_places rank_ep_block(const rank_ep_cut *cut, const int32_t *begins, int rank);

/* What has come from a rank for one of the experts here. */
rank_ep_places rank_ep_leaf(const rank_ep_cut *cut, const int32_t *received, int rank,
                            size_t expert);

/* counts (E) = how many places each expert of the model has. Those from r · E / N on are for rank r. */
void rank_ep_count(const rank_ep_cut *cut, const int32_t *sent, int32_t *counts);

/* received (E + 1) = the table of what has come, from the counts that each rank sent (N, E / N). False: no
 * rank can have sent this many; received is then that of nothing. */
bool rank_ep_place(const rank_ep_cut *cut, const int32_t *counts, int32_t *received);

#endif
