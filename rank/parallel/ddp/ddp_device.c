/* The all-reduces of a step on a device: operations on a queue of their own, each behind the signal
 * that backward sets when the bucket is full. Called by ddp.c. */
#include "coll/backend.h"
#include "parallel/ddp/ddp_parts.h"
#include "ringfence/coll_error.h"

bool rank_ddp_on_device(const rank_ddp *ddp)
{
    return ddp->reduces != ddp->device.queue;
}

void *rank_ddp_stream(const rank_ddp *ddp)
{
    return ddp->device.backend->stream(ddp->reduces);
}

static base_status open_clock(rank_ddp *ddp, base_error *reterr)
{
    rank_ddp_clock *clock = &ddp->clock;
    rank_signal **const signals[] = {&clock->begun, &clock->computed, &clock->reducing,
                                     &clock->reduced};
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof signals / sizeof *signals; i++) {
        status = ddp->device.backend->signal_open(ddp->device.queue, true, signals[i], reterr);
    }
    return status;
}

/* Of all waits for the queue, also of the backend's own: has the deadline, and hears peers. */
static base_status wait_for_reduces(void *user, rank_queue *queue, base_error *reterr)
{
    const rank_ddp *ddp = user;
    (void)queue; /* the one of the stream */
    return (base_status)coll_device_wait(ddp->comm, rank_ddp_stream(ddp), coll_error_of(reterr));
}

base_status rank_ddp_open_device(rank_ddp *ddp, size_t size_bytes, base_error *reterr)
{
    void *memory = NULL;
    ddp->reduces = ddp->device.queue;
    const base_status opened = ddp->device.backend->open(&ddp->reduces, reterr);
    if (opened != BASE_OK) {
        ddp->reduces = ddp->device.queue;
        return opened;
    }
    const base_status timed = open_clock(ddp, reterr);
    if (timed != BASE_OK) {
        return timed;
    }
    coll_status status = coll_device_open(ddp->comm, coll_error_of(reterr));
    if (status == COLL_OK) {
        ddp->device.backend->set_waiter(ddp->reduces, wait_for_reduces, ddp);
        status = coll_device_alloc(ddp->comm, size_bytes, &memory, coll_error_of(reterr));
    }
    ddp->levels[0] = memory;
    return (base_status)status;
}

void rank_ddp_close_device(rank_ddp *ddp)
{
    const rank_backend *backend = ddp->device.backend;
    if (rank_ddp_on_device(ddp)) {
        backend->signal_close(ddp->clock.begun);
        backend->signal_close(ddp->clock.computed);
        backend->signal_close(ddp->clock.reducing);
        backend->signal_close(ddp->clock.reduced);
        backend->close(ddp->reduces);
    }
}

void rank_ddp_signal_full(rank_ddp *ddp)
{
    const rank_device *device = &ddp->device;
    while (ddp->started_count < ddp->bucket_count &&
           ddp->buckets[ddp->started_count].missing == 0) {
        device->backend->signal_set(device->queue, ddp->buckets[ddp->started_count].full);
        ddp->started_count++;
    }
}

/* The all-reduces of a step, each after its bucket's signal: a rank_graph_work's. */
static void enqueue_reduces(void *user)
{
    rank_ddp *ddp = user;
    for (size_t i = 0; ddp->failed == BASE_OK && i < ddp->bucket_count; i++) {
        ddp->device.backend->signal_await(ddp->reduces, ddp->buckets[i].full);
        rank_ddp_keep(
            ddp, (base_status)coll_op_start(ddp->buckets[i].op.op, coll_error_of(&ddp->error)));
    }
}

/* A graph with operations of NCCL is one of all ranks: none has it unless all have. */
static bool all_capture(void *user, bool mine)
{
    rank_ddp *ddp = user;
    double missing = mine ? 0.0 : 1.0;
    if (ddp->failed == BASE_OK) {
        rank_ddp_keep(ddp,
                      (base_status)coll_all_reduce(ddp->comm, &missing, &missing, 1, COLL_FLOAT64,
                                                   COLL_SUM, coll_error_of(&ddp->error)));
    }
    return ddp->failed == BASE_OK && missing == 0.0;
}

void rank_ddp_reduce_on_device(rank_ddp *ddp)
{
    const rank_backend *backend = ddp->device.backend;
    if (ddp->failed == BASE_OK && ddp->started_count == ddp->bucket_count) {
        backend->signal_set(ddp->reduces, ddp->clock.reducing);
        (void)rank_graphs_do(ddp->graphs, &(rank_graph_work){.key = {{RANK_GRAPH_REDUCE}},
                                                             .queue = ddp->reduces,
                                                             .enqueue = enqueue_reduces,
                                                             .all = all_capture,
                                                             .user = ddp});
        backend->signal_set(ddp->reduces, ddp->clock.reduced);
    }
    ddp->reducing = true;
}

bool rank_ddp_follow(rank_ddp *ddp)
{
    const rank_backend *backend = ddp->device.backend;
    if (!rank_ddp_on_device(ddp) || !ddp->reducing || ddp->failed != BASE_OK ||
        ddp->started_count != ddp->bucket_count) {
        return false;
    }
    backend->after(ddp->device.queue, backend->mark(ddp->reduces));
    return true;
}

void rank_ddp_finish_on_device(rank_ddp *ddp)
{
    if (!ddp->reducing) {
        rank_ddp_reduce_on_device(ddp);
    }
    if (ddp->failed == BASE_OK) {
        rank_ddp_keep(ddp, ddp->device.backend->sync(ddp->reduces, &ddp->error));
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* All-reduces are exposed from the end of backward on, or from their own begin if that is later, as
 * with `bracketed`. How long they ran in all comes from the collectives, which read the device's
 * clock another way, so the two may differ by a little: what is hidden is a part of compute. */
void rank_ddp_take_device_times(rank_ddp *ddp, rank_ddp_times *times)
{
    const rank_backend *backend = ddp->device.backend;
    const rank_ddp_clock *clock = &ddp->clock;
    const uint64_t busy_ns = coll_device_busy_ns(ddp->comm);
    const int64_t reduces_ns = busy_ns > ddp->busy_ns ? (int64_t)(busy_ns - ddp->busy_ns) : 0;
    const int64_t exposed_ns = least(backend->signal_elapsed_ns(clock->computed, clock->reduced),
                                     backend->signal_elapsed_ns(clock->reducing, clock->reduced));
    ddp->busy_ns = busy_ns;
    times->by_device = true;
    times->compute_ns = most(backend->signal_elapsed_ns(clock->begun, clock->computed), 0);
    times->allreduce_exposed_ns = most(exposed_ns, 0);
    times->allreduce_ns = least(most(reduces_ns, times->allreduce_exposed_ns),
                                times->allreduce_exposed_ns + times->compute_ns);
}
