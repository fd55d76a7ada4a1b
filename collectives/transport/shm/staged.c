/* Staged operations: between ranks of one host, on memory that peers cannot map. The bytes go
 * window by window through staging buffers in shared memory. Called by protocol.c.
 *
 * Put: a rank copies its contribution to a window into its own staging buffer, and counts it in
 * `staged`. Take: a rank reads the parts that it takes from its peers' staging buffers, combines
 * them where the kind combines, and counts the window in `consumed`. All-reduce, reduce and
 * scans of many ranks have a step in between: each rank combines a slice (slices.c), and writes it
 * to its owner's staging buffer. In a scan it writes each rank's prefix of the slice to that rank's.
 *
 * A staging buffer is a ring of windows, so one window is put while another is taken. Windows are
 * counted over all operations of the communicator. So no counter is ever reset, and an operation
 * need not wait for the readers of the one before, unless its windows have another length. If there
 * is room, the first window is put before the flag is posted. Then an operation of one window waits
 * only for the flags. Peers that poll see a window at once. Those that sleep are woken after each
 * piece of work. */
#include <string.h>

#include "core/parts.h"
#include "core/take.h"
#include "kernels/tree_order.h"
#include "transport/shm/layout.h"

/* Kinds whose contribution has a part for every rank. */
static bool gives_parts(const coll_op *op)
{
    return op->desc.kind == COLL_REDUCE_SCATTER || op->desc.kind == COLL_ALL_TO_ALL ||
           op->desc.kind == COLL_SCATTER;
}

/* Whether the result is combined by all ranks, slice by slice. */
static bool has_slices(const coll_op *op)
{
    return (coll_kind_reduces_to_all(op->desc.kind) && !coll_shm_scans_apart(op)) ||
           op->desc.kind == COLL_REDUCE;
}

/* The longest part of any contribution: the same on every rank. */
static size_t longest_part_bytes(const coll_op *op)
{
    return gives_parts(op) ? coll_op_longest_block(op) : op->shape.largest_bytes;
}

/* Whether ranks share processors: then every wait costs a turn of all the others. */
static bool is_crowded(const coll_op *op)
{
    return op->comm->context->spins == 0;
}

/* cut() divides by the elements of a part. */
_Static_assert(COLL_WINDOW_PIPE_BYTES / COLL_RANKS_MAX >= 64,
               "every part has a cache line of a window");
_Static_assert(COLL_WINDOW_BYTES / COLL_RANKS_MAX >= (int)COLL_ELEMENT_BYTES_MAX,
               "and an element, where elements are combined");
_Static_assert(COLL_WINDOW_ONLY_BYTES *COLL_WINDOWS <= COLL_STAGING_BYTES, "windows fit the ring");

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Whether bytes go one way only (in a scan of few ranks: up). Then small windows let sender and
 * receiver work at the same time, if each has a processor. Otherwise all ranks are busy anyway, and
 * one long stretch of loads and one of stores are faster than many short ones. */
static bool is_pipe(const coll_op *op)
{
    const coll_kind kind = op->desc.kind;
    return !is_crowded(op) && (kind == COLL_BROADCAST || kind == COLL_GATHER ||
                               kind == COLL_SCATTER || coll_shm_scans_apart(op));
}

/* The room of one window, where a rank contributes `bytes` in `parts` parts. Where ranks share
 * processors, a second window would cost a turn of all of them. */
static size_t room_for(const coll_op *op, size_t bytes, size_t parts)
{
    if (is_pipe(op)) {
        return coll_smaller(COLL_WINDOW_PIPE_BYTES * parts, COLL_STAGING_BYTES / COLL_WINDOWS_PIPE);
    }
    return is_crowded(op) && bytes > COLL_WINDOW_BYTES && bytes <= COLL_WINDOW_ONLY_BYTES
               ? COLL_WINDOW_ONLY_BYTES
               : COLL_WINDOW_BYTES;
}

/* Cuts the operation into windows, which are numbered after those of earlier operations. Each has
 * whole elements, of whatever type. */
static void cut(coll_op *op)
{
    shm_comm *shm = op->comm->shm;
    const size_t parts = gives_parts(op) ? (size_t)op->comm->size : 1;
    const size_t longest = longest_part_bytes(op);
    const size_t room = room_for(op, longest * parts, parts);
    const size_t most = coll_op_units(op, room / parts);
    const size_t count = longest == 0 ? 1 : (longest + most - 1) / most;
    const size_t ring = is_pipe(op) ? COLL_WINDOWS_PIPE : COLL_WINDOWS;
    op->staged =
        (coll_op_staged){.count = count,
                         .room_bytes = room,
                         .ring = ring,
                         .part_bytes = round_up((longest + count - 1) / count, op->unit_bytes),
                         .first = shm->windows};
    if (shm->ring_room_bytes != room) {
        shm->ring_room_bytes = room;
        shm->ring_first = shm->windows;
    }
}

/* The bytes of a part that are in one window. */
static coll_range range_of(const coll_op *op, size_t window, size_t part_bytes)
{
    const size_t begin = coll_smaller(window * op->staged.part_bytes, part_bytes);
    return (coll_range){begin, coll_smaller(op->staged.part_bytes, part_bytes - begin)};
}

/* Where a window of op lies in a rank's staging buffer. */
static uint8_t *buffer_of(const coll_op *op, int rank, size_t window)
{
    const shm_comm *shm = op->comm->shm;
    return shm_staging(shm->segments[rank]) +
           (op->staged.first + window) % op->staged.ring * op->staged.room_bytes;
}

static void put_parts(const coll_op *op, size_t window)
{
    uint8_t *buffer = buffer_of(op, op->comm->rank, window);
    for (int rank = 0; rank < op->comm->size; rank++) {
        const coll_range block = coll_op_block(op, rank);
        const coll_range range = range_of(op, window, block.size_bytes);
        if (rank != op->comm->rank && range.size_bytes > 0) {
            memcpy(buffer + (size_t)rank * op->staged.part_bytes,
                   (const uint8_t *)op->desc.send + block.begin + range.begin, range.size_bytes);
        }
    }
}

/* Leaves out this rank's own slice, which only this rank reads, unless other ranks may do that
 * slice too, or its prefixes are written there. */
static void put_vector(const coll_op *op, size_t window)
{
    uint8_t *buffer = buffer_of(op, op->comm->rank, window);
    const coll_range range = range_of(op, window, op->shape.give_bytes);
    const uint8_t *from = (const uint8_t *)op->desc.send + range.begin;
    if (range.size_bytes == 0 ||
        (coll_shm_scans_apart(op) && op->comm->rank == op->comm->size - 1)) {
        return; /* nobody reads the last rank's */
    }
    if (!has_slices(op) || is_crowded(op) || coll_kind_is_scan(op->desc.kind)) {
        memcpy(buffer, from, range.size_bytes);
        return;
    }
    const coll_range own = coll_slice_of(op, range.size_bytes, op->comm->rank);
    const size_t end = own.begin + own.size_bytes;
    memcpy(buffer, from, own.begin);
    memcpy(buffer + end, from + end, range.size_bytes - end);
}

static void put(coll_op *op)
{
    const shm_comm *shm = op->comm->shm;
    const size_t window = op->staged.in++;
    if (!op->shape.gives) {
        return;
    }
    if (gives_parts(op)) {
        put_parts(op, window);
    } else {
        put_vector(op, window);
    }
    atomic_store_explicit(&shm->segments[op->comm->rank]->staged.value,
                          op->staged.first + window + 1, memory_order_release);
}

static bool has_staged(const coll_op *op, int rank, size_t window)
{
    const shm_comm *shm = op->comm->shm;
    return atomic_load(&shm->segments[rank]->staged.value) > op->staged.first + window;
}

/* Whether a peer still reads what this window will overwrite: the window that was in the same room
 * of the ring before it, or any window from before the ring was cut anew. */
static bool withholds(const coll_op *op, int peer, size_t window)
{
    shm_comm *shm = op->comm->shm;
    const uint64_t after = op->staged.first + window + 1;
    const uint64_t last = after > op->staged.ring ? after - op->staged.ring : 0;
    const uint64_t needed = last > shm->ring_first ? last : shm->ring_first;
    if (shm->peers[peer].consumed < needed) {
        shm->peers[peer].consumed = atomic_load(&shm->segments[peer]->consumed.value);
    }
    return shm->peers[peer].consumed < needed;
}

static bool may_put(const coll_op *op)
{
    const coll_op_staged *s = &op->staged;
    if (s->in == s->count || s->in >= s->out + s->ring) {
        return false;
    }
    for (int peer = 0; op->shape.gives && peer < op->comm->size; peer++) {
        if (peer != op->comm->rank && withholds(op, peer, s->in)) {
            return false;
        }
    }
    return true;
}

static bool may_reduce(const coll_op *op)
{
    const coll_op_staged *s = &op->staged;
    if (s->reduced == s->in) {
        return false;
    }
    for (int rank = 0; rank < op->comm->size; rank++) {
        if (rank != op->comm->rank && !has_staged(op, rank, s->reduced)) {
            return false;
        }
    }
    return true;
}

static uint64_t round_of(const coll_op *op, size_t window)
{
    return op->staged.round + window;
}

/* Combines one slice of the window into its owner's buffer. If it is this rank's own slice, and
 * this rank takes the result, it combines into recv, and copies from there. (One pass with two
 * outputs is slower: its stores wait for cache lines that peers have read, and hold up the loads
 * behind them.) */
static void reduce_slice(coll_op *op, size_t window, int slice)
{
    const coll_comm *comm = op->comm;
    const coll_range range = range_of(op, window, op->total_bytes);
    const coll_range part = coll_slice_of(op, range.size_bytes, slice);
    const bool wanted = op->desc.kind == COLL_ALL_REDUCE || comm->rank == op->desc.root;
    const uint8_t *operands[COLL_RANKS_MAX];
    uint8_t *shared = buffer_of(op, slice, window) + part.begin;
    uint8_t *out = shared;
    const coll_tree tree = {.kernel = op->kernel,
                            .operands = operands,
                            .operand_count = comm->size,
                            .divisor = comm->size};
    for (int rank = 0; rank < comm->size; rank++) {
        operands[rank] = rank == comm->rank
                             ? (const uint8_t *)op->desc.send + range.begin + part.begin
                             : buffer_of(op, rank, window) + part.begin;
    }
    if (slice == comm->rank && wanted) {
        out = (uint8_t *)op->desc.recv + range.begin + part.begin;
        op->staged.own_taken = window + 1;
    }
    coll_tree_spread(&tree, &out, 1, part.size_bytes / op->element_bytes);
    if (out != shared) {
        memcpy(shared, out, part.size_bytes);
    }
}

/* Writes the prefixes of one slice of the window over the operands, so that each rank finds its own in its
 * buffer. */
static void scan_slice(const coll_op *op, size_t window, int slice)
{
    const coll_comm *comm = op->comm;
    const coll_range range = range_of(op, window, op->total_bytes);
    const coll_range part = coll_slice_of(op, range.size_bytes, slice);
    const uint8_t *operands[COLL_RANKS_MAX];
    uint8_t *outs[COLL_RANKS_MAX];
    for (int rank = 0; rank < comm->size; rank++) {
        outs[rank] = buffer_of(op, rank, window) + part.begin;
        operands[rank] = outs[rank];
    }
    coll_tree_scan(&(const coll_tree_prefixes){.kernel = op->kernel,
                                               .operands = operands,
                                               .outs = outs,
                                               .operand_count = comm->size,
                                               .exclusive = op->desc.kind == COLL_EXSCAN},
                   part.size_bytes / op->element_bytes);
}

/* Combines slices of the next window. False if there is none to do now. */
static bool reduce(coll_op *op)
{
    const size_t window = op->staged.reduced;
    const uint64_t round = round_of(op, window);
    int done = 0;
    int slice = coll_shm_slice_next(op->comm, round, COLL_SLICE_NONE);
    for (; slice >= 0 && done < op->comm->size; done++) {
        if (coll_kind_is_scan(op->desc.kind)) {
            scan_slice(op, window, slice);
        } else {
            reduce_slice(op, window, slice);
        }
        coll_shm_slice_end(op->comm, round, slice);
        slice = coll_shm_slice_next(op->comm, round, slice);
    }
    op->staged.reduced += slice == COLL_SLICE_NONE;
    return slice == COLL_SLICE_NONE || done > 0;
}

/* Whether this rank takes anything from a peer's buffer in the end. */
static bool takes_from(const coll_op *op, int source)
{
    return op->shape.take != COLL_TAKE_NOTHING &&
           (has_slices(op) || coll_shape_takes(op, op->comm->rank, source));
}

static bool may_take(const coll_op *op)
{
    const coll_comm *comm = op->comm;
    const coll_op_staged *s = &op->staged;
    const bool slices = has_slices(op);
    if (s->out == (slices ? s->reduced : s->in)) {
        return false;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        if (!takes_from(op, rank)) {
            continue;
        }
        if (slices ? !coll_shm_slice_ended(comm, round_of(op, s->out), rank)
                   : rank != comm->rank && !has_staged(op, rank, s->out)) {
            return false;
        }
    }
    return true;
}

static void take_slices(const coll_op *op, size_t window)
{
    const coll_comm *comm = op->comm;
    const coll_range range = range_of(op, window, op->total_bytes);
    uint8_t *to = (uint8_t *)op->desc.recv + range.begin;
    for (int i = 0; i < comm->size; i++) {
        const int slice = (comm->rank + i) % comm->size;
        const coll_range part = coll_slice_of(op, range.size_bytes, slice);
        if (slice != comm->rank || op->staged.own_taken != window + 1) {
            memcpy(to + part.begin, buffer_of(op, slice, window) + part.begin, part.size_bytes);
        }
    }
}

/* This rank's part of the window of a reduce-scatter, or its prefix, which slices have combined
 * already. */
static void take_combined(const coll_op *op, size_t window)
{
    const coll_comm *comm = op->comm;
    const coll_range range = range_of(op, window, coll_shape_part_bytes(op, comm->rank));
    const size_t offset_bytes = gives_parts(op) ? (size_t)comm->rank * op->staged.part_bytes : 0;
    const size_t count = range.size_bytes / op->element_bytes;
    uint8_t *to = (uint8_t *)op->desc.recv + range.begin;
    const void *operands[COLL_RANKS_MAX] = {buffer_of(op, comm->rank, window)};
    const int operand_count = has_slices(op) && op->shape.operands > 0 ? 1 : op->shape.operands;
    for (int rank = 0; rank < operand_count && !has_slices(op); rank++) {
        operands[rank] = rank == comm->rank ? coll_take_own(op) + range.begin
                                            : buffer_of(op, rank, window) + offset_bytes;
    }
    if (operand_count == 0) {
        coll_take_neutral(op, to, count);
    } else {
        coll_tree_combine(op->kernel, to, operands, operand_count, count, comm->size);
    }
}

static void take_copies(const coll_op *op, size_t window)
{
    const coll_comm *comm = op->comm;
    const size_t offset_bytes = gives_parts(op) ? (size_t)comm->rank * op->staged.part_bytes : 0;
    for (int i = 1; i <= comm->size; i++) {
        const int source = (comm->rank + i) % comm->size;
        if (!takes_from(op, source) || (op->own_copied && source == comm->rank)) {
            continue;
        }
        const coll_range range = range_of(op, window, coll_shape_part_bytes(op, source));
        uint8_t *to = (uint8_t *)op->desc.recv + coll_shape_target_bytes(op, source) + range.begin;
        const uint8_t *from = source == comm->rank ? coll_take_own(op) + range.begin
                                                   : buffer_of(op, source, window) + offset_bytes;
        coll_take_copy(to, from, range.size_bytes);
    }
}

static void take(coll_op *op)
{
    const shm_comm *shm = op->comm->shm;
    const size_t window = op->staged.out++;
    if (op->shape.take != COLL_TAKE_NOTHING) {
        if (has_slices(op) && !coll_kind_is_scan(op->desc.kind)) {
            take_slices(op, window);
        } else if (op->shape.reduces) {
            take_combined(op, window);
        } else {
            take_copies(op, window);
        }
    }
    atomic_store_explicit(&shm->segments[op->comm->rank]->consumed.value,
                          op->staged.first + window + 1, memory_order_release);
}

bool coll_staged_put_early(coll_op *op)
{
    const coll_comm *comm = op->comm;
    if (op->shape.give_bytes == 0 || op->ref.send_arena != 0 || op->ref.recv_arena != 0 ||
        op->desc.algorithm != COLL_ALGORITHM_DIRECT || comm->done + 1 != op->sequence ||
        op->pairwise) {
        return false;
    }
    cut(op);
    if (!may_put(op)) {
        return false;
    }
    put(op);
    return true;
}

void coll_staged_begin(coll_op *op)
{
    shm_comm *shm = op->comm->shm;
    if (!op->staged.put_early) {
        cut(op);
    }
    op->staged.round = shm->rounds;
    op->comm->context->bytes_sent +=
        has_slices(op) ? coll_slices_sent_bytes(op) : op->shape.sent_bytes;
}

/* Puts, combines or takes one window. False if none of these is possible now. */
static bool step(coll_op *op)
{
    if (may_put(op)) {
        put(op);
        return true;
    }
    if (has_slices(op) && may_reduce(op) && reduce(op)) {
        return true;
    }
    if (!may_take(op)) {
        return false;
    }
    take(op);
    return true;
}

bool coll_staged_advance(coll_op *op, bool *moved)
{
    shm_comm *shm = op->comm->shm;
    coll_op_staged *s = &op->staged;
    const size_t steps_max =
        s->room_bytes < COLL_PIECE_BYTES ? COLL_PIECE_BYTES / s->room_bytes : 1;
    size_t steps = 0;
    while (steps < steps_max && s->out < s->count && step(op)) {
        steps++;
    }
    if (steps == 0) {
        return false;
    }
    *moved = true;
    coll_shm_notify(op->comm);
    if (s->out < s->count) {
        return false;
    }
    shm->windows += s->count;
    shm->rounds += has_slices(op) ? s->count : 0;
    return true;
}

bool coll_staged_awaits(const coll_op *op, int peer)
{
    const coll_op_staged *s = &op->staged;
    if (s->in < s->count && s->in < s->out + s->ring && op->shape.gives &&
        withholds(op, peer, s->in)) {
        return true;
    }
    if (!has_slices(op)) {
        return s->out < s->in && takes_from(op, peer) && !has_staged(op, peer, s->out);
    }
    if (s->reduced < s->in) {
        return !has_staged(op, peer, s->reduced) ||
               (is_crowded(op) && may_reduce(op) &&
                coll_shm_slices_await(op->comm, round_of(op, s->reduced), peer));
    }
    return s->out < s->reduced && op->shape.take != COLL_TAKE_NOTHING &&
           coll_shm_slices_await(op->comm, round_of(op, s->out), peer);
}
