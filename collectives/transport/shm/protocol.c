/* Posts an operation, chooses its protocol when all ranks have arrived, and moves it on. Called
 * through the transport's table, and by run.c.
 *
 * By its size, a rank's contribution lies in the flag itself (inline), in a slot of its segment
 * (eager), or in the caller's own buffer, if that is in an arena (zero-copy). A rank that takes a
 * part of it waits for the contributor's flag, and reads it there. Flags and slots are copies, so
 * nothing more is needed. Zero-copy needs a second wait at the end, until the peers that read or
 * write this rank's buffers have finished. All else is staged, or runs a plan over streams.
 * credit.c says when flags and slots are used again. */
#include <string.h>

#include "base/assert.h"
#include "core/exec.h"
#include "core/inline.h"
#include "core/report.h"
#include "core/take.h"
#include "transport/shm/layout.h"

/* Whether this rank posts where its buffers lie, so that peers may read and write there. */
static bool shows_ref(const coll_op *op)
{
    return op->protocol != COLL_PROTOCOL_INLINE && op->ref.send_arena != 0 &&
           op->ref.recv_arena != 0 && coll_kind_reduces_to_all(op->desc.kind) &&
           op->total_bytes > COLL_SHM_COPY_BYTES;
}

void coll_shm_post(coll_op *op, const void *payload, size_t payload_bytes)
{
    (void)payload;
    (void)payload_bytes;
    coll_shm_write_flag(op);
    coll_shm_notify(op->comm);
    coll_shm_copy_own(op);
}

void coll_shm_write_flag(coll_op *op)
{
    coll_comm *comm = op->comm;
    shm_comm *shm = comm->shm;
    shm_segment *own = shm->segments[comm->rank];
    const size_t slot = op->sequence % COLL_FLAG_COUNT;
    coll_flag *flag = &own->flags[slot];
    if (shm->shown_digests[slot] != op->digest || op->sequence <= COLL_FLAG_COUNT) {
        shm->shown_digests[slot] = op->digest;
        shm->shown[slot] = op->descriptor;
        flag->descriptor = op->descriptor;
    }
    const bool quiet = comm->done + 1 == op->sequence;
    const uint64_t word = op->word | (quiet ? COLL_FLAG_QUIET : 0);
    shm->words[slot] = op->word;
    comm->posted = op->sequence;
    if (op->protocol == COLL_PROTOCOL_INLINE) {
        const size_t bytes = op->shape.give_bytes;
        if (bytes > 0 && bytes <= COLL_TINY_BYTES) {
            memcpy(flag->payload, op->desc.send, bytes);
        }
        /* At once: a peer that polls takes the cache line away, and this rank would wait for it. */
        atomic_store_explicit(&flag->word, word, memory_order_release);
        comm->context->bytes_sent += op->shape.sent_bytes;
        return;
    }
    if (op->pairwise) {
        memcpy(own->ends[slot], op->part_ends,
               2 * ((size_t)comm->size + 1) * sizeof *op->part_ends);
    }
    coll_buffer_ref ref = op->ref;
    if (op->protocol == COLL_PROTOCOL_EAGER && !shows_ref(op)) {
        ref = (coll_buffer_ref){.send_arena = 0};
        if (op->shape.give_bytes > 0) {
            memcpy(shm_slot(own, op->sequence), op->desc.send, op->shape.give_bytes);
        }
    }
    op->staged.put_early = op->protocol == COLL_PROTOCOL_UNDECIDED && coll_staged_put_early(op);
    memcpy(flag->payload, &ref, sizeof ref);
    atomic_store_explicit(&flag->word, word, memory_order_release);
    comm->context->bytes_sent += coll_shm_is_copied(op) ? op->shape.sent_bytes : 0;
}

/* Copies the buffer references that all ranks posted, out of peers' memory once. Returns whether
 * any rank's send buffer is in an arena. */
static bool read_refs(const coll_op *op, coll_buffer_ref *refs)
{
    const shm_comm *shm = op->comm->shm;
    bool any = false;
    for (int rank = 0; rank < op->comm->size; rank++) {
        memcpy(&refs[rank], coll_shm_flag(shm, rank, op->sequence)->payload, sizeof refs[rank]);
        any = any || refs[rank].send_arena != 0;
    }
    return any;
}

/* This rank's part is done. Usually the next flag says so (COLL_FLAG_QUIET). The counter `finished`
 * has to say it where peers wait for it now, and where the next flag was posted already. */
static coll_stage part_done(coll_op *op, bool awaited, coll_stage next)
{
    coll_comm *comm = op->comm;
    const shm_comm *shm = comm->shm;
    comm->done = op->sequence;
    if (awaited || comm->posted > op->sequence) {
        (void)atomic_exchange(&shm->segments[comm->rank]->finished.value, op->sequence);
        coll_shm_published(comm);
    }
    return next;
}

/* Whether op can be zero-copy. The addresses in peers' arenas are kept for the next operation with
 * the same buffer references, unless they depend on counts of the peers' as well. */
static bool fits_arenas(coll_op *op, const coll_buffer_ref *refs)
{
    const coll_comm *comm = op->comm;
    const uint64_t known = comm->arena_changes + 1;
    const size_t refs_bytes = (size_t)comm->size * sizeof *refs;
    if (op->zero_copy.refs_known == known && memcmp(op->zero_copy.refs, refs, refs_bytes) == 0) {
        return true;
    }
    op->zero_copy.refs_known = 0;
    if (!coll_zero_copy_fits(op, refs)) {
        return false;
    }
    memcpy(op->zero_copy.refs, refs, refs_bytes);
    op->zero_copy.refs_known = op->pairwise ? 0 : known;
    return true;
}

/* Whether the counts of a pairwise operation are those that the peers have posted. */
static bool pairs_agree(coll_op *op)
{
    const coll_comm *comm = op->comm;
    const shm_comm *shm = comm->shm;
    const int rank = comm->rank;
    for (int peer = 0; peer < comm->size; peer++) {
        const size_t *send = shm_ends(shm->segments[peer], op, false);
        const size_t *recv = shm_ends(shm->segments[peer], op, true);
        const coll_pair theirs = {.to_bytes = send[rank + 1] - send[rank],
                                  .from_bytes = recv[rank + 1] - recv[rank]};
        if (peer != rank && !coll_report_pair(op, peer, &theirs)) {
            return false;
        }
    }
    return true;
}

/* Chooses the protocol, when all flags are here. All ranks see the same buffer references, so all
 * choose the same:
 *   - inline or eager, if the size alone decided that before op was posted;
 *   - zero-copy, if the algorithm is direct and the buffers that peers need lie in arenas;
 *   - eager, for an all-reduce of a middle size whose contributions all lie in slots;
 *   - staged, if the algorithm is direct. That includes an all-reduce of which some contributions
 *     lie in slots and others in arenas;
 *   - a plan over streams, for all other algorithms, and for what is pairwise. */
static void choose(coll_op *op)
{
    coll_buffer_ref refs[COLL_RANKS_MAX];
    if (op->protocol == COLL_PROTOCOL_INLINE || coll_shm_is_copied(op) ||
        (op->pairwise && !pairs_agree(op))) {
        return;
    }
    const bool any_in_arena = read_refs(op, refs);
    if (op->desc.algorithm == COLL_ALGORITHM_DIRECT && !op->staged.put_early &&
        fits_arenas(op, refs)) {
        coll_op_zero_copy *z = &op->zero_copy;
        const shm_comm *shm = op->comm->shm;
        op->protocol = COLL_PROTOCOL_ZERO_COPY;
        z->finished = 0;
        z->slice = -1;
        z->source = 0;
        z->offset_bytes = 0;
        z->round = shm->rounds;
        op->comm->context->bytes_sent +=
            z->pattern == COLL_PATTERN_SLICES ? coll_slices_sent_bytes(op) : op->shape.sent_bytes;
        coll_take_own_at_root(op);
        return;
    }
    if (op->protocol == COLL_PROTOCOL_EAGER && !any_in_arena) {
        op->comm->context->bytes_sent += op->shape.sent_bytes;
        return;
    }
    if (op->desc.algorithm == COLL_ALGORITHM_DIRECT && !op->pairwise) {
        op->protocol = COLL_PROTOCOL_STAGED;
        coll_take_own_at_root(op);
        coll_staged_begin(op);
        return;
    }
    op->protocol = COLL_PROTOCOL_PLAN;
    coll_exec_begin(op);
}

/* Combines slices of a vector in arenas: this rank's own, and also those of others where ranks
 * share processors. Stops after COLL_PIECE_BYTES, for a look at the abort word. True when no slice
 * is left to do. */
static bool run_slices(coll_op *op, bool *moved)
{
    coll_comm *comm = op->comm;
    shm_comm *shm = comm->shm;
    size_t done_bytes = 0;
    for (int done = 0; done <= comm->size && done_bytes < COLL_PIECE_BYTES; done++) {
        if (op->zero_copy.offset_bytes == 0) {
            op->zero_copy.slice =
                coll_shm_slice_next(comm, op->zero_copy.round, op->zero_copy.slice);
        }
        if (op->zero_copy.slice < 0) {
            break;
        }
        *moved = true;
        if (!coll_zero_copy_advance(op)) {
            break;
        }
        if (!coll_shm_confirm_reads(comm)) {
            return false;
        }
        coll_shm_slice_end(comm, op->zero_copy.round, op->zero_copy.slice);
        done_bytes += op->zero_copy.offset_bytes;
        op->zero_copy.offset_bytes = 0;
    }
    if (*moved) {
        coll_shm_published(comm);
    }
    if (op->zero_copy.slice != COLL_SLICE_NONE) {
        return false;
    }
    *moved = true;
    shm->rounds++;
    return true;
}

static coll_stage run(coll_op *op, bool *moved)
{
    switch (op->protocol) {
    case COLL_PROTOCOL_INLINE:
    case COLL_PROTOCOL_EAGER:
        if (op->comm->size == 1) {
            coll_alone_finish(op);
        } else {
            coll_shm_take_copies(op);
        }
        return part_done(op, false, COLL_STAGE_DONE);
    case COLL_PROTOCOL_PLAN:
        return coll_exec_advance(op, moved) ? part_done(op, false, COLL_STAGE_DONE)
                                            : COLL_STAGE_RUNNING;
    case COLL_PROTOCOL_STAGED:
        return coll_staged_advance(op, moved) ? part_done(op, false, COLL_STAGE_DONE)
                                              : COLL_STAGE_RUNNING;
    case COLL_PROTOCOL_ZERO_COPY:
        break;
    case COLL_PROTOCOL_UNDECIDED:
        BASE_ASSERT(false); /* choose has decided */
    }
    if (op->zero_copy.pattern == COLL_PATTERN_SLICES) {
        return run_slices(op, moved) ? part_done(op, false, COLL_STAGE_FINISHING)
                                     : COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (!coll_zero_copy_advance(op) || !coll_shm_confirm_reads(op->comm)) {
        return COLL_STAGE_RUNNING;
    }
    return part_done(op, true, COLL_STAGE_FINISHING);
}

/* Whether a peer has done the part for which it reads or writes this rank's memory. */
static bool has_finished(const coll_op *op, int peer)
{
    const coll_comm *comm = op->comm;
    const shm_comm *shm = comm->shm;
    if (op->zero_copy.pattern == COLL_PATTERN_SLICES) {
        return coll_shm_slice_ended(comm, op->zero_copy.round, peer);
    }
    return peer == comm->rank || !coll_zero_copy_awaits(op, peer) ||
           atomic_load(&shm->segments[peer]->finished.value) >= op->sequence;
}

/* Whether all peers have. Looks at each up to `looks` times. */
static bool all_finished(coll_op *op, unsigned looks, bool *moved)
{
    for (; op->zero_copy.finished < op->comm->size; op->zero_copy.finished++) {
        unsigned look = 0;
        while (look < looks && !has_finished(op, op->zero_copy.finished)) {
            look++;
        }
        if (look == looks) {
            return false;
        }
        *moved = true;
    }
    return true;
}

void coll_shm_advance_looking(coll_op *op, unsigned looks, bool *moved)
{
    if (op->stage == COLL_STAGE_ARRIVING) {
        const int arrived = op->arrived;
        const bool all = coll_shm_arrived(op, looks);
        *moved = *moved || all || op->arrived > arrived;
        if (!all) {
            return;
        }
        op->stage = COLL_STAGE_RUNNING;
        choose(op);
    }
    if (op->stage == COLL_STAGE_RUNNING && !op->comm->failed) {
        op->stage = run(op, moved);
    }
    if (op->stage == COLL_STAGE_FINISHING && all_finished(op, looks, moved)) {
        op->stage = COLL_STAGE_DONE;
    }
}

void coll_shm_advance(coll_op *op, bool *moved)
{
    coll_shm_advance_looking(op, 1, moved);
}
