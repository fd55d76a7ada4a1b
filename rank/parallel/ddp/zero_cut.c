/* Where ZeRO cuts an array. Pure arithmetic. Called by the files of this directory, and by
 * train/prepare.c for what a rank updates. */
#include "base/assert.h"
#include "base/bytes.h"
#include "rank/zero.h"

rank_zero_cut rank_zero_cut_make(size_t count, size_t elements_wished, int ranks)
{
    const size_t step = (size_t)ranks * RANK_ZERO_BLOCK;
    BASE_ASSERT(count > 0);
    BASE_ASSERT(ranks > 0);
    const size_t wished = base_min_size(elements_wished, count); /* the product must not overflow */
    const size_t steps = wished > 0 ? (wished + step - 1) / step : 1;
    return (rank_zero_cut){.count = count, .unit_elements = steps * step, .ranks = ranks};
}

size_t rank_zero_units(const rank_zero_cut *cut)
{
    return (cut->count + cut->unit_elements - 1) / cut->unit_elements;
}

rank_zero_range rank_zero_unit(const rank_zero_cut *cut, size_t unit)
{
    const size_t offset = unit * cut->unit_elements;
    BASE_ASSERT(offset < cut->count);
    return (rank_zero_range){.offset = cut->offset + offset,
                             .count = base_min_size(cut->unit_elements, cut->count - offset)};
}

/* Elements of a unit before the piece of a rank. */
static size_t before(const rank_zero_cut *cut, size_t unit_count, int rank)
{
    const size_t blocks = (unit_count + RANK_ZERO_BLOCK - 1) / RANK_ZERO_BLOCK;
    const size_t whole = blocks * (size_t)rank / (size_t)cut->ranks;
    return base_min_size(whole * RANK_ZERO_BLOCK, unit_count);
}

rank_zero_range rank_zero_piece(const rank_zero_cut *cut, size_t unit, int rank)
{
    const rank_zero_range whole = rank_zero_unit(cut, unit);
    const size_t begin = before(cut, whole.count, rank);
    return (rank_zero_range){.offset = whole.offset + begin,
                             .count = before(cut, whole.count, rank + 1) - begin};
}

size_t rank_zero_place(const rank_zero_cut *cut, size_t unit, int rank)
{
    const size_t full = cut->unit_elements / (size_t)cut->ranks;
    const size_t units = rank_zero_units(cut);
    BASE_ASSERT(unit <= units);
    return unit < units ? unit * full
                        : (units - 1) * full + rank_zero_piece(cut, units - 1, rank).count;
}

size_t rank_zero_shard(const rank_zero_cut *cut, int rank)
{
    return rank_zero_place(cut, rank_zero_units(cut), rank);
}
