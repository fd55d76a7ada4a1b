/* Backends of libcoll: collectives on devices (NCCL on GPUs), behind the operations of coll.h.
 *
 * A backend is a table of functions that a program puts into its context's options. There is no
 * registry and no global: libcoll itself loads no backend, and knows none. An operation whose
 * descriptor has a stream goes to the backend: its buffers are device memory, it is enqueued on the
 * stream, and the backend moves the bytes. All else goes as without a backend, over the context's
 * CPU transport; that is also the control plane of operations on streams:
 *
 * - coll_op_create with a stream is collective. The ranks compare their descriptors; a mismatch is
 *   an error that names both sides, before the device sees anything.
 * - coll_op_start enqueues the operation. On a stream that is being captured it becomes part of the
 *   graph instead, and the ranks compare which operation that is. (The comparison is a CPU barrier.)
 * - Waits have libcoll's deadlines. A rank that waits for its device goes on listening to its peers.
 *   When one rank fails, it tells the others, and every rank aborts the backend's communicator in a
 *   thread of its own, while the owner goes on: it destroys its graphs, and then asks
 *   coll_device_ended whether the abort has returned.
 * - The flight record has how many operations the device has begun and ended.
 *
 * Calls on one communicator's stream operations come in the same order on all ranks. One-shot
 * operations (coll_start, coll_run) take no stream.
 *
 * Threads: as in coll.h, but for coll_device_progress and coll_device_busy_ns, which any thread may
 * call. Of the table,
 * `progress` may be called from any thread, `abort` and `close` from a thread of libcoll's, while
 * the owner calls nothing else of that communicator. No function may wait for a peer, but abort and
 * close, and `open` inside the exchange that it is given. */
#ifndef COLL_BACKEND_H
#define COLL_BACKEND_H

#include "coll/coll.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
    COLL_BACKEND_ABI = 2,
    COLL_DEVICE_ABORT_SECONDS = 5, /* coll_device_ended waits as long for an abort */
};

/* A member of the sets below: COLL_BIT(COLL_ALL_REDUCE) | COLL_BIT(COLL_BROADCAST). */
#define COLL_BIT(value) (UINT32_C(1) << (unsigned)(value))

typedef struct coll_backend_open_args {
    size_t size; /* sizeof(coll_backend_open_args) */
    int rank;    /* in the communicator */
    int rank_count;
    coll_exchange exchange; /* among the communicator's ranks; for `open` only */
    void *exchange_user;
    int64_t deadline_ns;
    void *user; /* coll_context_options.backend_user */
} coll_backend_open_args;

struct coll_backend {
    size_t size;      /* sizeof(coll_backend) */
    uint32_t abi;     /* COLL_BACKEND_ABI */
    const char *name; /* in messages: "nccl" */
    uint32_t kinds;   /* what it can do: sets of COLL_BIT(coll_kind), */
    uint32_t types;   /* coll_type */
    uint32_t reduces; /* and coll_reduce_op */

    /* Begins a communicator. The others' records come through the exchange. Not ready yet: poll. */
    coll_status (*open)(const coll_backend_open_args *args, void **comm, coll_error *reterr);
    /* Whether what was begun last (open, op_make, start, group) is with the device now; until then
     * nothing else is asked. An error that came up since, on the device too, is the status. */
    coll_status (*poll)(void *comm, bool *ready, coll_error *reterr);
    /* Makes an operation, and does it once on memory of the backend's own, so that all connections
     * are there: `test` tells when that has ended. desc->algorithm is DIRECT or NATIVE. What *op is
     * set to goes to op_free, also after a failure. */
    coll_status (*op_make)(void *comm, const coll_op_desc *desc, void **op, coll_error *reterr);
    /* What is started between begin and end is launched together. */
    coll_status (*group)(void *comm, bool begin, coll_error *reterr);
    /* Enqueues the operation on the stream of its descriptor, or *captured: adds it to the graph.
     * `sequence` counts this communicator's operations that were enqueued, from 1. */
    coll_status (*start)(void *op, uint64_t sequence, bool *captured, coll_error *reterr);
    /* Whether the operation has ended on the device since it was started last. */
    coll_status (*test)(void *op, bool *done, coll_error *reterr);
    /* Whether all that was enqueued on the stream has ended. */
    coll_status (*idle)(void *comm, void *stream, bool *done, coll_error *reterr);
    void (*op_free)(void *op);
    /* Operations that the device has begun and ended, those of graphs included. Any thread. Zeros
     * on one rank, where the backend has nothing to do that could be waited for. */
    void (*progress)(const void *comm, uint64_t *started, uint64_t *finished);
    /* By the device's clock: how long operations that have ended were on the device, those of graphs
     * included. Where several were at once, the time counts once. Any thread. */
    uint64_t (*busy_ns)(const void *comm);
    /* Ends the communicator at once, whatever is under way. */
    void (*abort)(void *comm);
    /* Ends it when what is under way has ended, by the deadline. */
    coll_status (*close)(void *comm, int64_t deadline_ns, coll_error *reterr);
    /* Frees what is left after abort or close have returned. */
    void (*release)(void *comm);
    /* Memory of the device, as its collectives like it best. */
    coll_status (*alloc)(void *comm, size_t size_bytes, void **memory, coll_error *reterr);
    void (*free)(void *comm, void *memory);
};

/* Collective: opens the backend's communicator of comm now. Otherwise the first operation on a
 * stream does. Open already: returns at once, on every rank. COLL_ERR_UNSUPPORTED: the context has
 * no backend. Also what the backend returns; then comm has failed on every rank. */
COLL_MUST_CHECK coll_status coll_device_open(coll_comm *comm, coll_error *reterr);

/* Operations on streams of comm that are started between these two are launched together. Those are
 * not waited for or tested before the end, and none is made between the two. COLL_ERR_STATE: begun
 * already, or not begun. */
COLL_MUST_CHECK coll_status coll_group_begin(coll_comm *comm, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_group_end(coll_comm *comm, coll_error *reterr);

/* Waits until all that was enqueued on the stream has ended, graphs included, and listens to peers
 * meanwhile. The context's timeout counts from here. Statuses as of coll_op_wait. */
COLL_MUST_CHECK coll_status coll_device_wait(coll_comm *comm, void *stream, coll_error *reterr);

/* Device memory of comm's backend, which is open. Freed before comm is destroyed. */
COLL_MUST_CHECK coll_status coll_device_alloc(coll_comm *comm, size_t size_bytes, void **memory,
                                              coll_error *reterr);
void coll_device_free(coll_comm *comm, void *memory);

/* After comm has failed, and the caller has destroyed its graphs: waits until the backend's abort
 * has returned, for COLL_DEVICE_ABORT_SECONDS after the failure at most. COLL_ERR_TIMEOUT: it has
 * not. Then nothing of the device can be relied on any more, nor can the process end in the usual
 * way: report, and let the process be killed. COLL_OK at once where there is nothing to end. */
COLL_MUST_CHECK coll_status coll_device_ended(coll_comm *comm, coll_error *reterr);

/* Operations on streams of comm that the device has begun and ended. Zeros: none, no backend, or one
 * rank. Any thread, as long as comm lives. */
void coll_device_progress(const coll_comm *comm, uint64_t *started, uint64_t *finished);

/* How long operations on streams of comm were on the device until now, by its own clock: with their
 * waiting for peers, and what was at once counts once. 0: none, no backend, one rank, or comm has failed. */
uint64_t coll_device_busy_ns(const coll_comm *comm);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
