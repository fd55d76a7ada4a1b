/* Runs any plan over any transport's streams: every track is moved on, chunk by chunk, as far as
 * credit, incoming frames and the step it comes after allow. */
#include <string.h>

#include "internal.h"
#include "tree_order.h"

typedef struct block_range {
    size_t offset_bytes;
    size_t size_bytes;
} block_range;

static block_range range_of(const coll_op *op, int block)
{
    if (op->desc.kind == COLL_ALL_GATHER) {
        return (block_range){(size_t)block * op->total_bytes, op->total_bytes};
    }
    const size_t blocks = (size_t)coll_plan_block_count(&op->plan);
    const size_t index = (size_t)block;
    const size_t share = op->desc.count / blocks;
    const size_t longer = op->desc.count % blocks; /* the first blocks have one more element */
    const size_t begin = share * index + (index < longer ? index : longer);
    const size_t count = share + (index < longer ? 1 : 0);
    return (block_range){begin * op->element_bytes, count * op->element_bytes};
}

static const uint8_t *own_bytes(const coll_op *op, const coll_step *step, size_t at)
{
    const uint8_t *base = step->from_input ? op->desc.send : op->desc.recv;
    return base + at;
}

static bool send_chunk(coll_op *op, const coll_step *step, size_t at, size_t size_bytes)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->context->table;
    void *frame = table->send_begin(comm, step->peer, step->lane, size_bytes);
    if (frame == NULL) {
        return false;
    }
    memcpy(frame, own_bytes(op, step, at), size_bytes);
    table->send_end(comm, step->peer, step->lane, size_bytes);
    comm->context->bytes_sent += size_bytes;
    return true;
}

static bool receive_chunk(coll_op *op, const coll_step *step, size_t at, size_t size_bytes)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->context->table;
    const void *frame = table->receive_begin(comm, step->peer, step->lane, size_bytes);
    if (frame == NULL) {
        return false;
    }
    uint8_t *target = (uint8_t *)op->desc.recv + at;
    if (step->action == COLL_ACTION_COPY) {
        memcpy(target, frame, size_bytes);
    } else {
        const void *own = own_bytes(op, step, at);
        op->kernel->combine(target, step->incoming_left ? frame : own,
                            step->incoming_left ? own : frame, size_bytes / op->element_bytes);
    }
    table->receive_end(comm, step->peer, step->lane);
    return true;
}

static bool gather_chunk(coll_op *op, const coll_step *step, size_t at, size_t size_bytes)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->context->table;
    const void *operands[COLL_RANKS_MAX];
    for (int rank = 0; rank < comm->size; rank++) {
        operands[rank] = rank == comm->rank
                             ? own_bytes(op, step, at)
                             : table->receive_begin(comm, rank, step->lane, size_bytes);
        if (operands[rank] == NULL) {
            return false; /* frames seen so far are seen again the next time */
        }
    }
    coll_tree_combine(op->kernel, (uint8_t *)op->desc.recv + at, operands, comm->size,
                      size_bytes / op->element_bytes, op->element_bytes);
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank != comm->rank) {
            table->receive_end(comm, rank, step->lane);
        }
    }
    return true;
}

/* Whether the step that this one comes after has done the chunk that ends at end_bytes. */
static bool is_released(const coll_op *op, const coll_step *step, size_t end_bytes)
{
    if (step->after_track < 0) {
        return true;
    }
    const coll_track *other = &op->tracks[step->after_track];
    return other->ended || other->index > step->after_step ||
           (other->index == step->after_step && other->offset_bytes >= end_bytes);
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
    coll_track *track = &op->tracks[number];
    if (track->ended) {
        return false;
    }
    if (!track->loaded && !coll_plan_step(&op->plan, number, track->index, &track->step)) {
        track->ended = true;
        op->tracks_ended++;
        return true;
    }
    track->loaded = true;
    const block_range range = range_of(op, track->step.block);
    const size_t left = range.size_bytes - track->offset_bytes;
    const size_t chunk = left < COLL_CHUNK_BYTES ? left : COLL_CHUNK_BYTES;
    if (chunk == 0) {
        next_step(track);
        return true;
    }
    if (!is_released(op, &track->step, track->offset_bytes + chunk)) {
        return false;
    }
    const size_t at = range.offset_bytes + track->offset_bytes;
    bool moved = false;
    switch (track->step.action) {
    case COLL_ACTION_SEND:
        moved = send_chunk(op, &track->step, at, chunk);
        break;
    case COLL_ACTION_COPY:
    case COLL_ACTION_COMBINE:
        moved = receive_chunk(op, &track->step, at, chunk);
        break;
    case COLL_ACTION_GATHER:
        moved = gather_chunk(op, &track->step, at, chunk);
        break;
    }
    if (moved) {
        track->offset_bytes += chunk;
        if (track->offset_bytes == range.size_bytes) {
            next_step(track);
        }
    }
    return moved;
}

void coll_exec_begin(coll_op *op)
{
    const coll_comm *comm = op->comm;
    op->plan = (coll_plan){.algorithm = op->desc.algorithm,
                           .kind = op->desc.kind,
                           .ranks = comm->size,
                           .rank = comm->rank,
                           .root = op->desc.root};
    op->track_count = coll_plan_track_count(&op->plan);
    op->tracks_ended = 0;
    for (int t = 0; t < op->track_count; t++) {
        op->tracks[t] = (coll_track){.index = 0};
    }
    uint8_t *own = op->desc.recv;
    if (op->desc.kind == COLL_ALL_GATHER) {
        own += (size_t)comm->rank * op->total_bytes;
    } else if (op->desc.kind != COLL_BROADCAST || comm->rank != op->desc.root) {
        own = NULL; /* the output is written as the plan goes */
    }
    if (own != NULL && own != op->desc.send) {
        memcpy(own, op->desc.send, op->total_bytes);
    }
}

bool coll_exec_advance(coll_op *op, bool *moved)
{
    for (int t = 0; t < op->track_count && !op->comm->failed; t++) {
        if (advance_track(op, t)) {
            *moved = true;
        }
    }
    return op->tracks_ended == op->track_count;
}

int coll_exec_waits_for(const coll_op *op)
{
    for (int t = 0; t < op->track_count; t++) {
        const coll_track *track = &op->tracks[t];
        if (!track->ended && track->loaded && track->step.action != COLL_ACTION_GATHER &&
            is_released(op, &track->step, track->offset_bytes + 1)) {
            return track->step.peer;
        }
    }
    return -1;
}
