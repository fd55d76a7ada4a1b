/* Computes which rows go to which rank. Called by ep.c and by passes. */
#include "parallel/expert/dispatch.h"

#include <string.h>

#include "base/assert.h"

size_t rank_ep_block_max(const rank_ep_cut *cut)
{
    const size_t here = rank_ep_here(cut);
    return cut->rows_max * (cut->chosen < here ? cut->chosen : here);
}

size_t rank_ep_received_max(const rank_ep_cut *cut)
{
    return (size_t)cut->ranks * rank_ep_block_max(cut);
}

/* The places of the entries from `first` to before `end`. */
static rank_ep_places between(const int32_t *begins, size_t first, size_t end)
{
    BASE_ASSERT(begins[first] <= begins[end]);
    return (rank_ep_places){.first = (size_t)begins[first],
                            .count = (size_t)(begins[end] - begins[first])};
}

rank_ep_places rank_ep_block(const rank_ep_cut *cut, const int32_t *begins, int rank)
{
    const size_t here = rank_ep_here(cut);
    BASE_ASSERT(rank >= 0 && rank < cut->ranks);
    return between(begins, (size_t)rank * here, ((size_t)rank + 1) * here);
}

rank_ep_places rank_ep_leaf(const rank_ep_cut *cut, const int32_t *received, int rank,
                            size_t expert)
{
    const size_t entry = (size_t)rank * rank_ep_here(cut) + expert;
    BASE_ASSERT(expert < rank_ep_here(cut));
    return between(received, entry, entry + 1);
}

void rank_ep_count(const rank_ep_cut *cut, const int32_t *sent, int32_t *counts)
{
    for (size_t e = 0; e < cut->experts; e++) {
        counts[e] = sent[e + 1] - sent[e];
    }
}

/* The sum of the counts that a rank sent; negative: no rank can have sent these. */
static int64_t sum_block(const rank_ep_cut *cut, const int32_t *counts)
{
    int64_t sum = 0;
    for (size_t e = 0; e < rank_ep_here(cut); e++) {
        if (counts[e] < 0 || (size_t)counts[e] > cut->rows_max) {
            return -1;
        }
        sum += counts[e];
    }
    return (size_t)sum <= rank_ep_block_max(cut) ? sum : -1;
}

bool rank_ep_place(const rank_ep_cut *cut, const int32_t *counts, int32_t *received)
{
    const size_t here = rank_ep_here(cut);
    int32_t sum = 0;
    for (size_t e = 0; e < cut->experts; e++) {
        if (e % here == 0 && sum_block(cut, counts + e) < 0) {
            memset(received, 0, (cut->experts + 1) * sizeof *received);
            return false;
        }
        received[e] = sum;
        sum += counts[e];
    }
    received[cut->experts] = sum;
    return true;
}
