/* What ZeRO adds to data-parallel training: gradients and parameters of which each rank updates its
 * own pieces. Called by train/. */
#include <stdlib.h>

#include "base/limits.h"
#include "parallel/ddp/ddp_parts.h"
#include "ringfence/coll_error.h"

bool rank_ddp_is_sharded(const rank_ddp *ddp)
{
    return ddp->shards.cut.count > 0;
}

void rank_ddp_piece_counts(const rank_ddp *ddp, size_t unit, size_t *counts)
{
    for (int rank = 0; rank < coll_comm_size(ddp->comm); rank++) {
        counts[rank] = rank_zero_piece(&ddp->shards.cut, unit, rank).count;
    }
}

/* An all-gather, in place, of the pieces of a unit that stands at `at`. */
static coll_op_desc gather_desc(const rank_ddp *ddp, size_t unit, float *at, const size_t *counts)
{
    const rank_zero_cut *cut = &ddp->shards.cut;
    const size_t before = rank_zero_piece(cut, unit, coll_comm_rank(ddp->comm)).offset -
                          rank_zero_unit(cut, unit).offset;
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = COLL_ALL_GATHER,
                          .send = at + before,
                          .recv = at,
                          .counts = counts,
                          .type = COLL_FLOAT32};
}

base_status rank_ddp_make_shards(rank_ddp *ddp, float *params, base_error *reterr)
{
    rank_ddp_shards *made = &ddp->shards;
    const size_t units = rank_zero_units(&made->cut);
    size_t counts[BASE_COLL_RANKS_MAX];
    base_status status = BASE_OK;
    made->gathers = calloc(units, sizeof(coll_op *));
    made->mine = calloc(units, sizeof *made->mine);
    if (made->gathers == NULL || made->mine == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the shards");
    }
    for (size_t unit = 0; status == BASE_OK && unit < units; unit++) {
        coll_error error;
        const rank_zero_range piece = rank_zero_piece(&made->cut, unit, coll_comm_rank(ddp->comm));
        made->mine[unit] = (rank_norm_range){ddp->levels[0] + piece.offset, piece.count};
        rank_ddp_piece_counts(ddp, unit, counts);
        const coll_op_desc desc =
            gather_desc(ddp, unit, params + rank_zero_unit(&made->cut, unit).offset, counts);
        status = coll_to_base(coll_op_create(ddp->comm, &desc, &made->gathers[unit], &error),
                              &error, reterr);
    }
    return status;
}

void rank_ddp_free_shards(rank_ddp *ddp)
{
    rank_ddp_shards *shards = &ddp->shards;
    const size_t units = shards->gathers != NULL ? rank_zero_units(&shards->cut) : 0;
    for (size_t unit = 0; unit < units; unit++) {
        coll_op_destroy(shards->gathers[unit]);
    }
    free(shards->gathers);
    free(shards->mine);
}

base_status rank_ddp_sum_squares(const rank_ddp *ddp, double *sum, base_error *reterr)
{
    const rank_ddp_shards *shards = &ddp->shards;
    return rank_norm_sum_squares(ddp->comm, &ddp->device, shards->mine,
                                 rank_zero_units(&shards->cut), sum, reterr);
}

base_status rank_ddp_gather(rank_ddp *ddp, base_error *reterr)
{
    const size_t units = rank_zero_units(&ddp->shards.cut);
    coll_error error;
    base_status status = BASE_OK;
    for (size_t unit = 0; status == BASE_OK && unit < units; unit++) {
        status = coll_to_base(coll_op_start(ddp->shards.gathers[unit], &error), &error, reterr);
    }
    for (size_t unit = 0; status == BASE_OK && unit < units; unit++) {
        status = coll_to_base(coll_op_wait(ddp->shards.gathers[unit], &error), &error, reterr);
    }
    return status;
}

/* Both ways go unit by unit through the memory of the gradients, of which nobody needs any more. */
base_status rank_ddp_spread(rank_ddp *ddp, const float *whole, float *shard, const char *what,
                            base_error *reterr)
{
    const rank_zero_cut *cut = &ddp->shards.cut;
    const rank_device *device = &ddp->device;
    const int rank = coll_comm_rank(ddp->comm);
    float *unit_at = ddp->levels[0];
    base_status status = BASE_OK;
    for (size_t unit = 0; status == BASE_OK && unit < rank_zero_units(cut); unit++) {
        const rank_zero_range all = rank_zero_unit(cut, unit);
        const rank_zero_range mine = rank_zero_piece(cut, unit, rank);
        if (rank == 0) {
            device->backend->copy(device->queue, unit_at, whole + all.offset,
                                  all.count * sizeof *whole);
        }
        status = rank_ddp_broadcast(ddp, unit_at, all.count, reterr);
        if (status == BASE_OK) {
            status = rank_ddp_check_same(ddp, unit_at, all.count, what, reterr);
        }
        if (status == BASE_OK) {
            device->backend->copy(device->queue, shard + rank_zero_place(cut, unit, rank),
                                  unit_at + (mine.offset - all.offset), mine.count * sizeof *shard);
        }
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "sharing the %s", what);
}

base_status rank_ddp_collect(rank_ddp *ddp, const float *shard, float *whole, base_error *reterr)
{
    const rank_zero_cut *cut = &ddp->shards.cut;
    const rank_device *device = &ddp->device;
    const int rank = coll_comm_rank(ddp->comm);
    float *unit_at = ddp->levels[0];
    size_t counts[BASE_COLL_RANKS_MAX];
    base_status status = BASE_OK;
    for (size_t unit = 0; status == BASE_OK && unit < rank_zero_units(cut); unit++) {
        const rank_zero_range all = rank_zero_unit(cut, unit);
        const rank_zero_range mine = rank_zero_piece(cut, unit, rank);
        coll_error error;
        device->backend->copy(device->queue, unit_at + (mine.offset - all.offset),
                              shard + rank_zero_place(cut, unit, rank), mine.count * sizeof *shard);
        rank_ddp_piece_counts(ddp, unit, counts);
        const coll_op_desc desc = gather_desc(ddp, unit, unit_at, counts);
        status = coll_to_base(coll_run(ddp->comm, &desc, &error), &error, reterr);
        if (status == BASE_OK && rank == 0) {
            device->backend->copy(device->queue, whole + all.offset, unit_at,
                                  all.count * sizeof *whole);
        }
    }
    return status;
}
