/* The transport between ranks of one host: opens contexts, communicators and arenas, moves the
 * frames of streams, and puts ranks to sleep and wakes them. Called through the table at the end.
 *
 * Each rank has one segment per communicator. It holds the rank's flags, slots and counters, and
 * the frames that it sends to each peer (layout.h). Peers map the segment and poll it.
 *
 * No wake-up is lost. A rank that goes to sleep first sets `asleep` in its doorbell, then looks
 * once more for what it waits for. A rank that publishes something looks at the doorbell
 * afterwards, and rings if the other sleeps. Each has a fence between its two steps. So either the
 * sleeper sees what was published, or the publisher sees that it sleeps. */
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/failure.h"
#include "core/segment.h"
#include "transport/shm/fdpass.h"
#include "transport/shm/layout.h"
#include "transport/shm/shm.h"
#include "transport/shm/swap.h"

static size_t frames_offset(void)
{
    return coll_segment_round(sizeof(shm_segment) + (size_t)COLL_SHM_SLOTS * COLL_SHM_SLOT_BYTES +
                              (size_t)COLL_STAGING_BYTES);
}

size_t coll_shm_segment_bytes(int ranks)
{
    return frames_offset() + (size_t)ranks * COLL_CHANNELS * COLL_STREAM_CREDITS * COLL_CHUNK_BYTES;
}

static uint8_t *frame_at(shm_segment *segment, int receiver, int channel, uint64_t frame)
{
    const size_t stream = (size_t)receiver * COLL_CHANNELS + (size_t)channel;
    const size_t slot = stream * COLL_STREAM_CREDITS + frame % COLL_STREAM_CREDITS;
    return (uint8_t *)segment + frames_offset() + slot * COLL_CHUNK_BYTES;
}

static void ring(shm_doorbell *doorbell)
{
    (void)atomic_fetch_add(&doorbell->rung, 1);
    (void)syscall(SYS_futex, &doorbell->rung, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Wakes a peer if it sleeps. Called after something was published that it may wait for. */
static inline void ring_if_asleep(const coll_comm *comm, int peer)
{
    const shm_context *context_shm = comm->context->shm;
    shm_doorbell *doorbell = context_shm->doorbells[comm->ranks[peer]];
    const uint32_t asleep = atomic_load(&doorbell->asleep);
    if (asleep != SHM_AWAKE) {
        ring(doorbell);
    }
    if (asleep == SHM_POLLING) {
        const uint64_t one = 1;
        (void)!write(context_shm->doorbell_fds[comm->ranks[peer]], &one, sizeof one);
    }
}

void coll_shm_wake_peers(coll_comm *comm)
{
    const shm_context *context_shm = comm->context->shm;
    for (int peer = 0; peer < comm->size; peer++) {
        if (peer != comm->rank && context_shm->doorbells[comm->ranks[peer]] != NULL) {
            ring_if_asleep(comm, peer);
        }
    }
}

void coll_shm_published(coll_comm *comm)
{
    bool failed = false;
    for (int peer = 0; peer < comm->size; peer++) {
        if (peer != comm->rank) {
            failed = failed || coll_shm_has_counted(comm, peer);
            ring_if_asleep(comm, peer);
        }
    }
    if (failed) {
        coll_shm_receive_failures(comm->context);
    }
}

void coll_shm_notify(coll_comm *comm)
{
    atomic_thread_fence(memory_order_seq_cst);
    coll_shm_published(comm);
}

static void *shm_send_begin(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    shm_comm *shm = comm->shm;
    const uint64_t sent = shm->sent[channel][peer];
    (void)size_bytes;
    if (sent - shm->sent_taken[channel][peer] >= COLL_STREAM_CREDITS) {
        const uint64_t taken = atomic_load(&shm->segments[peer]->taken[channel][comm->rank].value);
        if (sent - taken > COLL_STREAM_CREDITS) {
            (void)coll_comm_fail(comm, COLL_ERR_PEER, "rank %d took frames that were not sent",
                                 peer);
            return NULL;
        }
        shm->sent_taken[channel][peer] = taken;
        if (sent - taken >= COLL_STREAM_CREDITS) {
            return NULL;
        }
    }
    return frame_at(shm->segments[comm->rank], peer, channel, sent);
}

static void shm_send_end(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    shm_comm *shm = comm->shm;
    (void)size_bytes;
    (void)atomic_exchange(&shm->segments[comm->rank]->sent[channel][peer].value,
                          ++shm->sent[channel][peer]);
    ring_if_asleep(comm, peer);
}

static bool shm_has_taken(coll_comm *comm, int peer, int channel, uint64_t frames)
{
    const shm_comm *shm = comm->shm;
    return atomic_load(&shm->segments[peer]->taken[channel][comm->rank].value) >= frames;
}

static const void *shm_receive_begin(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    shm_comm *shm = comm->shm;
    const uint64_t taken = shm->taken[channel][peer];
    const uint64_t sent = atomic_load(&shm->segments[peer]->sent[channel][comm->rank].value);
    (void)size_bytes;
    if (sent == taken) {
        return NULL;
    }
    if (sent - taken > COLL_STREAM_CREDITS) {
        (void)coll_comm_fail(comm, COLL_ERR_PEER, "rank %d sent frames without credit", peer);
        return NULL;
    }
    return frame_at(shm->segments[peer], comm->rank, channel, taken);
}

static void shm_receive_end(coll_comm *comm, int peer, int channel)
{
    shm_comm *shm = comm->shm;
    (void)atomic_exchange(&shm->segments[comm->rank]->taken[channel][peer].value,
                          ++shm->taken[channel][peer]);
    ring_if_asleep(comm, peer);
}

void coll_shm_slumber(coll_context *context, shm_slumber how)
{
    const shm_context *context_shm = context->shm;
    if (context_shm->doorbells[context->rank] != NULL) {
        atomic_store(&context_shm->doorbells[context->rank]->asleep, (uint32_t)how);
        atomic_thread_fence(memory_order_seq_cst); /* flags are read with acquire, no more */
    }
}

static void shm_sleep(coll_context *context, bool (*changed)(coll_context *context),
                      int64_t until_ns)
{
    const shm_context *context_shm = context->shm;
    shm_doorbell *doorbell = context_shm->doorbells[context->rank];
    const uint32_t rung = atomic_load(&doorbell->rung);
    coll_shm_slumber(context, SHM_ASLEEP);
    if (!changed(context)) {
        const struct timespec until = base_deadline_timespec(until_ns);
        (void)syscall(SYS_futex, &doorbell->rung, FUTEX_WAIT_BITSET, rung, &until, NULL,
                      FUTEX_BITSET_MATCH_ANY);
    }
    atomic_store(&doorbell->asleep, SHM_AWAKE);
}

static void shm_wake(coll_context *context)
{
    const shm_context *context_shm = context->shm;
    ring(context_shm->doorbells[context->rank]);
}

/* Makes a rank's segment one of the communicator's. */
static void keep_segment(void *user, int rank, void *data)
{
    coll_comm *comm = user;
    shm_comm *shm = comm->shm;
    shm_context *context_shm = comm->context->shm;
    shm_segment *segment = data;
    shm->segments[rank] = segment;
    comm->peers[rank] = (coll_peer_view){.flags = segment->flags};
    comm->flags = rank == comm->rank ? segment->flags : comm->flags;
    if (context_shm->doorbells[comm->ranks[rank]] == NULL) {
        context_shm->doorbells[comm->ranks[rank]] = &segment->doorbell;
    }
}

coll_status coll_shm_tell_lack(coll_comm *comm, size_t size_bytes, int64_t deadline_ns,
                               coll_error *reterr)
{
    coll_fdpass_label label = coll_shm_label(comm, 0, coll_shm_segment_bytes(comm->size));
    const coll_shm_store store = {.keep = keep_segment, .user = comm};
    (void)snprintf(label.lack, sizeof label.lack, "no memory for a communicator (%zu bytes)",
                   size_bytes);
    return coll_shm_swap(comm, &label, &store, deadline_ns, reterr);
}

static coll_status shm_comm_open(coll_comm *comm, int64_t deadline_ns, coll_error *reterr)
{
    shm_comm *shm = calloc(1, sizeof *shm);
    coll_fdpass_label label = coll_shm_label(comm, 0, coll_shm_segment_bytes(comm->size));
    const coll_shm_store store = {.keep = keep_segment, .user = comm};
    comm->shm = shm;
    if (shm == NULL) {
        return coll_shm_tell_lack(comm, sizeof *shm, deadline_ns, reterr);
    }
    const coll_status status = coll_shm_swap(comm, &label, &store, deadline_ns, reterr);
    if (status == COLL_OK) {
        coll_shm_receive_failure(comm);
    }
    return status;
}

static void shm_comm_close(coll_comm *comm)
{
    shm_comm *shm = comm->shm;
    if (shm == NULL) {
        return;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        coll_segment_unmap(shm->segments[rank]);
    }
    free(shm);
    comm->shm = NULL;
}

static void keep_arena(void *user, int rank, void *data)
{
    coll_arena *arena = user;
    arena->peers[rank] = data;
    arena->data = rank == arena->comm->rank ? data : arena->data;
}

static coll_status shm_arena_open(coll_arena *arena, int64_t deadline_ns, coll_error *reterr)
{
    coll_fdpass_label label = coll_shm_label(arena->comm, arena->number, arena->mapped_bytes);
    const coll_shm_store store = {.keep = keep_arena, .user = arena};
    return coll_shm_swap(arena->comm, &label, &store, deadline_ns, reterr);
}

static void shm_arena_close(coll_arena *arena)
{
    for (int rank = 0; rank < arena->comm->size; rank++) {
        coll_segment_unmap(arena->peers[rank]);
    }
}

static coll_status shm_open(coll_context *context, const coll_context_options *options,
                            int64_t deadline_ns, coll_error *reterr)
{
    shm_context *context_shm = calloc(1, sizeof *context_shm);
    coll_status status = COLL_OK;
    if (context_shm == NULL) {
        status = coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a context (%zu bytes)",
                           sizeof *context_shm);
    }
    for (int rank = 0; context_shm != NULL && rank < COLL_RANKS_MAX; rank++) {
        context_shm->doorbell_fds[rank] = -1;
    }
    context->shm = context_shm;
    return coll_fdpass_open(context, options, deadline_ns, status, reterr);
}

static void shm_close(coll_context *context)
{
    coll_fdpass_close(context);
    free(context->shm);
    context->shm = NULL;
}

static const coll_memory_table shm_memory = {
    .advance = coll_shm_advance,
    .run = coll_shm_run,
    .propagate_failure = coll_shm_propagate_failure,
    .confirm_reads = coll_shm_confirm_reads,
    .has_taken = shm_has_taken,
};

static const coll_notice_table shm_notices = {
    .send_failure = coll_shm_send_failure,
    .finalize = coll_shm_finalize,
    .watch = coll_shm_watch,
    .show_waits = coll_shm_show_waits,
    .waits_of = coll_shm_waits_of,
};

static const coll_sleep_table shm_sleep_table = {.sleep = shm_sleep, .wake = shm_wake};

const coll_transport_table coll_shm_transport = {
    .memory = &shm_memory,
    .notices = &shm_notices,
    .sleep = &shm_sleep_table,
    .open = shm_open,
    .close = shm_close,
    .comm_open = shm_comm_open,
    .comm_close = shm_comm_close,
    .arena_open = shm_arena_open,
    .arena_close = shm_arena_close,
    .post = coll_shm_post,
    .may_post = coll_shm_may_post,
    .awaits = coll_shm_awaits,
    .send_begin = shm_send_begin,
    .send_end = shm_send_end,
    .receive_begin = shm_receive_begin,
    .receive_end = shm_receive_end,
};
