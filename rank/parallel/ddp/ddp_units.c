/* The units that ZeRO cuts between ranks, one after the other. Pure arithmetic. Called by ddp_make.c and ddp_zero.c, and
 * by train/prepare.c for what a rank updates.
 *
 * Where ranks have different ranges of the array (rank_ddp_apart), each stretch that the same ranks have alike is cut
 * between these, as if it were an array of its own. */
#include "base/assert.h"
#include "parallel/ddp/ddp_parts.h"

/* The range of the array that has the element, and whether it is one of those apart. */
typedef struct stretch {
    rank_zero_range range;
    bool apart;
} stretch;

static stretch stretch_of(const rank_ddp_units *units, size_t element)
{
    size_t begin = 0;
    for (int i = 0; i < units->apart.range_count; i++) {
        const rank_zero_range *range = &units->apart.ranges[i];
        if (element < range->offset) {
            return (stretch){{begin, range->offset - begin}, false};
        }
        begin = range->offset + range->count;
        if (element < begin) {
            return (stretch){*range, true};
        }
    }
    return (stretch){{begin, units->count - begin}, false};
}

rank_ddp_unit rank_ddp_unit_of(const rank_ddp_units *units, size_t element)
{
    BASE_ASSERT(element < units->count);
    const stretch of = stretch_of(units, element);
    coll_comm *copies = units->apart.copies;
    const int rank = of.apart ? coll_comm_rank(copies) : units->rank;
    const int ranks = of.apart ? coll_comm_size(copies) : units->ranks;
    rank_ddp_unit unit = {.comm = of.apart ? copies : units->comm,
                          .cut = rank_zero_cut_make(of.range.count, units->elements, ranks)};
    unit.cut.offset = of.range.offset;
    unit.index = (element - of.range.offset) / unit.cut.unit_elements;
    unit.all = rank_zero_unit(&unit.cut, unit.index);
    unit.mine = rank_zero_piece(&unit.cut, unit.index, rank);
    return unit;
}

bool rank_ddp_next_unit(const rank_ddp_units *units, rank_ddp_unit *unit)
{
    const size_t at = unit->all.offset + unit->all.count;
    const size_t number = unit->all.count > 0 ? unit->number + 1 : 0;
    const size_t place = unit->place + unit->mine.count;
    if (at == units->count) {
        return false;
    }
    *unit = rank_ddp_unit_of(units, at);
    unit->number = number;
    unit->place = place;
    return true;
}

void rank_ddp_piece_counts(const rank_ddp_unit *unit, size_t *counts)
{
    for (int rank = 0; rank < unit->cut.ranks; rank++) {
        counts[rank] = rank_zero_piece(&unit->cut, unit->index, rank).count;
    }
}

rank_ddp_units rank_ddp_units_make(const rank_ddp_options *options, int rank, int ranks)
{
    return (rank_ddp_units){.count = options->param_count,
                            .elements = rank_ddp_wished_elements(options),
                            .rank = rank,
                            .ranks = ranks,
                            .apart = options->apart};
}

size_t rank_ddp_pieces(const rank_ddp_options *options, int rank, int ranks,
                       rank_zero_range *pieces)
{
    const rank_ddp_units units = rank_ddp_units_make(options, rank, ranks);
    rank_ddp_unit unit = {.number = 0};
    size_t count = 0;
    while (rank_ddp_next_unit(&units, &unit)) {
        if (pieces != NULL) {
            pieces[count] = unit.mine;
        }
        count++;
    }
    return count;
}

size_t rank_ddp_shard_count(const rank_ddp_options *options, int rank, int ranks)
{
    const rank_ddp_units units = rank_ddp_units_make(options, rank, ranks);
    rank_ddp_unit unit = {.number = 0};
    while (rank_ddp_next_unit(&units, &unit)) {
    }
    return unit.place + unit.mine.count;
}
