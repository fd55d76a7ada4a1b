/* Parameters that not all ranks have alike: which ranks share which ranges. Called by the files of this
 * directory. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "parallel/ddp/ddp_parts.h"

rank_ddp_stretch rank_ddp_stretch_of(const rank_ddp_apart *apart, coll_comm *all, size_t element)
{
    rank_ddp_stretch found = {.offset = 0, .end = SIZE_MAX, .comm = all};
    for (int i = 0; i < apart->range_count; i++) {
        const rank_zero_range *range = &apart->ranges[i];
        const size_t end = range->offset + range->count;
        if (element < range->offset) {
            found.end = range->offset;
            break;
        }
        if (element < end) {
            return (rank_ddp_stretch){range->offset, end, apart->copies, true};
        }
        found.offset = end;
    }
    return found;
}

/* What all ranks have alike is counted by the first of each group. */
static void count_stretches(rank_ddp *ddp)
{
    const bool first = coll_comm_rank(ddp->apart.members) == 0;
    const float *sums = rank_ddp_sums(ddp);
    for (size_t at = 0; at < ddp->param_count;) {
        const rank_ddp_stretch stretch = rank_ddp_stretch_of(&ddp->apart, ddp->comm, at);
        const size_t end = stretch.end < ddp->param_count ? stretch.end : ddp->param_count;
        if (first || stretch.apart) {
            ddp->counted[ddp->counted_count++] = (rank_norm_range){sums + at, end - at};
        }
        at = end;
    }
}

base_status rank_ddp_make_apart(rank_ddp *ddp, const rank_ddp_options *options, base_error *reterr)
{
    const rank_ddp_apart *from = &options->apart;
    const size_t count = (size_t)from->range_count;
    BASE_ASSERT(!ddp->ranks_first || (!ddp->bracketed && !ddp->local));
    BASE_ASSERT(!ddp->ranks_first || options->zero <= RANK_DDP_ZERO_MOMENTS);
    if (count == 0) {
        return BASE_OK;
    }
    BASE_ASSERT(!rank_ddp_on_device(ddp) && !ddp->local);
    BASE_ASSERT(options->zero <= RANK_DDP_ZERO_MOMENTS);
    rank_zero_range *ranges = calloc(count, sizeof *ranges);
    ddp->apart = *from;
    ddp->apart.ranges = ranges;
    ddp->counted = calloc(2 * count + 1, sizeof *ddp->counted);
    if (ranges == NULL || ddp->counted == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for ranges of parameters");
    }
    memcpy(ranges, from->ranges, count * sizeof *ranges);
    count_stretches(ddp);
    return BASE_OK;
}

void rank_ddp_free_apart(rank_ddp *ddp)
{
    free((void *)ddp->apart.ranges);
    free(ddp->counted);
}
