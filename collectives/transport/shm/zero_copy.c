/* Zero-copy operations: loads from and stores to the callers' own buffers, which lie in arenas.
 * Called by protocol.c. There are four patterns:
 *
 * Slices (all-reduce, reduce, scans): every rank loads its slice from every peer's buffer, combines in
 * canonical order, and stores the result (of a scan, each rank's own) to every buffer that takes it. That is two bytes of memory
 * traffic for each byte reduced; copying in and out takes five to seven. The flags are the barrier
 * before, and `reduced` or `finished` the one after.
 *
 * Pull: each rank loads its part from its peers' send buffers, or in a scan of few ranks its prefix. Its
 * own recv may lie anywhere.
 *
 * Push (an all-gather of which only the recv buffers lie in arenas): each rank stores its block to
 * its peers.
 *
 * Share (a broadcast whose receivers' buffers lie in arenas): the root, which would only wait
 * otherwise, stores one slice to all receivers, while they load the rest.
 *
 * Stores are plain. Those past the cache are faster only for copies that do not fit there. */
#include <string.h>

#include "base/bytes.h"
#include "core/failure.h"
#include "core/parts.h"
#include "core/take.h"
#include "kernels/copy.h"
#include "kernels/tree_order.h"
#include "transport/shm/layout.h"

static void *fail_ref(coll_op *op, int rank)
{
    (void)coll_comm_fail(op->comm, COLL_ERR_PEER, "rank %d posted a buffer that is in no arena",
                         rank);
    return NULL;
}

/* Bytes of a rank's contribution, from the start of its send buffer. */
static size_t give_bytes(const coll_op *op, int rank)
{
    if (op->pairwise) {
        const shm_comm *shm = op->comm->shm;
        return shm_ends(shm->segments[rank], op, false)[op->comm->size];
    }
    return op->desc.kind == COLL_ALL_GATHER || op->desc.kind == COLL_GATHER
               ? coll_op_block(op, rank).size_bytes
               : op->shape.largest_bytes;
}

/* Where the part begins that this rank takes of a peer's contribution. */
static const uint8_t *find_source(coll_op *op, int rank, const coll_buffer_ref *ref)
{
    const shm_comm *shm = op->comm->shm;
    size_t part_offset_bytes = op->shape.part_offset_bytes;
    size_t size_bytes = give_bytes(op, rank);
    if (op->pairwise) { /* read once: what a peer posts may be anything */
        part_offset_bytes = shm_ends(shm->segments[rank], op, false)[op->comm->rank];
        if (!base_add_size(part_offset_bytes, coll_shape_part_bytes(op, rank), &size_bytes)) {
            return fail_ref(op, rank);
        }
    }
    const uint8_t *found =
        coll_arena_of_peer(op->comm, rank, ref->send_arena, ref->send_offset_bytes, size_bytes);
    return found != NULL ? found + part_offset_bytes : fail_ref(op, rank);
}

static bool find_target(coll_op *op, int rank, const coll_buffer_ref *ref)
{
    op->zero_copy.targets[rank] = coll_arena_of_peer(op->comm, rank, ref->recv_arena,
                                                     ref->recv_offset_bytes, op->whole_bytes);
    return op->zero_copy.targets[rank] != NULL || fail_ref(op, rank) != NULL;
}

/* Whether every contribution that anybody takes lies in an arena, or none needs to:
 * an empty one. */
static bool all_send_in_arenas(const coll_op *op, const coll_buffer_ref *refs)
{
    for (int rank = 0; rank < op->comm->size; rank++) {
        if (coll_shape_gives(op, rank) && refs[rank].send_arena == 0 && give_bytes(op, rank) > 0) {
            return false;
        }
    }
    return true;
}

typedef enum receivers { ALL, ONLY_ROOT, BUT_ROOT } receivers;

static bool all_recv_in_arenas(const coll_op *op, const coll_buffer_ref *refs, receivers which)
{
    for (int rank = 0; rank < op->comm->size; rank++) {
        const bool counts = which == ALL || (rank == op->desc.root) == (which == ONLY_ROOT);
        if (counts && refs[rank].recv_arena == 0) {
            return false;
        }
    }
    return true;
}

/* An all-to-all in place reads and writes the same bytes, which only copies can keep apart. (A rank
 * that gives nothing has no arena.) */
static bool is_in_place(const coll_op *op, const coll_buffer_ref *refs)
{
    for (int rank = 0; rank < op->comm->size; rank++) {
        if (refs[rank].send_arena != 0 && refs[rank].send_arena == refs[rank].recv_arena &&
            refs[rank].send_offset_bytes == refs[rank].recv_offset_bytes) {
            return true;
        }
    }
    return false;
}

/* The same on every rank, for all see the same references. */
static bool choose_pattern(coll_op *op, const coll_buffer_ref *refs)
{
    const bool send = all_send_in_arenas(op, refs);
    switch (op->desc.kind) {
    case COLL_ALL_REDUCE:
    case COLL_SCAN:
    case COLL_EXSCAN: /* pulled in place, an operand would be gone before all have read it */
        op->zero_copy.pattern = coll_shm_scans_apart(op) && !is_in_place(op, refs)
                                    ? COLL_PATTERN_PULL
                                    : COLL_PATTERN_SLICES;
        return send &&
               (op->zero_copy.pattern == COLL_PATTERN_PULL || all_recv_in_arenas(op, refs, ALL));
    case COLL_REDUCE:
        op->zero_copy.pattern =
            all_recv_in_arenas(op, refs, ONLY_ROOT) ? COLL_PATTERN_SLICES : COLL_PATTERN_PULL;
        return send;
    case COLL_ALL_GATHER:
        op->zero_copy.pattern = send ? COLL_PATTERN_PULL : COLL_PATTERN_PUSH;
        return send || all_recv_in_arenas(op, refs, ALL);
    case COLL_ALL_TO_ALL:
        op->zero_copy.pattern = COLL_PATTERN_PULL;
        return send && !is_in_place(op, refs);
    case COLL_BROADCAST:
        op->zero_copy.pattern =
            op->comm->context->spins > 0 && all_recv_in_arenas(op, refs, BUT_ROOT)
                ? COLL_PATTERN_SHARE
                : COLL_PATTERN_PULL;
        return send;
    default:
        op->zero_copy.pattern = COLL_PATTERN_PULL;
        return send;
    }
}

/* Whether this rank stores to the rank's recv. */
static bool takes_stores(const coll_op *op, int rank)
{
    switch (op->zero_copy.pattern) {
    case COLL_PATTERN_SLICES:
        return coll_kind_reduces_to_all(op->desc.kind) || rank == op->desc.root;
    case COLL_PATTERN_SHARE:
        return op->comm->rank == op->desc.root && rank != op->desc.root;
    default:
        return op->zero_copy.pattern == COLL_PATTERN_PUSH;
    }
}

static bool find_all(coll_op *op, const coll_buffer_ref *refs)
{
    coll_op_zero_copy *z = &op->zero_copy;
    for (int rank = 0; rank < op->comm->size; rank++) {
        const bool own = rank == op->comm->rank;
        z->sources[rank] = own ? coll_take_own(op) : NULL;
        z->targets[rank] = own ? op->desc.recv : NULL;
        if (own) {
            continue;
        }
        if (z->pattern != COLL_PATTERN_PUSH && coll_shape_gives(op, rank) &&
            give_bytes(op, rank) > 0) {
            z->sources[rank] = find_source(op, rank, &refs[rank]);
            if (z->sources[rank] == NULL) {
                return false;
            }
        }
        if (takes_stores(op, rank) && !find_target(op, rank, &refs[rank])) {
            return false;
        }
    }
    return true;
}

bool coll_zero_copy_fits(coll_op *op, const coll_buffer_ref *refs)
{
    return choose_pattern(op, refs) && find_all(op, refs);
}

bool coll_zero_copy_awaits(const coll_op *op, int peer)
{
    switch (op->zero_copy.pattern) {
    case COLL_PATTERN_PULL:
        return coll_shape_takes(op, peer, op->comm->rank);
    case COLL_PATTERN_SHARE:
        return peer == op->desc.root || op->comm->rank == op->desc.root;
    default:
        return true;
    }
}

/* Rank 0's neutral elements come last: in place, they are written over its operand. */
static void scan_slice(const coll_op *op, const uint8_t *const *operands, uint8_t *const *outs,
                       size_t count)
{
    coll_tree_scan(&(const coll_tree_prefixes){.kernel = op->kernel,
                                               .operands = operands,
                                               .outs = outs,
                                               .operand_count = op->comm->size,
                                               .exclusive = op->desc.kind == COLL_EXSCAN},
                   count);
    if (op->desc.kind == COLL_EXSCAN) {
        coll_take_neutral(op, outs[0], count);
    }
}

static void combine_slice(const coll_op *op, size_t at, size_t size_bytes)
{
    const int size = op->comm->size;
    const bool to_all = coll_kind_reduces_to_all(op->desc.kind);
    const uint8_t *operands[COLL_RANKS_MAX];
    uint8_t *outs[COLL_RANKS_MAX];
    const coll_tree tree = {
        .kernel = op->kernel, .operands = operands, .operand_count = size, .divisor = size};
    for (int rank = 0; rank < size; rank++) {
        operands[rank] = op->zero_copy.sources[rank] + at;
        outs[rank] = to_all ? op->zero_copy.targets[rank] + at : NULL;
    }
    if (!to_all) {
        outs[0] = op->zero_copy.targets[op->desc.root] + at;
    }
    if (coll_kind_is_scan(op->desc.kind)) {
        scan_slice(op, operands, outs, size_bytes / op->element_bytes);
        return;
    }
    coll_tree_spread(&tree, outs, to_all ? size : 1, size_bytes / op->element_bytes);
}

/* The next piece of something so long; `largest` bytes are whole elements, where that matters. */
static size_t next_piece(const coll_op *op, size_t size_bytes, size_t largest)
{
    return coll_smaller(largest, size_bytes - op->zero_copy.offset_bytes);
}

/* The piece is done; whether it was the last. */
static bool end_piece(coll_op *op, size_t piece, size_t size_bytes)
{
    op->zero_copy.offset_bytes += piece;
    return op->zero_copy.offset_bytes == size_bytes;
}

/* One piece of the slice that this rank is at, its own or another's. */
static bool advance_slices(coll_op *op)
{
    const coll_range slice = coll_slice_of(op, op->total_bytes, op->zero_copy.slice);
    const size_t piece = next_piece(op, slice.size_bytes, coll_op_units(op, COLL_PIECE_BYTES));
    combine_slice(op, slice.begin + op->zero_copy.offset_bytes, piece);
    return end_piece(op, piece, slice.size_bytes);
}

/* One piece of a combination of all ranks' parts. */
static bool pull_combined(coll_op *op)
{
    const void *operands[COLL_RANKS_MAX];
    const size_t size_bytes = coll_shape_part_bytes(op, op->comm->rank);
    const size_t piece = next_piece(op, size_bytes, coll_op_units(op, COLL_PIECE_BYTES));
    uint8_t *to = (uint8_t *)op->desc.recv + op->zero_copy.offset_bytes;
    for (int rank = 0; rank < op->shape.operands; rank++) {
        operands[rank] = op->zero_copy.sources[rank] + op->zero_copy.offset_bytes;
    }
    if (op->shape.operands == 0) {
        coll_take_neutral(op, to, piece / op->element_bytes);
    } else {
        coll_tree_combine(op->kernel, to, operands, op->shape.operands, piece / op->element_bytes,
                          op->comm->size);
    }
    return end_piece(op, piece, size_bytes);
}

/* A piece of a copy that is `whole_bytes` long. What does not stay in the cache anyway is stored
 * past it, so that the cache lines it overwrites are not read first. */
static void copy_piece(uint8_t *to, const uint8_t *from, size_t piece_bytes, size_t whole_bytes)
{
    if (whole_bytes >= COLL_PAST_CACHE_BYTES) {
        coll_copy_past_cache(to, from, piece_bytes);
    } else if (piece_bytes > 0) { /* who sends nothing may have no address */
        memcpy(to, from, piece_bytes);
    }
}

/* A piece of the ranks' parts, one after the other. The next rank's comes first, so that not all
 * read from one. */
static bool pull_copied(coll_op *op)
{
    const int size = op->comm->size;
    size_t room = COLL_PIECE_BYTES;
    while (op->zero_copy.source < size && room > 0) {
        const int source = (op->comm->rank + 1 + op->zero_copy.source) % size;
        const size_t size_bytes = coll_shape_part_bytes(op, source);
        const size_t piece = next_piece(op, size_bytes, room);
        const uint8_t *from = op->zero_copy.sources[source];
        uint8_t *at = (uint8_t *)op->desc.recv + coll_shape_target_bytes(op, source);
        if (coll_shape_takes(op, op->comm->rank, source) && from != NULL && from != at &&
            !(op->own_copied && source == op->comm->rank)) {
            copy_piece(at + op->zero_copy.offset_bytes, from + op->zero_copy.offset_bytes, piece,
                       size_bytes);
            room -= piece;
            if (!end_piece(op, piece, size_bytes)) {
                return false;
            }
        }
        op->zero_copy.offset_bytes = 0;
        op->zero_copy.source++;
    }
    return op->zero_copy.source == size;
}

static bool advance_pull(coll_op *op)
{
    if (op->shape.take == COLL_TAKE_NOTHING) {
        return true;
    }
    return op->shape.reduces ? pull_combined(op) : pull_copied(op);
}

/* One piece of a broadcast: the root's slice is the root's to store,
 * the rest the others' to load. */
static bool advance_share(coll_op *op)
{
    const coll_comm *comm = op->comm;
    const coll_range pushed = coll_slice_of(op, op->total_bytes, op->desc.root);
    const uint8_t *source = op->zero_copy.sources[op->desc.root];
    if (comm->rank == op->desc.root) {
        const size_t at = pushed.begin + op->zero_copy.offset_bytes;
        const size_t piece = next_piece(op, pushed.size_bytes, COLL_PIECE_BYTES);
        for (int i = 1; i < comm->size; i++) {
            uint8_t *target = op->zero_copy.targets[(comm->rank + i) % comm->size];
            copy_piece(target + at, source + at, piece, pushed.size_bytes);
        }
        return end_piece(op, piece, pushed.size_bytes);
    }
    const size_t rest = op->total_bytes - pushed.size_bytes;
    const bool before = op->zero_copy.offset_bytes < pushed.begin;
    const size_t at = op->zero_copy.offset_bytes + (before ? 0 : pushed.size_bytes);
    const size_t piece = next_piece(op, before ? pushed.begin : rest, COLL_PIECE_BYTES);
    copy_piece((uint8_t *)op->desc.recv + at, source + at, piece, rest);
    return end_piece(op, piece, rest);
}

static bool advance_push(coll_op *op)
{
    const coll_range own = coll_op_block(op, op->comm->rank);
    const uint8_t *source = op->desc.send;
    const size_t piece = next_piece(op, own.size_bytes, COLL_PIECE_BYTES);
    for (int i = 0; piece > 0 && i < op->comm->size; i++) {
        const int peer = (op->comm->rank + i) % op->comm->size;
        uint8_t *target = op->zero_copy.targets[peer] + own.begin;
        if (target != source) {
            memcpy(target + op->zero_copy.offset_bytes, source + op->zero_copy.offset_bytes, piece);
        }
    }
    return end_piece(op, piece, own.size_bytes);
}

bool coll_zero_copy_advance(coll_op *op)
{
    switch (op->zero_copy.pattern) {
    case COLL_PATTERN_SLICES:
        return advance_slices(op);
    case COLL_PATTERN_PUSH:
        return advance_push(op);
    case COLL_PATTERN_SHARE:
        return advance_share(op);
    default:
        return advance_pull(op);
    }
}
