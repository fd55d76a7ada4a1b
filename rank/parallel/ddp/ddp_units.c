/* The units that ZeRO cuts between ranks, one after the other. Pure arithmetic. Called by ddp_make.c and ddp_zero.c, and
 * by train/prepare.c for what a rank updates.
 *
 * Where ranks have different ranges of the array (rank_ddp_apart), each stretch that the same ranks have alike is cut
 * between these, as if it were an array of its own. */
#include "base/assert.h"
#include "base/bytes.h"
#include "parallel/ddp/ddp_parts.h"

rank_ddp_unit rank_ddp_unit_of(const rank_ddp_units *units, size_t element)
{
    BASE_ASSERT(element < units->count);
    const rank_ddp_stretch of = rank_ddp_stretch_of(&units->apart, units->comm, element);
    const int rank = of.apart ? coll_comm_rank(of.comm) : units->rank;
    const int ranks = of.apart ? coll_comm_size(of.comm) : units->ranks;
    const size_t count = base_min_size(of.end, units->count) - of.offset;
    rank_ddp_unit unit = {.comm = of.comm,
                          .cut = rank_zero_cut_make(count, units->elements, ranks)};
    unit.cut.offset = of.offset;
    unit.index = (element - of.offset) / unit.cut.unit_elements;
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

size_t rank_ddp_stretches(const rank_ddp_options *options, int ranks, rank_zero_stretch *stretches)
{
    const rank_ddp_units units = rank_ddp_units_make(options, 0, ranks);
    rank_ddp_unit unit = {.number = 0};
    size_t count = 0;
    while (rank_ddp_next_unit(&units, &unit)) {
        if (unit.index == 0 && stretches != NULL) {
            stretches[count] = (rank_zero_stretch){
                .cut = unit.cut,
                .apart = rank_ddp_stretch_of(&units.apart, NULL, unit.all.offset).apart};
        }
        count += unit.index == 0 ? 1 : 0;
    }
    return count;
}
