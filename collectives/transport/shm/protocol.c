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
    op->put_early = op->protocol == COLL_PROTOCOL_PLAN && coll_staged_put_early(op);
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

/* Where ranks differ in what memory they use: those in arenas are read there, the others in their
 * slots. A rank whose buffer is read in place keeps its result aside, in its own slot, until all
 * have read. */
static void take_mixed(coll_op *op, const coll_buffer_ref *refs)
{
    coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    op->refs_known = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        op->sources[rank] = refs[rank].send_arena == 0
                                ? shm_slot(link->segments[rank], op->sequence)
                                : coll_zero_copy_locate(op, rank, &refs[rank]);
        if (op->sources[rank] == NULL) {
            return;
        }
    }
    op->sources[comm->rank] = coll_shm_own_part(op);
    op->aside = shows_ref(op);
    coll_shm_take(op, op->aside ? shm_slot(link->segments[comm->rank], op->sequence)
                                : (uint8_t *)op->desc.recv);
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
    bool same = op->refs_known == known;
    for (int rank = 0; same && rank < comm->size; rank++) {
        same = is_same_ref(&op->refs[rank], &refs[rank]);
    }
    if (same) {
        return true;
    }
    op->refs_known = 0;
    if (!coll_zero_copy_fits(op, refs)) {
        return false;
    }
    memcpy(op->refs, refs, (size_t)comm->size * sizeof *refs);
    op->refs_known = known;
    return true;
}

static void choose(coll_op *op)
{
    coll_buffer_ref refs[COLL_RANKS_MAX];
    const bool slot = op->protocol == COLL_PROTOCOL_EAGER;
    if (op->protocol == COLL_PROTOCOL_INLINE || coll_shm_copies(op)) {
        return;
    }
    const bool any = read_refs(op, refs);
    if (op->desc.algorithm == COLL_ALGORITHM_DIRECT && !op->put_early && fits_arenas(op, refs)) {
        const shm_comm *link = op->comm->link;
        op->protocol = COLL_PROTOCOL_ZERO_COPY;
        op->round = link->rounds;
        coll_shm_keep_own(op);
        return;
    }
    if (!slot && op->desc.algorithm == COLL_ALGORITHM_DIRECT) {
        op->protocol = COLL_PROTOCOL_STAGED;
        coll_shm_keep_own(op);
        coll_staged_begin(op);
        return;
    }
    if (!slot) {
        op->protocol = COLL_PROTOCOL_PLAN;
        coll_exec_begin(op);
        return;
    }
    if (any) {
        op->protocol = COLL_PROTOCOL_ZERO_COPY;
        op->pattern = COLL_PATTERN_MIXED;
        take_mixed(op, refs);
    }
}

/* Slices of a vector in arenas: own ones, and where ranks share processors those of others; as many
 * as there may be between two looks at the abort word. True when none is left to take. */
static bool run_slices(coll_op *op, bool *moved)
{
    coll_comm *comm = op->comm;
    shm_comm *link = comm->link;
    size_t done_bytes = 0;
    for (int done = 0; done <= comm->size && done_bytes < COLL_PIECE_BYTES; done++) {
        if (op->offset_bytes == 0) {
            op->slice = coll_shm_slice_next(comm, op->round, op->slice);
        }
        if (op->slice < 0) {
            break;
        }
        *moved = true;
        if (!coll_zero_copy_advance(op)) {
            break;
        }
        coll_shm_slice_end(comm, op->round, op->slice);
        done_bytes += op->offset_bytes;
        op->offset_bytes = 0;
    }
    if (*moved) {
        coll_shm_published(comm);
    }
    if (op->slice != COLL_SLICE_NONE) {
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
    if (op->pattern == COLL_PATTERN_SLICES) {
        return run_slices(op, moved) ? part_done(op, false, COLL_STAGE_FINISHING)
                                     : COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (op->pattern != COLL_PATTERN_MIXED && !coll_zero_copy_advance(op)) {
        return COLL_STAGE_RUNNING;
    }
    return part_done(op, true, COLL_STAGE_FINISHING);
}

/* Whether the peer has done its part, which this rank's memory depends on. */
static bool has_finished(const coll_op *op, int peer)
{
    const coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    if (op->pattern == COLL_PATTERN_SLICES) {
        return coll_shm_slice_ended(comm, op->round, peer);
    }
    return peer == comm->rank || !coll_zero_copy_awaits(op, peer) ||
           atomic_load(&link->segments[peer]->finished.value) >= op->sequence;
}

/* Whether all have; each is looked at so many times. */
static bool all_finished(coll_op *op, unsigned looks, bool *moved)
{
    const coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    for (; op->finished < comm->size; op->finished++) {
        unsigned look = 0;
        while (look < looks && !has_finished(op, op->finished)) {
            look++;
        }
        if (look == looks) {
            return false;
        }
        *moved = true;
    }
    if (op->aside) {
        memcpy(op->desc.recv, shm_slot(link->segments[comm->rank], op->sequence), op->total_bytes);
        op->aside = false;
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
