/* Which parameters a stage of a pipeline holds, and where. Called by families, the optimizer and pipeline/. */
#include "base/assert.h"
#include "rank/model.h"

void rank_held_add(rank_held *held, size_t offset, size_t count)
{
    int at = held->range_count;
    BASE_ASSERT(held->range_count < RANK_HELD_RANGES_MAX);
    for (; at > 0 && held->ranges[at - 1].offset > offset; at--) {
        held->ranges[at] = held->ranges[at - 1];
    }
    held->ranges[at] = (rank_range){.offset = offset, .count = count};
    held->range_count++;
    held->count = 0;
    for (int i = 0; i < held->range_count; i++) {
        held->ranges[i].place = held->count;
        held->count += held->ranges[i].count;
    }
}

/* The last range that does not begin behind it. What is empty may stand at a range's end. */
static const rank_range *range_of(const rank_held *held, size_t offset)
{
    int at = held->range_count - 1;
    while (at > 0 && held->ranges[at].offset > offset) {
        at--;
    }
    return &held->ranges[at];
}

size_t rank_held_place(const rank_held *held, size_t offset)
{
    if (held == NULL) {
        return offset;
    }
    const rank_range *range = range_of(held, offset);
    return range->place + (offset - range->offset);
}

bool rank_held_has(const rank_held *held, size_t offset)
{
    if (held == NULL) {
        return true;
    }
    const rank_range *range = range_of(held, offset);
    return offset >= range->offset && offset - range->offset < range->count;
}
