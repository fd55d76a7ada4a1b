/* What ZeRO adds to data-parallel training: gradients and parameters of which each rank updates its
 * own pieces. Called by ddp.c and train/. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "parallel/ddp/ddp_parts.h"
#include "ringfence/coll_error.h"

bool rank_ddp_is_sharded(const rank_ddp *ddp)
{
    return ddp->shards.cut.count > 0;
}

bool rank_ddp_shards_gradients(const rank_ddp *ddp)
{
    return ddp->shards.stage >= RANK_DDP_ZERO_GRADIENTS;
}

/* Bytes from the beginning of the unit that has the element `begin` to the end of the one before `end`. */
static size_t units_bytes(const rank_zero_cut *cut, size_t begin, size_t end)
{
    if (begin >= end) {
        return 0;
    }
    const rank_zero_range last = rank_zero_unit(cut, (end - 1) / cut->unit_elements);
    return (last.offset + last.count - begin / cut->unit_elements * cut->unit_elements) *
           sizeof(float);
}

/* The second range of the last part: a tied output's matrix, which backward begins with, and which stands
 * at the beginning of the array. */
static rank_zero_range tied(const rank_ddp_part *parts, int part_count)
{
    return parts[part_count - 1].ranges[1];
}

/* The gradients that backward makes ready with those of a part: the part's own, and with a tied output those of
 * the last part with those of the one before. */
static size_t ready_bytes(const rank_ddp_options *options, const rank_zero_cut *cut, int part)
{
    const bool with_last =
        part + 2 == options->part_count && tied(options->parts, options->part_count).count > 0;
    const int end_part = with_last ? part + 1 : part;
    const rank_zero_range *end = &options->parts[end_part].ranges[0];
    return units_bytes(cut, options->parts[part].ranges[0].offset, end->offset + end->count);
}

size_t rank_ddp_plan_used(const rank_ddp_options *options, const rank_zero_cut *cut)
{
    const rank_zero_range first = tied(options->parts, options->part_count);
    size_t largest = 0;
    for (int part = 0; part < options->part_count; part++) {
        largest = base_max_size(largest, ready_bytes(options, cut, part));
    }
    const size_t under_way = RANK_DDP_UNDER_WAY_MAX * cut->unit_elements * sizeof(float);
    return base_min_size(cut->count * sizeof(float),
                         largest + under_way +
                             units_bytes(cut, first.offset, first.offset + first.count));
}

void rank_ddp_count_used(rank_ddp *ddp, size_t offset)
{
    rank_ddp_shards *shards = &ddp->shards;
    const rank_zero_range first = tied(shards->parts, shards->part_count);
    const rank_zero_cut *cut = &shards->cut;
    const size_t taken = shards->taken_count;
    const size_t end = taken == 0 ? cut->count : ddp->buckets[taken - 1].offset;
    const size_t begin = offset / cut->unit_elements * cut->unit_elements;
    const size_t below = base_min_size(begin, first.offset + first.count);
    shards->used_bytes_max =
        base_max_size(shards->used_bytes_max,
                      units_bytes(cut, begin, end) + units_bytes(cut, first.offset, below));
}

/* Adds the piece of a unit that is reduced to this rank's sums, in the canonical order of micro-batches.
 * The unit's memory goes back. */
static void take_unit(rank_ddp *ddp, const rank_ddp_bucket *reduced)
{
    const rank_device *device = &ddp->device;
    const rank_zero_cut *cut = &ddp->shards.cut;
    const size_t unit = reduced->offset / cut->unit_elements;
    const int rank = coll_comm_rank(ddp->comm);
    const rank_zero_range mine = rank_zero_piece(cut, unit, rank);
    const size_t place = rank_zero_place(cut, unit, rank);
    float *const *sums = ddp->shards.sums;
    int level = ddp->plan.level;
    device->backend->copy(device->queue, sums[level] + place, ddp->levels[0] + mine.offset,
                          mine.count * sizeof(float));
    for (int merge = 0; merge < ddp->plan.merges; merge++, level--) {
        device->backend->add(device->queue, &(rank_add){.count = mine.count,
                                                        .from = sums[level] + place,
                                                        .to = sums[level - 1] + place});
    }
    coll_arena_discard(ddp->arena, reduced->offset * sizeof(float), reduced->count * sizeof(float));
}

void rank_ddp_take_units(rank_ddp *ddp, size_t most)
{
    size_t *taken = &ddp->shards.taken_count;
    while (ddp->failed == BASE_OK && *taken < ddp->started_count) {
        rank_ddp_bucket *oldest = &ddp->buckets[*taken];
        if (ddp->started_count - *taken > most) {
            rank_ddp_wait(ddp, &oldest->op);
        } else if (!rank_ddp_is_done(ddp, &oldest->op)) {
            return;
        }
        if (ddp->failed == BASE_OK) {
            take_unit(ddp, oldest);
            ++*taken;
        }
    }
}

/* An all-gather, in place, of the pieces of a unit that stands at `at`. */
static coll_op_desc gather_desc(const rank_ddp_unit *unit, float *at, const size_t *counts)
{
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = COLL_ALL_GATHER,
                          .send = at + (unit->mine.offset - unit->all.offset),
                          .recv = at,
                          .counts = counts,
                          .type = COLL_FLOAT32};
}

/* Sums of this rank's shard alone, for every level of the tree of micro-batches. */
static base_status make_sums(rank_ddp *ddp, base_error *reterr)
{
    rank_ddp_shards *made = &ddp->shards;
    const rank_device *device = &ddp->device;
    const size_t count = rank_zero_shard(&made->cut, coll_comm_rank(ddp->comm));
    const int levels = rank_leaf_plan_levels(ddp->micro_batches);
    base_status status = BASE_OK;
    for (int level = 0; status == BASE_OK && level < levels; level++) {
        void *memory = NULL;
        status = device->backend->alloc(device->queue, RANK_MEMORY_WORK,
                                        (count > 0 ? count : 1) * sizeof(float), &memory, reterr);
        made->sums[level] = memory;
        ddp->waiting_bytes += status == BASE_OK ? count * sizeof(float) : 0;
    }
    made->mine[0] = (rank_norm_range){made->sums[0], count};
    made->mine_count = 1;
    return status;
}

/* The pieces that this rank has the sums of. */
static void find_pieces(rank_ddp *ddp)
{
    rank_ddp_shards *made = &ddp->shards;
    rank_ddp_unit unit = {.number = 0};
    while (rank_ddp_next_unit(&made->units, &unit)) {
        made->mine[made->mine_count++] =
            (rank_norm_range){rank_ddp_sums(ddp) + unit.mine.offset, unit.mine.count};
    }
}

/* The gathers of the parameters: in place, or from this rank's shard into the window. */
static base_status make_gathers(rank_ddp *ddp, float *params, base_error *reterr)
{
    rank_ddp_shards *made = &ddp->shards;
    const bool windowed = made->stage == RANK_DDP_ZERO_PARAMETERS;
    float *all = windowed ? coll_arena_data(ddp->window.all) : params;
    size_t counts[BASE_COLL_RANKS_MAX];
    rank_ddp_unit unit = {.number = 0};
    base_status status = BASE_OK;
    while (status == BASE_OK && rank_ddp_next_unit(&made->units, &unit)) {
        rank_ddp_piece_counts(&unit, counts);
        coll_op_desc desc = gather_desc(&unit, all + unit.all.offset, counts);
        if (windowed) {
            desc.send = (float *)coll_arena_data(ddp->window.shard) + unit.place;
        }
        rank_ddp_op *op = &made->gathers[unit.number];
        status = (base_status)coll_op_create(unit.comm, &desc, &op->op, coll_error_of(reterr));
        op->under_way = (rank_trace_span){.kind = RANK_TRACE_GATHER,
                                          .of = RANK_TRACE_EXCHANGE,
                                          .index = (int32_t)unit.number,
                                          .bytes = unit.all.count * sizeof(float)};
    }
    return status;
}

base_status rank_ddp_make_shards(rank_ddp *ddp, const rank_ddp_options *options, float *params,
                                 base_error *reterr)
{
    rank_ddp_shards *made = &ddp->shards;
    base_status status = BASE_OK;
    made->unit_count =
        rank_ddp_pieces(options, coll_comm_rank(ddp->comm), coll_comm_size(ddp->comm), NULL);
    made->gathers = calloc(made->unit_count, sizeof *made->gathers);
    made->mine = calloc(made->unit_count, sizeof *made->mine);
    made->parts = calloc((size_t)options->part_count + 1, sizeof *made->parts);
    if (made->gathers == NULL || made->mine == NULL || made->parts == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the shards");
    }
    made->part_count = options->part_count;
    if (rank_ddp_shards_gradients(ddp)) {
        memcpy(made->parts, options->parts, (size_t)made->part_count * sizeof *made->parts);
        status = make_sums(ddp, reterr);
    } else {
        find_pieces(ddp);
    }
    if (status == BASE_OK) {
        status = rank_ddp_make_window(ddp, reterr);
    }
    return status == BASE_OK ? make_gathers(ddp, params, reterr) : status;
}

void rank_ddp_free_shards(rank_ddp *ddp)
{
    rank_ddp_shards *shards = &ddp->shards;
    const size_t units = shards->gathers != NULL ? shards->unit_count : 0;
    for (size_t unit = 0; unit < units; unit++) {
        coll_op_destroy(shards->gathers[unit].op);
    }
    for (int level = 0; level < RANK_DDP_LEVELS_MAX; level++) {
        ddp->device.backend->release(ddp->device.queue, shards->sums[level]);
    }
    free(shards->gathers);
    free(shards->mine);
    free(shards->parts);
    rank_ddp_free_window(ddp);
}

base_status rank_ddp_sum_squares(const rank_ddp *ddp, double *sum, base_error *reterr)
{
    const rank_ddp_shards *shards = &ddp->shards;
    if (!rank_ddp_is_sharded(ddp)) {
        return rank_norm_sum_squares(ddp->apart.members, &ddp->device, ddp->counted,
                                     ddp->counted_count, sum, reterr);
    }
    return rank_norm_sum_squares(ddp->comm, &ddp->device, shards->mine, shards->mine_count, sum,
                                 reterr);
}

base_status rank_ddp_gather(rank_ddp *ddp, base_error *reterr)
{
    const size_t units = ddp->shards.unit_count;
    const int64_t begun_ns = rank_trace_begin(ddp->trace);
    base_status status = BASE_OK;
    for (size_t unit = 0; status == BASE_OK && unit < units; unit++) {
        status = (base_status)coll_op_start(ddp->shards.gathers[unit].op, coll_error_of(reterr));
    }
    for (size_t unit = 0; status == BASE_OK && unit < units; unit++) {
        status = (base_status)coll_op_wait(ddp->shards.gathers[unit].op, coll_error_of(reterr));
    }
    rank_trace_add(ddp->trace, (rank_trace_span){.kind = RANK_TRACE_GATHER,
                                                 .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE,
                                                 .begin_ns = begun_ns,
                                                 .index = -1,
                                                 .bytes = ddp->param_count * sizeof(float)});
    return status;
}

/* Gives the memory of level 0 back, which is not needed between two steps. */
static void drop_level(const rank_ddp *ddp)
{
    if (rank_ddp_shards_gradients(ddp)) {
        coll_arena_discard(ddp->arena, 0, ddp->param_count * sizeof(float));
    }
}

/* Both ways go unit by unit through the memory of the gradients, of which nobody needs any more. */
base_status rank_ddp_spread(rank_ddp *ddp, const float *whole, float *shard, const char *what,
                            base_error *reterr)
{
    const rank_device *device = &ddp->device;
    float *unit_at = ddp->levels[0];
    rank_ddp_unit unit = {.number = 0};
    base_status status = BASE_OK;
    while (status == BASE_OK && rank_ddp_next_unit(&ddp->shards.units, &unit)) {
        if (coll_comm_rank(unit.comm) == 0) {
            device->backend->copy(device->queue, unit_at, whole + unit.all.offset,
                                  unit.all.count * sizeof *whole);
        }
        status = rank_ddp_broadcast(ddp, unit.comm, unit_at, unit.all.count, reterr);
        if (status == BASE_OK) {
            status = rank_ddp_check_same(
                ddp, &(rank_ddp_values){unit.comm, unit_at, unit.all.count, what}, reterr);
        }
        if (status == BASE_OK) {
            device->backend->copy(device->queue, shard + unit.place,
                                  unit_at + (unit.mine.offset - unit.all.offset),
                                  unit.mine.count * sizeof *shard);
        }
    }
    drop_level(ddp);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "sharing the %s", what);
}

base_status rank_ddp_collect(rank_ddp *ddp, const float *shard, float *whole, base_error *reterr)
{
    const rank_device *device = &ddp->device;
    float *unit_at = ddp->levels[0];
    size_t counts[BASE_COLL_RANKS_MAX];
    rank_ddp_unit unit = {.number = 0};
    base_status status = BASE_OK;
    while (status == BASE_OK && rank_ddp_next_unit(&ddp->shards.units, &unit)) {
        device->backend->copy(device->queue, unit_at + (unit.mine.offset - unit.all.offset),
                              shard + unit.place, unit.mine.count * sizeof *shard);
        rank_ddp_piece_counts(&unit, counts);
        const coll_op_desc desc = gather_desc(&unit, unit_at, counts);
        status = (base_status)coll_run(unit.comm, &desc, coll_error_of(reterr));
        if (status == BASE_OK && whole != NULL) {
            device->backend->copy(device->queue, whole + unit.all.offset, unit_at,
                                  unit.all.count * sizeof *whole);
        }
    }
    drop_level(ddp);
    return status;
}
