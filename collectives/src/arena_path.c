/* Direct over arenas: every rank owns a slice, loads it from every peer's buffer, combines in
 * canonical order, and stores the result straight into every peer's buffer. Two bytes of memory
 * traffic for each byte reduced, where copying in and out takes five to seven. The flag lines are
 * the barrier before, the finished counters the one after.
 *
 * Broadcast: each rank loads from the root's buffer. All-gather: each rank stores its block into
 * every peer's buffer. Plain stores throughout: they beat non-temporal ones where ranks share a
 * cache. */
#include <string.h>

#include "internal.h"
#include "tree_order.h"

enum { LINE_BYTES = 64, BLOCK_BYTES = 4096 };

/* The bytes of a peer's arena at a place it announced; NULL if there is no such place. */
static uint8_t *locate(const coll_comm *comm, int peer, uint32_t number, uint64_t offset_bytes,
                       size_t size_bytes)
{
    for (const coll_arena *arena = comm->arenas; arena != NULL; arena = arena->next) {
        if (arena->number == number) {
            return offset_bytes <= arena->size_bytes &&
                           size_bytes <= arena->size_bytes - offset_bytes
                       ? arena->peers[peer] + offset_bytes
                       : NULL;
        }
    }
    return NULL;
}

static bool find_source(coll_op *op, int rank, const coll_place *place, size_t size_bytes)
{
    op->sources[rank] =
        locate(op->comm, rank, place->send_arena, place->send_offset_bytes, size_bytes);
    return op->sources[rank] != NULL;
}

static bool find_target(coll_op *op, int rank, const coll_place *place, size_t size_bytes)
{
    op->targets[rank] =
        locate(op->comm, rank, place->recv_arena, place->recv_offset_bytes, size_bytes);
    return op->targets[rank] != NULL;
}

bool coll_arena_path_fits(coll_op *op, const coll_place *places)
{
    const bool sources = op->desc.kind == COLL_ALL_REDUCE;
    const bool targets = op->desc.kind != COLL_BROADCAST;
    const size_t target_bytes =
        op->desc.kind == COLL_ALL_GATHER ? op->total_bytes * op->comm->size : op->total_bytes;
    for (int rank = 0; rank < op->comm->size; rank++) {
        const bool needs_source = sources || (!targets && rank == op->desc.root);
        if ((needs_source && places[rank].send_arena == 0) ||
            (targets && places[rank].recv_arena == 0)) {
            return false;
        }
    }
    for (int rank = 0; rank < op->comm->size; rank++) {
        const bool needs_source = sources || (!targets && rank == op->desc.root);
        if ((needs_source && !find_source(op, rank, &places[rank], op->total_bytes)) ||
            (targets && !find_target(op, rank, &places[rank], target_bytes))) {
            (void)coll_comm_fail(op->comm, BASE_ERR_PEER,
                                 "rank %d announced a buffer that is in no arena", rank);
            return false;
        }
    }
    return true;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Where rank's slice begins: whole cache lines, as equal as can be. */
static size_t slice_begin(const coll_op *op, int rank)
{
    const size_t lines = (op->total_bytes + LINE_BYTES - 1) / LINE_BYTES;
    const size_t size = (size_t)op->comm->size;
    const size_t before = lines / size * (size_t)rank + smaller(lines % size, (size_t)rank);
    return smaller(before * LINE_BYTES, op->total_bytes);
}

static void reduce_block(coll_op *op, size_t at, size_t size_bytes)
{
    const int size = op->comm->size;
    const size_t count = size_bytes / op->element_bytes;
    if (size == 2 && op->kernel->divide == NULL) {
        op->kernel->combine_twice(op->targets[0] + at, op->targets[1] + at, op->sources[0] + at,
                                  op->sources[1] + at, count);
        return;
    }
    const void *operands[COLL_RANKS_MAX];
    for (int rank = 0; rank < size; rank++) {
        operands[rank] = op->sources[rank] + at;
    }
    uint8_t *own = op->targets[op->comm->rank] + at;
    coll_tree_combine(op->kernel, own, operands, size, count, size);
    for (int i = 1; i < size; i++) {
        const int peer = (op->comm->rank + i) % size;
        memcpy(op->targets[peer] + at, own, size_bytes);
    }
}

static bool advance_reduce(coll_op *op)
{
    const size_t begin = slice_begin(op, op->comm->rank);
    const size_t size_bytes = slice_begin(op, op->comm->rank + 1) - begin;
    const size_t end = smaller(op->offset_bytes + COLL_PIECE_BYTES, size_bytes);
    const size_t step = op->comm->size == 2 ? COLL_PIECE_BYTES : BLOCK_BYTES;
    while (op->offset_bytes < end) {
        const size_t piece = smaller(step, end - op->offset_bytes);
        reduce_block(op, begin + op->offset_bytes, piece);
        op->offset_bytes += piece;
    }
    if (op->offset_bytes < size_bytes) {
        return false;
    }
    op->comm->context->bytes_sent += size_bytes * (size_t)(op->comm->size - 1);
    return true;
}

static bool advance_broadcast(coll_op *op)
{
    const bool root = op->comm->rank == op->desc.root;
    const uint8_t *source = op->sources[op->desc.root];
    const size_t piece = smaller(COLL_PIECE_BYTES, op->total_bytes - op->offset_bytes);
    uint8_t *target = op->desc.recv;
    if (target != NULL && target != source) {
        memcpy(target + op->offset_bytes, source + op->offset_bytes, piece);
    }
    op->offset_bytes += piece;
    if (op->offset_bytes < op->total_bytes) {
        return false;
    }
    if (root) {
        op->comm->context->bytes_sent += op->total_bytes * (size_t)(op->comm->size - 1);
    }
    return true;
}

static bool advance_gather(coll_op *op)
{
    const size_t at = op->total_bytes * (size_t)op->comm->rank;
    const uint8_t *source = op->desc.send;
    const size_t piece = smaller(COLL_PIECE_BYTES, op->total_bytes - op->offset_bytes);
    for (int i = 0; i < op->comm->size; i++) {
        const int peer = (op->comm->rank + i) % op->comm->size;
        uint8_t *target = op->targets[peer] + at;
        if (target != source) {
            memcpy(target + op->offset_bytes, source + op->offset_bytes, piece);
        }
    }
    op->offset_bytes += piece;
    if (op->offset_bytes < op->total_bytes) {
        return false;
    }
    op->comm->context->bytes_sent += op->total_bytes * (size_t)(op->comm->size - 1);
    return true;
}

bool coll_arena_path_advance(coll_op *op)
{
    switch (op->desc.kind) {
    case COLL_ALL_REDUCE:
        return advance_reduce(op);
    case COLL_BROADCAST:
        return advance_broadcast(op);
    case COLL_ALL_GATHER:
        return advance_gather(op);
    default:
        break;
    }
    return true;
}
