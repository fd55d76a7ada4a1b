/* Inline and eager operations: waits for the contributions that peers copied into their flags and
 * slots, and takes this rank's parts. Called by protocol.c and run.c.
 *
 * Most operations are so small, and take a few hundred instructions. So what a peer waits for comes
 * first here, and nothing is done twice. A rank that waits reads only the flag that it waits for,
 * many times in a row. */
#include "core/take.h"
#include "transport/shm/layout.h"

void coll_shm_copy_own(coll_op *op)
{
    const coll_comm *comm = op->comm;
    const size_t size_bytes = coll_take_bytes(op, comm->rank);
    if (op->shape.take != COLL_TAKE_ALL || op->shape.reduces || !op->shape.gives ||
        op->desc.algorithm != COLL_ALGORITHM_DIRECT || size_bytes > COLL_PIECE_BYTES ||
        comm->done + 1 != op->sequence) {
        return;
    }
    coll_take_copy(coll_take_target(op, comm->rank), coll_take_own(op), size_bytes);
    op->own_copied = true;
}

/* Reads a peer's flag up to `looks` times, and compares it when it is there.
 *
 * A short contribution in a slot is prefetched, so that its cache lines arrive together with the
 * flag and not after it. As long as the peer has not written them, they are still in this
 * processor's cache, and a prefetch costs nothing. */
static inline bool look_for(coll_op *op, int peer, unsigned looks)
{
    enum { LINE_BYTES = 64, FETCH_BYTES_MAX = 256 };
    coll_comm *comm = op->comm;
    shm_comm *shm = comm->shm;
    const uint64_t sequence = op->sequence;
    const coll_flag *flag = coll_shm_flag(shm, peer, sequence);
    const uint8_t *slot = shm_slot(shm->segments[peer], sequence) + op->shape.part_offset_bytes;
    size_t bytes = op->protocol == COLL_PROTOCOL_EAGER ? coll_take_bytes(op, peer) : 0;
    bytes = bytes <= FETCH_BYTES_MAX ? bytes : 0;
    for (; looks > 0; looks--) {
        const uint64_t word = atomic_load_explicit(&flag->word, memory_order_acquire);
        if ((word & ~(uint64_t)COLL_FLAG_QUIET) == op->word) {
            if (shm->peers[peer].seen + 1 < sequence &&
                !coll_shm_compare_flags(comm, peer, sequence - 1)) {
                return false;
            }
            shm->peers[peer].seen = sequence;
            if ((word & COLL_FLAG_QUIET) != 0) {
                shm->peers[peer].done = sequence - 1;
            }
            return true;
        }
        if (coll_flag_ahead(word, sequence) >= 0) {
            return coll_shm_fail_flag(comm, peer, sequence, word);
        }
        for (size_t at = 0; at < bytes; at += LINE_BYTES) {
            __builtin_prefetch(slot + at);
        }
    }
    if (shm->peers[peer].seen + 1 < sequence) {
        (void)coll_shm_compare_flags(comm, peer, sequence - 1);
    }
    return false;
}

bool coll_shm_arrived(coll_op *op, unsigned looks)
{
    const coll_comm *comm = op->comm;
    for (; op->arrived < comm->size; op->arrived++) {
        const int peer = op->arrived;
        if (peer != comm->rank && coll_shape_awaits(op, peer) && !look_for(op, peer, looks)) {
            return false;
        }
    }
    return true;
}

/* The part of a copied contribution that this rank takes. */
static inline const uint8_t *copied_part(const coll_op *op, int rank)
{
    const shm_comm *shm = op->comm->shm;
    const uint8_t *bytes = op->protocol == COLL_PROTOCOL_INLINE
                               ? coll_shm_flag(shm, rank, op->sequence)->payload
                               : shm_slot(shm->segments[rank], op->sequence);
    return rank == op->comm->rank ? coll_take_own(op) : bytes + op->shape.part_offset_bytes;
}

void coll_shm_take_copies(coll_op *op)
{
    coll_take_from(op, copied_part);
}

/* Prefetches the next flag of this rank for writing. Its cache line is with the peers that read it
 * last. Only a hint. */
static inline void prefetch_flag(const coll_comm *comm, uint64_t sequence)
{
    const coll_flag *flag = coll_shm_flag(comm->shm, comm->rank, sequence);
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const uint8_t *)flag));
#else
    __builtin_prefetch(flag, 1);
#endif
}

bool coll_shm_copy(coll_op *op, unsigned looks)
{
    if (!coll_shm_arrived(op, looks)) {
        return false;
    }
    coll_shm_take_copies(op);
    op->comm->done = op->sequence;
    op->stage = COLL_STAGE_DONE;
    if (op->protocol == COLL_PROTOCOL_INLINE) {
        prefetch_flag(op->comm, op->sequence + 1);
    }
    return true;
}
