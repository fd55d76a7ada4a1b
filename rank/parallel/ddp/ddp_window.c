/* ZeRO's stage 3: the parameters that a pass needs, gathered from the ranks' shards. Called by ddp.c, and by
 * the model through its hook.
 *
 * A pass goes through positions: 0, 1, … P - 1 in forward, at each of which it reads the part of that number,
 * and P … 2 P - 3 in backward, at which it reads the parts P - 2 … 1. At a position the window has the parts of
 * this one and of the next, which is gathered meanwhile.
 *
 * Every rank must start the same operations in the same order, but a rank whose batch is empty asks for
 * nothing. So forward ends at position P - 1 on every rank, whatever it has asked for, and in backward a
 * position begins at the latest when the gradients of its part are ready, which all ranks report. Gathers
 * and reductions then alternate in the same way everywhere.
 *
 * A gathered unit stands where it would in an array of all parameters. So addresses do not change, and only
 * units in the window have memory. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "parallel/ddp/ddp_parts.h"
#include "ringfence/coll_error.h"

static bool is_windowed(const rank_ddp *ddp)
{
    return ddp->window.all != NULL;
}

/* How many positions a pass over so many parts has. */
static int position_count(int part_count)
{
    return 2 * part_count - 2;
}

static int part_at(int part_count, int position)
{
    return position < part_count ? position : position_count(part_count) - position;
}

/* Units [first, end) that have elements of the range. */
typedef struct unit_span {
    size_t first;
    size_t end;
} unit_span;

static unit_span span_of(const rank_zero_cut *cut, rank_zero_range range)
{
    if (range.count == 0) {
        return (unit_span){0, 0};
    }
    return (unit_span){range.offset / cut->unit_elements,
                       (range.offset + range.count - 1) / cut->unit_elements + 1};
}

static bool has_unit(const rank_zero_cut *cut, const rank_ddp_part *part, size_t unit)
{
    for (int i = 0; i < 2; i++) {
        const unit_span span = span_of(cut, part->ranges[i]);
        if (unit >= span.first && unit < span.end) {
            return true;
        }
    }
    return false;
}

static bool covers(const rank_ddp_part *part, size_t offset, size_t count)
{
    for (int i = 0; i < 2; i++) {
        const rank_zero_range *range = &part->ranges[i];
        if (offset >= range->offset && offset - range->offset < range->count &&
            count <= range->count - (offset - range->offset)) {
            return true;
        }
    }
    return false;
}

static size_t unit_bytes(const rank_zero_cut *cut, size_t unit)
{
    return rank_zero_unit(cut, unit).count * sizeof(float);
}

static const rank_ddp_part *part_of(const rank_ddp *ddp, int position)
{
    const rank_ddp_shards *shards = &ddp->shards;
    return &shards->parts[part_at(shards->part_count, position)];
}

static void start_part(rank_ddp *ddp, int position)
{
    rank_ddp_window *window = &ddp->window;
    for (int i = 0; i < 2; i++) {
        const unit_span span = span_of(&ddp->shards.cut, part_of(ddp, position)->ranges[i]);
        for (size_t unit = span.first; unit < span.end; unit++) {
            if (window->units[unit] == RANK_DDP_UNIT_ABSENT) {
                rank_ddp_start(ddp, &ddp->shards.gathers[unit]);
                window->units[unit] = RANK_DDP_UNIT_UNDER_WAY;
                window->used_bytes += unit_bytes(&ddp->shards.cut, unit);
            }
        }
    }
    window->used_bytes_max = base_max_size(window->used_bytes_max, window->used_bytes);
}

static void wait_unit(rank_ddp *ddp, size_t unit)
{
    if (ddp->window.units[unit] == RANK_DDP_UNIT_UNDER_WAY) {
        rank_ddp_wait(ddp, &ddp->shards.gathers[unit]);
        ddp->window.units[unit] = RANK_DDP_UNIT_PRESENT;
    }
}

/* Drops the units that neither part has; NULL: no part. */
static void drop_units(rank_ddp *ddp, const rank_ddp_part *keep, const rank_ddp_part *also)
{
    rank_ddp_window *window = &ddp->window;
    const rank_zero_cut *cut = &ddp->shards.cut;
    for (size_t unit = 0; unit < rank_zero_units(cut); unit++) {
        const bool kept = (keep != NULL && has_unit(cut, keep, unit)) ||
                          (also != NULL && has_unit(cut, also, unit));
        if (kept || window->units[unit] == RANK_DDP_UNIT_ABSENT) {
            continue;
        }
        wait_unit(ddp, unit);
        window->units[unit] = RANK_DDP_UNIT_ABSENT;
        window->used_bytes -= unit_bytes(cut, unit);
        coll_arena_discard(window->all, rank_zero_unit(cut, unit).offset * sizeof(float),
                           unit_bytes(cut, unit));
    }
}

/* Goes to a position, if the pass is not there yet. */
static void enter(rank_ddp *ddp, int position)
{
    rank_ddp_window *window = &ddp->window;
    const int last = position_count(ddp->shards.part_count) - 1;
    while (window->position < position) {
        const int now = ++window->position;
        BASE_ASSERT(now <= last);
        drop_units(ddp, part_of(ddp, now), now < last ? part_of(ddp, now + 1) : NULL);
        start_part(ddp, now);
        if (now < last) {
            start_part(ddp, now + 1);
        }
    }
}

const float *rank_ddp_need(void *user, size_t offset, size_t count)
{
    rank_ddp *ddp = user;
    rank_ddp_window *window = &ddp->window;
    int position = window->position < 0 ? 0 : window->position;
    const float *at = (const float *)coll_arena_data(window->all) + offset;
    if (count == 0) { /* a tensor that the family does not have */
        return at;
    }
    while (position < window->limit && !covers(part_of(ddp, position), offset, count)) {
        position++;
    }
    BASE_ASSERT(position < window->limit); /* the model reads what its parts say */
    enter(ddp, position);
    const unit_span span =
        span_of(&ddp->shards.cut, (rank_zero_range){.offset = offset, .count = count});
    for (size_t unit = span.first; unit < span.end; unit++) {
        wait_unit(ddp, unit);
    }
    return at;
}

void rank_ddp_window_turn(rank_ddp *ddp)
{
    if (is_windowed(ddp)) {
        enter(ddp, ddp->shards.part_count - 1);
        ddp->window.limit = position_count(ddp->shards.part_count);
    }
}

void rank_ddp_window_ready(rank_ddp *ddp, size_t offset)
{
    if (!is_windowed(ddp)) {
        return;
    }
    const int last = position_count(ddp->shards.part_count) - 1;
    int position = ddp->shards.part_count - 1;
    while (position < last && !covers(part_of(ddp, position), offset, 1)) {
        position++;
    }
    enter(ddp, position < last ? position : last);
}

void rank_ddp_window_end(rank_ddp *ddp)
{
    if (is_windowed(ddp)) {
        drop_units(ddp, NULL, NULL);
        ddp->window.position = -1;
        ddp->window.limit = ddp->shards.part_count;
    }
}

size_t rank_ddp_plan_window(const rank_ddp_options *options, const rank_zero_cut *cut)
{
    size_t largest = 0;
    for (int position = 0; position + 1 < position_count(options->part_count); position++) {
        const rank_ddp_part *now = &options->parts[part_at(options->part_count, position)];
        const rank_ddp_part *next = &options->parts[part_at(options->part_count, position + 1)];
        size_t bytes = 0;
        for (size_t unit = 0; unit < rank_zero_units(cut); unit++) {
            if (has_unit(cut, now, unit) || has_unit(cut, next, unit)) {
                bytes += unit_bytes(cut, unit);
            }
        }
        largest = base_max_size(largest, bytes);
    }
    return largest;
}

base_status rank_ddp_make_window(rank_ddp *ddp, base_error *reterr)
{
    rank_ddp_window *made = &ddp->window;
    const rank_zero_cut *cut = &ddp->shards.cut;
    size_t largest = 0;
    if (ddp->shards.stage != RANK_DDP_ZERO_PARAMETERS) {
        return BASE_OK;
    }
    for (int rank = 0; rank < coll_comm_size(ddp->comm); rank++) {
        largest = base_max_size(largest, rank_zero_shard(cut, rank));
    }
    made->position = -1;
    made->limit = ddp->shards.part_count;
    made->units = calloc(rank_zero_units(cut), sizeof *made->units);
    if (made->units == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the units of parameters");
    }
    coll_status status =
        coll_arena_create(ddp->comm, largest * sizeof(float), &made->shard, coll_error_of(reterr));
    if (status == COLL_OK) {
        status = coll_arena_create(ddp->comm, cut->count * sizeof(float), &made->all,
                                   coll_error_of(reterr));
    }
    return (base_status)status;
}

void rank_ddp_free_window(rank_ddp *ddp)
{
    coll_arena_destroy(ddp->window.all);
    coll_arena_destroy(ddp->window.shard);
    free(ddp->window.units);
}

float *rank_ddp_shard(rank_ddp *ddp)
{
    return coll_arena_data(ddp->window.shard);
}
