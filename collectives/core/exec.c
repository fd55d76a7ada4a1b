/* Runs any plan over any transport's streams. It moves every track on, chunk by chunk, as far as
 * credit, incoming frames and the step before allow. Called by progress.c, and by the shared-memory
 * transport for plans. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/arrival.h"
#include "core/exec.h"
#include "core/failure.h"
#include "core/parts.h"
#include "core/take.h"
#include "kernels/tree_order.h"

typedef struct byte_range {
    size_t begin; /* in the whole vector: all parts, or all blocks */
    size_t end;
} byte_range;

/* Where a block begins in the whole vector. */
static size_t position_of(const coll_op *op, int block)
{
    const size_t index = (size_t)block;
    if (op->varies) {
        return op->part_ends[index];
    }
    if (coll_kind_is_by_rank(op->desc.kind)) {
        return index * op->total_bytes;
    }
    const size_t blocks = (size_t)coll_plan_block_count(&op->plan.schedule);
    const size_t share = op->desc.count / blocks;
    const size_t longer = op->desc.count % blocks; /* the first blocks have one more element */
    return (share * index + (index < longer ? index : longer)) * op->element_bytes;
}

/* A pairwise operation's blocks have other places in recv than in send, and each step one block: its
 * bytes are counted from its own begin. */
static byte_range range_of(const coll_op *op, const coll_step *step)
{
    if (op->pairwise) {
        const coll_pair pair = coll_op_pair(op, step->block);
        return (byte_range){0, step->action == COLL_ACTION_COPY ? pair.from_bytes : pair.to_bytes};
    }
    return (byte_range){position_of(op, step->block),
                        position_of(op, step->block + step->block_count)};
}

/* The address of a position in the step's source or target; NULL where the caller gave no such
 * buffer. */
static uint8_t *address_in(const coll_op *op, const coll_step *step, coll_space space,
                           size_t position)
{
    const coll_kind kind = op->desc.kind;
    const bool own_input = kind == COLL_ALL_GATHER || kind == COLL_GATHER;
    const bool own_output = kind == COLL_REDUCE_SCATTER || kind == COLL_SCATTER;
    uint8_t *base = op->plan.scratch;
    size_t origin = op->plan.scratch_begin;
    if (space != COLL_SPACE_SCRATCH) {
        const bool input = space == COLL_SPACE_INPUT;
        base = input ? (uint8_t *)(uintptr_t)op->desc.send : op->desc.recv;
        origin = (input ? own_input : own_output) ? position_of(op, op->comm->rank) : 0;
        if (op->pairwise) {
            position += (input ? op->part_ends : op->recv_ends)[step->block];
        }
    }
    return base == NULL ? NULL : base + (position - origin);
}

/* Whether the bytes [begin, end) may be handled, as far as the step before them goes. */
static bool is_released(const coll_op *op, const coll_step *step, size_t begin, size_t end)
{
    if (step->after_track < 0) {
        return true;
    }
    const coll_track *other = &op->plan.tracks[step->after_track];
    if (other->ended || other->index != step->after_step) {
        return other->ended || other->index > step->after_step;
    }
    coll_step before = other->step;
    if (!other->loaded &&
        !coll_plan_step(&op->plan.schedule, step->after_track, other->index, &before)) {
        return true;
    }
    const byte_range range = range_of(op, &before);
    return end <= range.begin || begin >= range.end ||
           range.begin + other->offset_bytes >= (end < range.end ? end : range.end);
}

/* Whether chunks are as long as frames can be, so that a transport cuts a run of them as the plan
 * does. */
static bool fills_frames(const coll_op *op)
{
    return op->plan.chunk_bytes == op->comm->chunk_bytes;
}

/* Sends of the bytes [at, end) what is released, and as much as there is credit for, or one chunk;
 * returns how much. */
static size_t send_bytes(coll_op *op, const coll_step *step, size_t at, size_t end)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->table;
    const void *source = address_in(op, step, step->source, at);
    const size_t left = end - at;
    size_t sent = coll_smaller(left, op->plan.chunk_bytes);
    if (table->send_from != NULL) {
        const bool all = left > sent && fills_frames(op) && is_released(op, step, at, end);
        sent = table->send_from(comm, step->peer, step->channel, source, all ? left : sent);
    } else {
        void *frame = table->send_begin(comm, step->peer, step->channel, sent);
        if (frame == NULL) {
            return 0;
        }
        memcpy(frame, source, sent);
        table->send_end(comm, step->peer, step->channel, sent);
    }
    comm->context->bytes_sent += sent;
    return sent;
}

/* COMBINE and MERGE of a chunk; the division of an average where its sum is complete. */
static void combine(const coll_op *op, const coll_step *step, void *target, const void *own,
                    const void *other, size_t size_bytes)
{
    const size_t count = size_bytes / op->element_bytes;
    coll_kernel_combine(op->kernel, target, step->incoming_left ? other : own,
                        step->incoming_left ? own : other, count);
    if (step->final && op->kernel->divide != NULL) {
        op->kernel->divide(target, count, op->comm->size);
    }
}

/* The next frame from a peer, if its flag shows that the frame is of this operation. */
static const void *receive_begin(coll_op *op, int peer, int channel, size_t size_bytes)
{
    if (peer >= op->arrived && !coll_op_sees(op, peer)) {
        return NULL;
    }
    return op->comm->table->receive_begin(op->comm, peer, channel, size_bytes);
}

/* COPY and COMBINE of a chunk; what the bytes up to `end` are copied to may be filled
 * as they come. */
static bool receive_chunk(coll_op *op, const coll_step *step, size_t at, size_t size_bytes,
                          size_t end)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->table;
    const bool copies = step->action == COLL_ACTION_COPY;
    const bool fills = copies && !step->adds_total;
    const void *frame = receive_begin(op, step->peer, step->channel, size_bytes);
    uint8_t *target = address_in(op, step, step->target, at);
    if (frame == NULL) {
        if (fills && table->receive_into != NULL && !comm->failed) {
            const bool all = fills_frames(op) && is_released(op, step, at, end);
            table->receive_into(op, step->peer, step->channel, target, all ? end - at : size_bytes);
        }
        return false;
    }
    if (step->adds_total) {
        coll_kernel_combine(op->kernel, address_in(op, step, COLL_SPACE_SCRATCH, at), frame,
                            address_in(op, step, step->total, at), size_bytes / op->element_bytes);
    }
    if (copies && frame != target) {
        memcpy(target, frame, size_bytes);
    } else if (!copies) {
        const void *own = address_in(op, step, step->source, at);
        combine(op, step, target, own, frame, size_bytes);
    }
    table->receive_end(comm, step->peer, step->channel);
    return true;
}

static bool gather_chunk(coll_op *op, const coll_step *step, size_t at, size_t size_bytes)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->table;
    const void *operands[COLL_RANKS_MAX];
    int members[COLL_RANKS_MAX];
    const int count = coll_plan_members(&op->plan.schedule, step->group, members);
    for (int i = 0; i < count; i++) {
        operands[i] = members[i] == comm->rank
                          ? address_in(op, step, step->source, at)
                          : receive_begin(op, members[i], step->channel, size_bytes);
        if (operands[i] == NULL) {
            return false; /* frames seen so far are seen again the next time */
        }
    }
    coll_tree_combine(op->kernel, address_in(op, step, step->target, at), operands, count,
                      size_bytes / op->element_bytes, step->final ? comm->size : 0);
    for (int i = 0; i < count; i++) {
        if (members[i] != comm->rank) {
            table->receive_end(comm, members[i], step->channel);
        }
    }
    return true;
}

/* MOVE, MERGE and FILL: nothing comes or goes. */
static void local_chunk(const coll_op *op, const coll_step *step, size_t at, size_t size_bytes)
{
    const void *source = address_in(op, step, step->source, at);
    uint8_t *target = address_in(op, step, step->target, at);
    if (step->action == COLL_ACTION_MERGE) {
        const void *other = address_in(op, step, COLL_SPACE_SCRATCH, at);
        combine(op, step, target, source, other, size_bytes);
    } else if (step->action == COLL_ACTION_FILL) {
        coll_take_neutral(op, target, size_bytes / op->element_bytes);
    } else if (target != NULL && target != source) {
        memcpy(target, source, size_bytes);
    }
}

/* What every plan promises of its steps: blocks that there are, a rank to deal with, a track to
 * come after, and no scratch but what coll_plan_scratch has named. */
static void check_step(const coll_op *op, int number)
{
    const coll_step *step = &op->plan.tracks[number].step;
    const byte_range range = range_of(op, step);
    BASE_ASSERT(step->block >= 0);
    BASE_ASSERT(step->block_count >= 0);
    BASE_ASSERT(step->block_count <= coll_plan_block_count(&op->plan.schedule) - step->block);
    BASE_ASSERT(step->after_track < op->plan.track_count);
    BASE_ASSERT(step->after_track != number);
    if (step->action <= COLL_ACTION_COMBINE) {
        BASE_ASSERT(step->peer >= 0);
        BASE_ASSERT(step->peer < op->comm->size);
        BASE_ASSERT(step->peer != op->comm->rank);
    }
    if (coll_step_uses_scratch(step) && range.begin < range.end) {
        BASE_ASSERT(range.begin >= op->plan.scratch_begin);
        BASE_ASSERT(range.end - op->plan.scratch_begin <= op->plan.scratch_bytes);
    }
}

static void next_step(coll_track *track)
{
    track->index++;
    track->offset_bytes = 0;
    track->loaded = false;
}

/* Moves a track one chunk on; false if it cannot move now, or has ended. */
static bool advance_track(coll_op *op, int number)
{
    coll_track *track = &op->plan.tracks[number];
    if (track->ended) {
        return false;
    }
    if (!track->loaded && !coll_plan_step(&op->plan.schedule, number, track->index, &track->step)) {
        track->ended = true;
        op->plan.tracks_ended++;
        return true;
    }
    if (!track->loaded) {
        check_step(op, number);
    }
    track->loaded = true;
    const byte_range range = range_of(op, &track->step);
    const size_t at = range.begin + track->offset_bytes;
    const size_t left = range.end - at;
    const size_t chunk = coll_smaller(left, op->plan.chunk_bytes);
    if (!is_released(op, &track->step, at, at + chunk)) {
        return false;
    }
    if (chunk == 0) {
        next_step(track);
        return true;
    }
    size_t moved = 0;
    switch (track->step.action) {
    case COLL_ACTION_SEND:
        moved = send_bytes(op, &track->step, at, range.end);
        break;
    case COLL_ACTION_COPY:
    case COLL_ACTION_COMBINE:
        moved = receive_chunk(op, &track->step, at, chunk, range.end) ? chunk : 0;
        break;
    case COLL_ACTION_GATHER:
        moved = gather_chunk(op, &track->step, at, chunk) ? chunk : 0;
        break;
    case COLL_ACTION_MOVE:
    case COLL_ACTION_MERGE:
    case COLL_ACTION_FILL:
        local_chunk(op, &track->step, at, chunk);
        moved = chunk;
        break;
    }
    BASE_ASSERT(moved <= left);
    track->offset_bytes += moved;
    if (at + moved == range.end) {
        next_step(track);
    }
    return moved > 0;
}

/* Memory for the blocks that the plan keeps in SCRATCH; stays with the operation. */
static void make_scratch(coll_op *op)
{
    int first = 0;
    const int count = coll_plan_scratch(&op->plan.schedule, &first);
    op->plan.scratch_begin = position_of(op, first);
    const size_t needed = position_of(op, first + count) - op->plan.scratch_begin;
    if (needed <= op->plan.scratch_bytes) {
        return;
    }
    free(op->plan.scratch);
    op->plan.scratch = malloc(needed);
    op->plan.scratch_bytes = op->plan.scratch == NULL ? 0 : needed;
    if (op->plan.scratch == NULL) {
        (void)coll_comm_fail(op->comm, COLL_ERR_MEMORY, "no memory for %zu bytes of scratch",
                             needed);
    }
}

void coll_exec_begin(coll_op *op)
{
    const coll_comm *comm = op->comm;
    op->plan.schedule = coll_op_plan_of(op, op->desc.algorithm);
    op->plan.chunk_bytes = comm->chunk_bytes - comm->chunk_bytes % op->element_bytes;
    op->plan.track_count = coll_plan_track_count(&op->plan.schedule);
    BASE_ASSERT(op->plan.track_count <= COLL_PLAN_TRACKS_MAX(comm->size));
    op->plan.tracks_ended = 0;
    for (int t = 0; t < op->plan.track_count; t++) {
        op->plan.tracks[t] = (coll_track){.index = 0};
    }
    make_scratch(op);
}

bool coll_exec_advance(coll_op *op, bool *moved)
{
    for (int t = 0; t < op->plan.track_count && !op->comm->failed; t++) {
        bool more = true;
        while (more && !op->comm->failed) {
            const bool advanced = advance_track(op, t);
            *moved = *moved || advanced;
            more = advanced && !op->plan.tracks[t].loaded; /* a step has ended: what comes next? */
        }
    }
    return op->plan.tracks_ended == op->plan.track_count;
}

/* Whether a frame of the peer is all that the step lacks. */
static bool lacks_frame(const coll_op *op, const coll_step *step, int peer, size_t size_bytes)
{
    const coll_transport_table *table = op->comm->table;
    int members[COLL_RANKS_MAX];
    if (step->action != COLL_ACTION_GATHER) {
        return step->action <= COLL_ACTION_COMBINE && step->peer == peer;
    }
    const int count = coll_plan_members(&op->plan.schedule, step->group, members);
    for (int i = 0; i < count; i++) {
        if (members[i] == peer) {
            return table->receive_begin(op->comm, peer, step->channel, size_bytes) == NULL;
        }
    }
    return false;
}

bool coll_exec_awaits(const coll_op *op, int peer)
{
    for (int t = 0; t < op->plan.track_count; t++) {
        const coll_track *track = &op->plan.tracks[t];
        if (track->ended || !track->loaded) {
            continue;
        }
        const byte_range range = range_of(op, &track->step);
        const size_t at = range.begin + track->offset_bytes;
        const size_t left = range.end - at;
        const size_t chunk = coll_smaller(left, op->plan.chunk_bytes);
        if (is_released(op, &track->step, at, at + chunk) &&
            lacks_frame(op, &track->step, peer, chunk)) {
            return true;
        }
    }
    return false;
}
