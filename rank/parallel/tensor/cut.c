/* Computes a rank's range when an axis is cut. Called by checkpoint/shards.c. */
#include "parallel/tensor/cut.h"

#include "base/assert.h"

size_t rank_cut_units(const rank_cut *cut, size_t extent)
{
    const size_t part = extent / (size_t)cut->parts;
    BASE_ASSERT(part * (size_t)cut->parts == extent);
    BASE_ASSERT(part % cut->unit == 0);
    return part / cut->unit;
}

rank_cut_range rank_cut_range_make(const rank_cut *cut, size_t extent, int part, int rank,
                                   int ranks)
{
    const size_t units = rank_cut_units(cut, extent);
    if (cut->kind == RANK_CUT_KV_HEADS && units < (size_t)ranks) {
        const int sharers = ranks / (int)units;
        BASE_ASSERT(ranks % (int)units == 0);
        return (rank_cut_range){.first =
                                    ((size_t)part * units + (size_t)(rank / sharers)) * cut->unit,
                                .count = cut->unit};
    }
    const size_t count = units / (size_t)ranks * cut->unit;
    BASE_ASSERT(units % (size_t)ranks == 0);
    return (rank_cut_range){.first = (size_t)part * units * cut->unit + (size_t)rank * count,
                            .count = count};
}
