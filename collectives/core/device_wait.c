/* The one wait point for devices: asks the backend, moves the control plane on, listens to peers,
 * and holds the deadline. A turn that found nothing pauses, then yields, then sleeps for a moment:
 * a device cannot wake this thread, but a peer's failure notice does. Called by device_op.c. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "core/device.h"
#include "core/device_op.h"
#include "core/failure.h"
#include "core/progress.h"
#include "core/report.h"
#include "core/wait.h"

#define PAUSE_NS        (50 * BASE_NS_PER_US)
#define YIELD_NS        (2 * BASE_NS_PER_MS)
#define SLEEP_NS        (200 * BASE_NS_PER_US)
#define STREAM_SLEEP_NS (20 * BASE_NS_PER_US) /* a step's end waits for it */

enum { LIST_BYTES = 400 };

typedef struct waiter {
    const coll_await *await;
    coll_comm *comm;
    int64_t began_ns;
    int64_t deadline_ns;
    bool shown; /* peers know that this rank waits */
    bool described;
} waiter;

/* Whether what is awaited has come. */
static coll_status ask(const coll_await *await, bool *done, coll_error *reterr)
{
    const coll_device *device = await->comm->device;
    bool ready = false;
    coll_status status = device->backend->poll(device->comm, &ready, reterr);
    *done = false;
    if (status != COLL_OK || !ready) {
        return status;
    }
    switch (await->what) {
    case COLL_AWAIT_READY:
        *done = true;
        break;
    case COLL_AWAIT_OP:
        status = device->backend->test(await->op->device->op, done, reterr);
        break;
    case COLL_AWAIT_STREAM:
        status = device->backend->idle(device->comm, await->stream, done, reterr);
        break;
    }
    return status;
}

static uint64_t all_peers(const coll_comm *comm)
{
    return UINT64_MAX >> (COLL_RANKS_MAX - comm->size) & ~(UINT64_C(1) << comm->rank);
}

/* Ranks that have not shown that they wait for anybody: they hold the others up. */
static uint64_t busy_peers(const coll_comm *comm)
{
    uint64_t busy = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        const bool waits = rank == comm->rank || comm->table->notices->waits_of(comm, rank) != 0;
        busy |= waits ? 0 : UINT64_C(1) << rank;
    }
    return busy;
}

static coll_status report_timeout(const waiter *w, coll_error *reterr)
{
    coll_comm *comm = w->comm;
    const coll_await *await = w->await;
    const double waited_s = (double)comm->context->timeout_ns / (double)BASE_NS_PER_S;
    char what[COLL_DESCRIBE_BYTES];
    char busy[LIST_BYTES];
    uint64_t started = 0;
    uint64_t finished = 0;
    if (await->op != NULL) {
        coll_operation_text(await->op, what, sizeof what);
    } else {
        (void)snprintf(what, sizeof what, "%s: %s", comm->context->backend->name, await->doing);
    }
    const uint64_t ranks = busy_peers(comm);
    coll_list_ranks(comm, ranks, busy, sizeof busy);
    coll_device_progress(comm, &started, &finished);
    (void)coll_comm_fail(
        comm, COLL_ERR_TIMEOUT,
        "%s: no end after %.3g s; this rank's device has begun %" PRIu64
        " operations and ended %" PRIu64 "; %s%s",
        what, waited_s, started, finished,
        ranks == 0 ? "all other ranks wait too" : "does not wait: ", ranks == 0 ? "" : busy);
    return coll_comm_check(comm, reterr);
}

/* Listens to failure notices, and with `peers` looks whether the next peer has gone. A peer may leave
 * as soon as its own part has ended, while this rank's device still works, so at first only notices
 * count. */
static void watch(const waiter *w, bool peers)
{
    coll_comm *comm = w->comm;
    coll_op *probe = comm->device->probe;
    if (comm->size == 1) {
        return;
    }
    int watched = comm->rank; /* itself never goes */
    if (peers) {
        watched = (probe->desc.root + 1) % comm->size;
        watched = watched == comm->rank ? (watched + 1) % comm->size : watched;
    }
    probe->desc.root = watched;
    if (w->await->op != NULL) {
        probe->descriptor = w->await->op->descriptor;
        probe->sequence = w->await->op->sequence;
        probe->total_bytes = w->await->op->total_bytes;
    }
    comm->table->notices->watch(probe);
}

static coll_status idle_turn(waiter *w, coll_error *reterr)
{
    coll_comm *comm = w->comm;
    coll_context *context = comm->context;
    const int64_t now_ns = base_now_ns();
    const int64_t soon_ns = coll_show_after_ns(context);
    if (now_ns >= w->deadline_ns) {
        return report_timeout(w, reterr);
    }
    const int64_t idle_ns = now_ns - w->began_ns;
    if (idle_ns < PAUSE_NS && context->spins > 0) {
        coll_pause();
        return COLL_OK;
    }
    if (idle_ns < YIELD_NS) {
        (void)sched_yield();
        return COLL_OK;
    }
    watch(w, idle_ns >= soon_ns);
    if (comm->failed) {
        return COLL_OK; /* the next turn says so */
    }
    if (w->await->op != NULL && !w->described) {
        coll_describe(context, w->await->op);
        w->described = true;
    }
    if (!w->shown && idle_ns >= soon_ns && comm->size > 1) {
        comm->table->notices->show_waits(comm, all_peers(comm));
        w->shown = true;
    }
    const int64_t sleep_ns = w->await->what == COLL_AWAIT_STREAM ? STREAM_SLEEP_NS : SLEEP_NS;
    const int64_t until_ns = now_ns + sleep_ns;
    context->table->sleep->sleep(context, coll_has_changed,
                                 until_ns < w->deadline_ns ? until_ns : w->deadline_ns);
    return COLL_OK;
}

coll_status coll_device_await(const coll_await *await, coll_error *reterr)
{
    coll_comm *comm = await->comm;
    waiter w = {.await = await, .comm = comm, .began_ns = base_now_ns()};
    coll_status status = COLL_OK;
    bool done = false;
    w.deadline_ns = base_deadline_after_ns(comm->context->timeout_ns);
    while (status == COLL_OK && !done) {
        coll_error error = {.message = ""};
        (void)coll_progress(comm->context);
        status = coll_comm_check(comm, reterr);
        if (status != COLL_OK) {
            break;
        }
        status = ask(await, &done, &error);
        if (status != COLL_OK) {
            status = coll_device_broken(comm, status, &error, reterr);
        } else if (!done) {
            status = idle_turn(&w, reterr);
        }
    }
    if (w.described) {
        coll_describe(comm->context, NULL);
    }
    if (w.shown && !comm->failed) {
        comm->table->notices->show_waits(comm, 0);
    }
    return status;
}
