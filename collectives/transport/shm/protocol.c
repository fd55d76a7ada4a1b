/* Operations by loads and stores: from flags, from slots, and from arenas; staged.c has
 * what goes by none of these.
 *
 * What a rank contributes lies, by its size, in the flag itself, in a slot of its segment, or
 * where the caller has it, in an arena. Whoever takes part of it waits for the contributor's flag
 * and reads it there. Flags and slots are copies, so nothing more is needed; what is read from the
 * caller's own memory needs a second wait, for those who read, before the operation ends. Credit
 * is in credit.c. */
#include <string.h>

#include "core/exec.h"
#include "core/inline.h"
#include "core/take.h"
#include "transport/shm/layout.h"

/* Whether this rank shows where its buffers lie, for peers to read and write there. */
static bool shows_ref(const coll_op *op)
{
    return op->protocol != COLL_PROTOCOL_INLINE && op->ref.send_arena != 0 &&
           op->ref.recv_arena != 0 && op->desc.kind == COLL_ALL_REDUCE &&
           op->total_bytes > COLL_SHM_COPY_BYTES;
}

void coll_shm_post(coll_op *op, const void *payload, size_t payload_bytes)
{
    (void)payload;
    (void)payload_bytes;
    coll_shm_show(op);
    coll_shm_notify(op->comm);
    coll_shm_keep(op);
}

void coll_shm_show(coll_op *op)
{
    coll_comm *comm = op->comm;
    shm_comm *link = comm->link;
    shm_segment *own = link->segments[comm->rank];
    const size_t slot = op->sequence % COLL_FLAG_COUNT;
    coll_flag *flag = &own->flags[slot];
    if (link->shown_digests[slot] != op->digest || op->sequence <= COLL_FLAG_COUNT) {
        link->shown_digests[slot] = op->digest;
        link->shown[slot] = op->descriptor;
        flag->descriptor = op->descriptor;
    }
    const bool quiet = comm->done + 1 == op->sequence;
    const uint64_t word = op->word | (quiet ? COLL_FLAG_QUIET : 0);
    link->words[slot] = op->word;
    comm->posted = op->sequence;
    if (op->protocol == COLL_PROTOCOL_INLINE) {
        const size_t bytes = op->shape.give_bytes;
        if (bytes > 0 && bytes <= COLL_TINY_BYTES) {
            memcpy(flag->payload, op->desc.send, bytes); /* and nothing more before the word: */
        }
        atomic_store_explicit(&flag->word, word, memory_order_release); /* a peer takes the flag */
        return;
    }
    coll_buffer_ref ref = op->ref;
    if (op->protocol == COLL_PROTOCOL_EAGER && !shows_ref(op)) {
        ref = (coll_buffer_ref){.send_arena = 0};
        if (op->shape.give_bytes > 0) {
            memcpy(shm_slot(own, op->sequence), op->desc.send, op->shape.give_bytes);
        }
    }
    op->staged.put_early = op->protocol == COLL_PROTOCOL_PLAN && coll_staged_put_early(op);
    memcpy(flag->payload, &ref, sizeof ref);
    atomic_store_explicit(&flag->word, word, memory_order_release);
}

/* Where each rank says that its buffers are, copied out of peers' memory once. Tells whether
 * anybody's send buffer is in an arena. */
static bool read_refs(const coll_op *op, coll_buffer_ref *refs)
{
    const shm_comm *link = op->comm->link;
    bool any = false;
    for (int rank = 0; rank < op->comm->size; rank++) {
        memcpy(&refs[rank], coll_shm_flag(link, rank, op->sequence)->payload, sizeof refs[rank]);
        any = any || refs[rank].send_arena != 0;
    }
    return any;
}

/* Own part done: peers are notified where they wait for it, and where the next flag, shown already,
 * could not say it. */
static coll_stage part_done(coll_op *op, bool awaited, coll_stage next)
{
    coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    comm->done = op->sequence;
    if (awaited || comm->posted > op->sequence) {
        (void)atomic_exchange(&link->segments[comm->rank]->finished.value, op->sequence);
        coll_shm_published(comm);
    }
    return next;
}

static bool is_same_ref(const coll_buffer_ref *a, const coll_buffer_ref *b)
{
    return a->send_arena == b->send_arena && a->recv_arena == b->recv_arena &&
           a->send_offset_bytes == b->send_offset_bytes &&
           a->recv_offset_bytes == b->recv_offset_bytes;
}

/* Whether op can be done in arenas; looked up once for the same buffer references in the same
 * arenas. */
static bool fits_arenas(coll_op *op, const coll_buffer_ref *refs)
{
    const coll_comm *comm = op->comm;
    const uint64_t known = comm->arena_changes + 1;
    bool same = op->zero_copy.refs_known == known;
    for (int rank = 0; same && rank < comm->size; rank++) {
        same = is_same_ref(&op->zero_copy.refs[rank], &refs[rank]);
    }
    if (same) {
        return true;
    }
    op->zero_copy.refs_known = 0;
    if (!coll_zero_copy_fits(op, refs)) {
        return false;
    }
    memcpy(op->zero_copy.refs, refs, (size_t)comm->size * sizeof *refs);
    op->zero_copy.refs_known = known;
    return true;
}

/* The protocol of an operation that is not copied wherever buffers lie: now that all flags are
 * here, every rank knows where the buffers of all are, and chooses the same. An all-reduce of which
 * some ranks copied into slots while the buffers of others lie in arenas is staged. */
static void choose(coll_op *op)
{
    coll_buffer_ref refs[COLL_RANKS_MAX];
    if (op->protocol == COLL_PROTOCOL_INLINE || coll_shm_copies(op)) {
        return;
    }
    const bool any = read_refs(op, refs);
    if (op->desc.algorithm == COLL_ALGORITHM_DIRECT && !op->staged.put_early &&
        fits_arenas(op, refs)) {
        coll_op_zero_copy *z = &op->zero_copy;
        const shm_comm *link = op->comm->link;
        op->protocol = COLL_PROTOCOL_ZERO_COPY;
        z->finished = 0;
        z->slice = -1;
        z->source = 0;
        z->offset_bytes = 0;
        z->round = link->rounds;
        coll_take_keep_own(op);
        return;
    }
    if (op->protocol == COLL_PROTOCOL_EAGER && !any) {
        return;
    }
    if (op->desc.algorithm == COLL_ALGORITHM_DIRECT) {
        op->protocol = COLL_PROTOCOL_STAGED;
        coll_take_keep_own(op);
        coll_staged_begin(op);
        return;
    }
    op->protocol = COLL_PROTOCOL_PLAN;
    coll_exec_begin(op);
}

/* Slices of a vector in arenas: own ones, and where ranks share processors those of others; as many
 * as there may be between two looks at the abort word. True when none is left to take. */
static bool run_slices(coll_op *op, bool *moved)
{
    coll_comm *comm = op->comm;
    shm_comm *link = comm->link;
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
    link->rounds++;
    comm->context->bytes_sent += coll_slice_of(op->total_bytes, comm->size, comm->rank).size_bytes *
                                 (size_t)(comm->size - 1);
    return true;
}

static coll_stage run(coll_op *op, bool *moved)
{
    switch (op->protocol) {
    case COLL_PROTOCOL_INLINE:
        if (op->comm->size == 1) {
            coll_alone_finish(op);
            return part_done(op, false, COLL_STAGE_DONE);
        }
        coll_shm_take_copies(op);
        return part_done(op, false, COLL_STAGE_DONE);
    case COLL_PROTOCOL_EAGER:
        coll_shm_take_copies(op);
        return part_done(op, false, COLL_STAGE_DONE);
    case COLL_PROTOCOL_PLAN:
        return coll_exec_advance(op, moved) ? part_done(op, false, COLL_STAGE_DONE)
                                            : COLL_STAGE_RUNNING;
    case COLL_PROTOCOL_STAGED:
        return coll_staged_advance(op, moved) ? part_done(op, false, COLL_STAGE_DONE)
                                              : COLL_STAGE_RUNNING;
    case COLL_PROTOCOL_ZERO_COPY:
        break;
    }
    if (op->zero_copy.pattern == COLL_PATTERN_SLICES) {
        return run_slices(op, moved) ? part_done(op, false, COLL_STAGE_FINISHING)
                                     : COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (!coll_zero_copy_advance(op)) {
        return COLL_STAGE_RUNNING;
    }
    return part_done(op, true, COLL_STAGE_FINISHING);
}

/* Whether the peer has done its part, which this rank's memory depends on. */
static bool has_finished(const coll_op *op, int peer)
{
    const coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    if (op->zero_copy.pattern == COLL_PATTERN_SLICES) {
        return coll_shm_slice_ended(comm, op->zero_copy.round, peer);
    }
    return peer == comm->rank || !coll_zero_copy_awaits(op, peer) ||
           atomic_load(&link->segments[peer]->finished.value) >= op->sequence;
}

/* Whether all have; each is looked at so many times. */
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
