/* What a mode of the rank program gets: the rank, its launcher and its peers. */
#ifndef RANK_WORKER_WORKER_H
#define RANK_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/cuda/plugin.h"
#include "coll/coll.h"
#include "coll/nccl.h"
#include "plugin/near.h"
#include "plugin/plugin.h"
#include "proto/client.h"
#include "rank/gate.h"

/* The GPU of a rank in a mode on GPUs. */
typedef struct rank_gpu {
    rank_plugin plugin;
    rank_gpu_info info;
    rank_near near; /* the CPUs and the memory near it */
    coll_nccl_options collectives;
    void *stream; /* of the queue that was opened last; NULL: none was */
} rank_gpu;

/* The program (src/run.c) makes it, and the modes borrow it. */
typedef struct rank_worker {
    proto_identity identity;
    proto_client *client;
    coll_context *context; /* NULL for a single rank that generates */
    int64_t started_ns;    /* when the process started, monotonic */
    uint64_t step;         /* for failure reports */
    bool reports;          /* joining has begun, so failures are reported to the launcher */
    bool joined;
    rank_pass *pass; /* of a mode that may cost money; else NULL */
    rank_gpu *gpu;   /* NULL: the rank computes on CPUs */
    int exit_code;   /* the process's, after a failure */
    int unreached;   /* a rank that it could not be connected to; -1: none */
} rank_worker;

/* A should_stop for generating and evaluating: whether the launcher has asked for a stop. user: the
 * worker. */
bool rank_worker_should_stop(void *user);

/* Opens a queue on what the job computes on: its GPU's backend, or the CPU's. Waits for a GPU's queue
 * have libcoll's deadline, and listen to the peers. */
BASE_MUST_CHECK base_status rank_worker_open_device(rank_worker *worker, rank_device *device,
                                                    base_error *reterr);

/* Tells the launcher why this rank fails. */
void rank_worker_report_failure(const rank_worker *worker, base_status status,
                                const base_error *error);

/* After a failure, once the caller has destroyed its graphs, and before it releases what is on the
 * device: waits until no collective is on the device any more, and the queue's operations have
 * ended. If that does not end, reports, and ends the process, because releasing memory would wait
 * for ever. user: the worker. */
void rank_worker_leave_device(void *user, base_status status, const base_error *error);

/* Peak resident memory of this process in bytes. */
uint64_t rank_worker_max_rss_bytes(void);

#endif
