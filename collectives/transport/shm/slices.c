/* Slices of a vector that all ranks reduce together. Called by protocol.c for zero-copy
 * operations and by staged.c.
 *
 * Slice k belongs to rank k. Where every rank has a processor, each does its own slice. Where
 * ranks share processors, a rank that runs also does the slices of ranks that have arrived but
 * do not run. So nobody has to wait until those get a processor again. Which rank does a slice
 * changes no bit of the result.
 *
 * Slices are numbered by rounds, counted over all operations of the communicator. The owner's
 * segment says who has claimed its slice (`claimed`), and up to which round it is done
 * (`reduced`). */
#include "transport/shm/layout.h"

enum { RANK_BITS = 7 };

_Static_assert(COLL_RANKS_MAX < 1 << RANK_BITS, "a claim names its rank");

static size_t slice_begin(const coll_op *op, size_t total_bytes, int slice)
{
    const size_t units = (total_bytes + op->unit_bytes - 1) / op->unit_bytes;
    const size_t size = (size_t)op->comm->size;
    const size_t before = units / size * (size_t)slice + coll_smaller(units % size, (size_t)slice);
    return coll_smaller(before * op->unit_bytes, total_bytes);
}

coll_range coll_slice_of(const coll_op *op, size_t total_bytes, int slice)
{
    const size_t begin = slice_begin(op, total_bytes, slice);
    return (coll_range){begin, slice_begin(op, total_bytes, slice + 1) - begin};
}

size_t coll_slices_sent_bytes(const coll_op *op)
{
    const coll_comm *comm = op->comm;
    const size_t own = coll_slice_of(op, op->total_bytes, comm->rank).size_bytes;
    const size_t takers = coll_kind_reduces_to_all(op->desc.kind) ? (size_t)(comm->size - 1)
                                                                  : comm->rank != op->desc.root;
    return op->total_bytes - own + own * takers;
}

/* Claims a slice for this rank. A slice of a round is begun only after its earlier round has ended:
 * otherwise the earlier end could be written after the later one. */
static int claim(const coll_comm *comm, uint64_t round, int slice)
{
    const shm_comm *shm = comm->shm;
    shm_segment *owner = shm->segments[slice];
    const uint64_t wanted = (round + 1) << RANK_BITS | (uint64_t)(comm->rank + 1);
    uint64_t seen = atomic_load(&owner->claimed.value);
    if (seen >> RANK_BITS > round) {
        return COLL_SLICE_NONE;
    }
    if (atomic_load(&owner->reduced.value) < round) {
        return COLL_SLICE_LATER;
    }
    return atomic_compare_exchange_strong(&owner->claimed.value, &seen, wanted) ? slice
                                                                                : COLL_SLICE_NONE;
}

int coll_shm_slice_next(const coll_comm *comm, uint64_t round, int last)
{
    int found = COLL_SLICE_NONE;
    if (comm->context->spins > 0) { /* nobody takes another's */
        return last < 0 ? comm->rank : COLL_SLICE_NONE;
    }
    for (int i = 0; i < comm->size; i++) {
        const int slice = claim(comm, round, (comm->rank + i) % comm->size);
        if (slice >= 0) {
            return slice;
        }
        found = slice == COLL_SLICE_LATER ? slice : found;
    }
    return found;
}

void coll_shm_slice_end(const coll_comm *comm, uint64_t round, int slice)
{
    const shm_comm *shm = comm->shm;
    (void)atomic_exchange(&shm->segments[slice]->reduced.value, round + 1);
}

bool coll_shm_slice_ended(const coll_comm *comm, uint64_t round, int slice)
{
    const shm_comm *shm = comm->shm;
    return atomic_load(&shm->segments[slice]->reduced.value) > round;
}

bool coll_shm_slices_await(const coll_comm *comm, uint64_t round, int peer)
{
    const shm_comm *shm = comm->shm;
    for (int slice = 0; slice < comm->size; slice++) {
        const uint64_t word = atomic_load(&shm->segments[slice]->claimed.value);
        const bool busy = word >> RANK_BITS > atomic_load(&shm->segments[slice]->reduced.value);
        const int claimer = (int)(word & ((1U << RANK_BITS) - 1)) - 1;
        const int doer = busy && claimer >= 0 && claimer < comm->size ? claimer : slice;
        if (doer == peer && !coll_shm_slice_ended(comm, round, slice)) {
            return true;
        }
    }
    return false;
}
