/* Says when a rank may use a flag or slot again, and compares the flags of ranks that nobody waited
 * for. Called by protocol.c, run.c, copies.c and fail.c.
 *
 * Credit: a flag is used again COLL_FLAG_COUNT operations later, a slot COLL_SHM_SLOTS operations
 * later. Every peer must have done its part of the earlier operation first. A peer says so in two
 * ways: bit 0 of its flag's word (`quiet`) means that it has done all earlier operations; and its
 * counter `finished` has the number of the last one that it has done. So a rank is at most
 * COLL_FLAG_COUNT operations ahead of the slowest.
 *
 * Agreement: a rank compares a flag that it waits for at once. It compares the flags of other peers
 * later: when it looks for credit, or when it waits for a later flag of the same peer. No rank can
 * be more than COLL_FLAG_COUNT ahead without credit, so of two ranks at least one still sees the
 * other's flag and compares it. */
#include "core/failure.h"
#include "core/report.h"
#include "transport/shm/layout.h"

bool coll_shm_fail_flag(coll_comm *comm, int peer, uint64_t sequence, uint64_t word)
{
    const shm_comm *shm = comm->shm;
    coll_report_flag(comm, &shm->shown[sequence % COLL_FLAG_COUNT], sequence, peer,
                     coll_shm_flag(shm, peer, sequence), word);
    return false;
}

bool coll_shm_compare_flags(coll_comm *comm, int peer, uint64_t until)
{
    shm_comm *shm = comm->shm;
    shm_peer *view = &shm->peers[peer];
    if (until > COLL_FLAG_COUNT && view->seen < until - COLL_FLAG_COUNT) {
        view->seen = until - COLL_FLAG_COUNT; /* both ranks have overwritten older flags */
    }
    while (view->seen < until) {
        const uint64_t next = view->seen + 1;
        const coll_flag *flag = coll_shm_flag(shm, peer, next);
        const uint64_t word = atomic_load_explicit(&flag->word, memory_order_acquire);
        const int32_t ahead = coll_flag_ahead(word, next);
        if (ahead < 0) {
            return true;
        }
        if (ahead == 0) {
            if ((word & ~(uint64_t)COLL_FLAG_QUIET) != shm->words[next % COLL_FLAG_COUNT]) {
                return coll_shm_fail_flag(comm, peer, next, word);
            }
            view->done =
                (word & COLL_FLAG_QUIET) != 0 && next - 1 > view->done ? next - 1 : view->done;
        }
        view->seen = next;
    }
    return true;
}

/* How many operations later op's flag, or its slot, is overwritten. */
static uint64_t reuse_of(const coll_op *op)
{
    return op->protocol == COLL_PROTOCOL_EAGER ? COLL_SHM_SLOTS : COLL_FLAG_COUNT;
}

/* Whether every peer is known to have done its part of all operations up to `sequence`. */
static bool peers_have_done(coll_comm *comm, uint64_t sequence)
{
    shm_comm *shm = comm->shm;
    uint64_t least = UINT64_MAX;
    for (int peer = 0; peer < comm->size; peer++) {
        shm_peer *view = &shm->peers[peer];
        if (peer == comm->rank) {
            continue;
        }
        if (view->done < sequence) {
            const uint64_t finished = atomic_load(&shm->segments[peer]->finished.value);
            if (!coll_shm_compare_flags(comm, peer, comm->posted)) {
                return false;
            }
            if (finished > comm->posted + COLL_FLAG_COUNT) {
                (void)coll_comm_fail(comm, COLL_ERR_PEER, "rank %d has finished what was not begun",
                                     peer);
                return false;
            }
            view->done = finished > view->done ? finished : view->done;
        }
        least = view->done < least ? view->done : least;
    }
    shm->peers_done = least;
    return least >= sequence;
}

bool coll_shm_may_post(const coll_op *op)
{
    const shm_comm *shm = op->comm->shm;
    const uint64_t reuse = reuse_of(op);
    if (op->sequence <= shm->peers_done + reuse) {
        return true;
    }
    return peers_have_done(op->comm, op->sequence - reuse);
}

bool coll_shm_withholds(const coll_op *op, int peer)
{
    const shm_comm *shm = op->comm->shm;
    return peer != op->comm->rank && shm->peers[peer].done + reuse_of(op) < op->sequence;
}
