/* When a flag may be used again, and which rank compares it.
 *
 * Credit: flag and slot of an operation are used again COLL_FLAG_COUNT (COLL_SHM_SLOTS) operations
 * later, and only when every peer is known to have done its part of the earlier one. Bit 0 of a
 * flag's word (`quiet`) says that its rank has done all earlier operations; where it could not say
 * so, the finished counter does. So a rank runs ahead of a slower one by no more than the slots.
 *
 * Agreement: a flag that is waited for is compared at once. Those of peers that need not be waited
 * for are compared when they are walked past, in search of credit or on the way to a later one;
 * either this rank or the peer compares each, for neither can be the slots' number ahead unseen. */
#include "core/failure.h"
#include "core/report.h"
#include "transport/shm/layout.h"

bool coll_shm_fail_flag(coll_comm *comm, int peer, uint64_t sequence, uint64_t word)
{
    const shm_comm *link = comm->link;
    coll_report_flag(comm, &link->shown[sequence % COLL_FLAG_COUNT], sequence, peer,
                     coll_shm_flag(link, peer, sequence), word);
    return false;
}

bool coll_shm_walk(coll_comm *comm, int peer, uint64_t until)
{
    shm_comm *link = comm->link;
    shm_peer *view = &link->peers[peer];
    if (until > COLL_FLAG_COUNT && view->seen < until - COLL_FLAG_COUNT) {
        view->seen = until - COLL_FLAG_COUNT; /* what is older is no longer shown on either side */
    }
    while (view->seen < until) {
        const uint64_t next = view->seen + 1;
        const coll_flag *flag = coll_shm_flag(link, peer, next);
        const uint64_t word = atomic_load_explicit(&flag->word, memory_order_acquire);
        const int32_t ahead = coll_flag_ahead(word, next);
        if (ahead < 0) {
            return true;
        }
        if (ahead == 0) {
            if ((word & ~(uint64_t)COLL_FLAG_QUIET) != link->words[next % COLL_FLAG_COUNT]) {
                return coll_shm_fail_flag(comm, peer, next, word);
            }
            view->done =
                (word & COLL_FLAG_QUIET) != 0 && next - 1 > view->done ? next - 1 : view->done;
        }
        view->seen = next;
    }
    return true;
}

/* How many operations later what this one shows is overwritten. */
static uint64_t reuse_of(const coll_op *op)
{
    return op->protocol == COLL_PROTOCOL_EAGER ? COLL_SHM_SLOTS : COLL_FLAG_COUNT;
}

/* Whether every peer is known to have done its part of all operations up to `sequence`. */
static bool peers_have_done(coll_comm *comm, uint64_t sequence)
{
    shm_comm *link = comm->link;
    uint64_t least = UINT64_MAX;
    for (int peer = 0; peer < comm->size; peer++) {
        shm_peer *view = &link->peers[peer];
        if (peer == comm->rank) {
            continue;
        }
        if (view->done < sequence) {
            const uint64_t finished = atomic_load(&link->segments[peer]->finished.value);
            if (!coll_shm_walk(comm, peer, comm->posted)) {
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
    link->peers_done = least;
    return least >= sequence;
}

bool coll_shm_may_post(const coll_op *op)
{
    const shm_comm *link = op->comm->link;
    const uint64_t reuse = reuse_of(op);
    if (op->sequence <= link->peers_done + reuse) {
        return true;
    }
    return peers_have_done(op->comm, op->sequence - reuse);
}

bool coll_shm_withholds(const coll_op *op, int peer)
{
    const shm_comm *link = op->comm->link;
    return peer != op->comm->rank && link->peers[peer].done + reuse_of(op) < op->sequence;
}
