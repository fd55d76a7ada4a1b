/* Operations by loads and stores: from flag lines, from slots, and from arenas; staged_path.c has
 * what goes by none of these.
 *
 * What a rank contributes lies, by its size, in the flag line itself, in a slot of its segment, or
 * where the caller has it, in an arena. Whoever takes part of it waits for the contributor's line
 * and reads it there. Lines and slots are copies, so nothing more is needed; what is read from the
 * caller's own memory needs a second wait, for those who read, before the operation ends. Credit
 * is in shm_credit.c. */
#include <string.h>

#include "shape.h"
#include "shm_layout.h"
#include "tree_order.h"

/* Whether this rank shows where its buffers lie, for peers to read and write there. */
static bool shows_place(const coll_op *op)
{
    return op->path != COLL_PATH_LINE && op->place.send_arena != 0 && op->place.recv_arena != 0 &&
           op->desc.kind == COLL_ALL_REDUCE && op->total_bytes > COLL_SHM_COPY_BYTES;
}

void coll_shm_announce(coll_op *op, const void *payload, size_t payload_bytes)
{
    (void)payload;
    (void)payload_bytes;
    coll_shm_show(op);
    coll_shm_tell(op->comm);
    coll_shm_keep(op);
}

void coll_shm_show(coll_op *op)
{
    coll_comm *comm = op->comm;
    shm_comm *link = comm->link;
    shm_segment *own = link->segments[comm->rank];
    const size_t slot = op->sequence % COLL_LINE_SLOTS;
    coll_line *line = &own->lines[slot];
    if (link->shown_digests[slot] != op->digest || op->sequence <= COLL_LINE_SLOTS) {
        link->shown_digests[slot] = op->digest;
        link->shown[slot] = op->descriptor;
        line->descriptor = op->descriptor;
    }
    if (op->path == COLL_PATH_LINE) {
        if (op->shape.give_bytes > 0 && op->shape.give_bytes <= COLL_TINY_BYTES) {
            memcpy(line->payload, op->desc.send, op->shape.give_bytes);
        }
    } else {
        coll_place place = op->place;
        if (op->path == COLL_PATH_SLOT && !shows_place(op)) {
            place = (coll_place){.send_arena = 0};
            if (op->shape.give_bytes > 0) {
                memcpy(shm_slot(own, op->sequence), op->desc.send, op->shape.give_bytes);
            }
        }
        memcpy(line->payload, &place, sizeof place);
        op->put_early = op->path == COLL_PATH_PLAN && coll_staged_put_early(op);
    }
    link->words[slot] = op->word;
    comm->announced = op->sequence;
    const bool quiet = comm->done + 1 == op->sequence;
    atomic_store_explicit(&line->word, op->word | (quiet ? COLL_LINE_QUIET : 0),
                          memory_order_release);
}

void coll_shm_keep(coll_op *op)
{
    const coll_comm *comm = op->comm;
    const size_t size_bytes = coll_shape_part_bytes(op, comm->rank);
    if (op->shape.take != COLL_TAKE_ALL || op->shape.reduces || !op->shape.gives ||
        op->desc.algorithm != COLL_ALGORITHM_DIRECT || size_bytes > COLL_PIECE_BYTES ||
        comm->done + 1 != op->sequence) {
        return;
    }
    const uint8_t *from = (const uint8_t *)op->desc.send + op->shape.part_offset_bytes;
    uint8_t *to = (uint8_t *)op->desc.recv + coll_shape_target_bytes(op, comm->rank);
    if (size_bytes > 0 && from != to) {
        memcpy(to, from, size_bytes);
    }
    op->kept = true;
}

/* Of a short contribution that is waited for, the lines cross to this processor together with the
 * flag line, and not after it. While the peer has not written them this costs nothing: they are
 * here from the last time. */
static void fetch_slot(const coll_op *op, int peer)
{
    enum { LINE_BYTES = 64, LINES_MAX = 4 };
    const shm_comm *link = op->comm->link;
    const size_t bytes = coll_shape_part_bytes(op, peer);
    if (op->path != COLL_PATH_SLOT || bytes > (size_t)LINES_MAX * LINE_BYTES) {
        return;
    }
    const uint8_t *slot =
        shm_slot(link->segments[peer], op->sequence) + op->shape.part_offset_bytes;
    for (size_t at = 0; at < bytes; at += LINE_BYTES) {
        __builtin_prefetch(slot + at);
    }
}

/* Whether the lines of all that this rank waits for show this operation. */
static bool all_arrived(coll_op *op, bool *moved)
{
    coll_comm *comm = op->comm;
    shm_comm *link = comm->link;
    for (; op->arrived < comm->size; op->arrived++) {
        const int peer = op->arrived;
        if (peer == comm->rank || !coll_shape_awaits(op, peer)) {
            continue;
        }
        const coll_line *line = coll_shm_line(link, peer, op->sequence);
        const uint64_t word = atomic_load_explicit(&line->word, memory_order_acquire);
        if ((word & ~(uint64_t)COLL_LINE_QUIET) != op->word) {
            if (coll_line_ahead(word, op->sequence) >= 0) {
                return coll_shm_fail_line(comm, peer, op->sequence, word);
            }
            if (link->peers[peer].seen + 1 < op->sequence) {
                (void)coll_shm_walk(comm, peer, op->sequence - 1);
            }
            fetch_slot(op, peer);
            return false;
        }
        if (link->peers[peer].seen + 1 < op->sequence &&
            !coll_shm_walk(comm, peer, op->sequence - 1)) {
            return false;
        }
        link->peers[peer].seen = op->sequence;
        if ((word & COLL_LINE_QUIET) != 0) {
            link->peers[peer].done = op->sequence - 1;
        }
        *moved = true;
    }
    return true;
}

/* Takes what this rank takes, from where each rank's contribution was found. */
static void take(coll_op *op, void *target)
{
    const coll_comm *comm = op->comm;
    const uint8_t **from = op->sources;
    uint8_t *recv = target;
    if (op->shape.reduces) {
        const size_t size_bytes = coll_shape_part_bytes(op, 0);
        coll_tree_combine(op->kernel, recv, (const void *const *)from, comm->size,
                          size_bytes / op->element_bytes, comm->size);
        return;
    }
    for (int i = 1, source = comm->rank; i <= comm->size; i++) {
        source = source + 1 == comm->size ? 0 : source + 1; /* the next rank's first */
        const size_t size_bytes = coll_shape_part_bytes(op, source);
        uint8_t *at = recv + coll_shape_target_bytes(op, source);
        if (source == comm->rank && op->kept) {
            continue;
        }
        if (from[source] != NULL && size_bytes > 0 && at != from[source]) {
            memcpy(at, from[source], size_bytes);
        }
    }
}

/* Own bytes are taken from the caller's buffer. */
static const uint8_t *own_part(const coll_op *op)
{
    return op->shape.gives && op->desc.send != NULL
               ? (const uint8_t *)op->desc.send + op->shape.part_offset_bytes
               : NULL;
}

/* A root that broadcasts has its bytes; but may want them in recv as well. */
static void keep_own(const coll_op *op)
{
    if (op->desc.kind == COLL_BROADCAST && op->comm->rank == op->desc.root &&
        op->desc.recv != NULL && op->desc.recv != op->desc.send && op->total_bytes > 0) {
        memcpy(op->desc.recv, op->desc.send, op->total_bytes);
    }
}

/* The part of a copied contribution that this rank takes. */
static const uint8_t *copied_part(const coll_op *op, int rank)
{
    const shm_comm *link = op->comm->link;
    const uint8_t *bytes = op->path == COLL_PATH_LINE
                               ? coll_shm_line(link, rank, op->sequence)->payload
                               : shm_slot(link->segments[rank], op->sequence);
    return rank == op->comm->rank ? own_part(op) : bytes + op->shape.part_offset_bytes;
}

static void take_copies(coll_op *op)
{
    const coll_comm *comm = op->comm;
    if (op->shape.take == COLL_TAKE_NOTHING || op->shape.largest_bytes == 0) {
        keep_own(op);
        return;
    }
    if (op->shape.take == COLL_TAKE_ROOT) {
        const uint8_t *from = copied_part(op, op->desc.root);
        const size_t size_bytes = coll_shape_part_bytes(op, op->desc.root);
        if (size_bytes > 0 && from != op->desc.recv) {
            memcpy(op->desc.recv, from, size_bytes);
        }
        return;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        op->sources[rank] = copied_part(op, rank);
    }
    take(op, op->desc.recv);
}

/* What each rank said about where its buffers lie, copied out of peers' memory once. Tells whether
 * anybody's send buffer is in an arena. */
static bool read_places(const coll_op *op, coll_place *places)
{
    const shm_comm *link = op->comm->link;
    bool any = false;
    for (int rank = 0; rank < op->comm->size; rank++) {
        memcpy(&places[rank], coll_shm_line(link, rank, op->sequence)->payload,
               sizeof places[rank]);
        any = any || places[rank].send_arena != 0;
    }
    return any;
}

/* Where ranks differ in what memory they use: those in arenas are read there, the others in their
 * slots. Who is read in place keeps its result aside, in its own slot, until all have read. */
static void take_mixed(coll_op *op, const coll_place *places)
{
    coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    for (int rank = 0; rank < comm->size; rank++) {
        op->sources[rank] = places[rank].send_arena == 0
                                ? shm_slot(link->segments[rank], op->sequence)
                                : coll_arena_locate(op, rank, &places[rank]);
        if (op->sources[rank] == NULL) {
            return;
        }
    }
    op->sources[comm->rank] = own_part(op);
    op->aside = shows_place(op);
    take(op,
         op->aside ? shm_slot(link->segments[comm->rank], op->sequence) : (uint8_t *)op->desc.recv);
}

/* Own part done: peers are told where they wait for it, and where the next line, shown already,
 * could not say it. */
static coll_stage part_done(coll_op *op, bool awaited, coll_stage next)
{
    coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    comm->done = op->sequence;
    if (awaited || comm->announced > op->sequence) {
        (void)atomic_exchange(&link->segments[comm->rank]->finished.value, op->sequence);
        coll_shm_published(comm);
    }
    return next;
}

static void choose(coll_op *op)
{
    coll_place places[COLL_RANKS_MAX];
    if (op->path == COLL_PATH_LINE) {
        return;
    }
    const bool slot = op->path == COLL_PATH_SLOT;
    if (slot && (op->desc.kind != COLL_ALL_REDUCE || op->total_bytes <= COLL_SHM_COPY_BYTES)) {
        return;
    }
    const bool any = read_places(op, places);
    if (op->desc.algorithm == COLL_ALGORITHM_DIRECT && !op->put_early &&
        coll_arena_path_fits(op, places)) {
        const shm_comm *link = op->comm->link;
        op->path = COLL_PATH_ARENA;
        op->round = link->rounds;
        keep_own(op);
        return;
    }
    if (!slot && op->desc.algorithm == COLL_ALGORITHM_DIRECT) {
        op->path = COLL_PATH_STAGED;
        keep_own(op);
        coll_staged_begin(op);
        return;
    }
    if (!slot) {
        op->path = COLL_PATH_PLAN;
        coll_exec_begin(op);
        return;
    }
    if (any) {
        op->path = COLL_PATH_ARENA;
        op->way = COLL_WAY_MIXED;
        take_mixed(op, places);
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
        if (!coll_arena_path_advance(op)) {
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
    switch (op->path) {
    case COLL_PATH_LINE:
        if (op->comm->size == 1) {
            coll_alone_finish(op);
            return part_done(op, false, COLL_STAGE_DONE);
        }
        take_copies(op);
        return part_done(op, false, COLL_STAGE_DONE);
    case COLL_PATH_SLOT:
        take_copies(op);
        return part_done(op, false, COLL_STAGE_DONE);
    case COLL_PATH_PLAN:
        return coll_exec_advance(op, moved) ? part_done(op, false, COLL_STAGE_DONE)
                                            : COLL_STAGE_RUNNING;
    case COLL_PATH_STAGED:
        return coll_staged_advance(op, moved) ? part_done(op, false, COLL_STAGE_DONE)
                                              : COLL_STAGE_RUNNING;
    case COLL_PATH_ARENA:
        break;
    }
    if (op->way == COLL_WAY_SLICES) {
        return run_slices(op, moved) ? part_done(op, false, COLL_STAGE_FINISHING)
                                     : COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (op->way != COLL_WAY_MIXED && !coll_arena_path_advance(op)) {
        return COLL_STAGE_RUNNING;
    }
    return part_done(op, true, COLL_STAGE_FINISHING);
}

/* Whether all have done their part that this rank's memory depends on. */
static bool all_finished(coll_op *op, bool *moved)
{
    const coll_comm *comm = op->comm;
    const shm_comm *link = comm->link;
    for (; op->finished < comm->size; op->finished++) {
        const int peer = op->finished;
        if (op->way == COLL_WAY_SLICES) {
            if (!coll_shm_slice_ended(comm, op->round, peer)) {
                return false;
            }
            *moved = true;
            continue;
        }
        if (peer == comm->rank || !coll_arena_path_awaits(op, peer)) {
            continue;
        }
        const uint64_t finished = atomic_load(&link->segments[peer]->finished.value);
        if (finished < op->sequence) {
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

void coll_shm_advance(coll_op *op, bool *moved)
{
    if (op->stage == COLL_STAGE_ARRIVING) {
        if (!all_arrived(op, moved)) {
            return;
        }
        *moved = true;
        op->stage = COLL_STAGE_RUNNING;
        choose(op);
    }
    if (op->stage == COLL_STAGE_RUNNING && !op->comm->failed) {
        op->stage = run(op, moved);
    }
    if (op->stage == COLL_STAGE_FINISHING && all_finished(op, moved)) {
        op->stage = COLL_STAGE_DONE;
    }
}
