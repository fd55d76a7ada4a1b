/* The trace of a job's last steps, as --trace asks for it: made before the steps, and written into OUT behind them. */
#ifndef RANK_WORKER_TRACED_H
#define RANK_WORKER_TRACED_H

#include "backend/profile.h"
#include "trace/trace.h"
#include "worker/worker.h"

typedef struct rank_traced {
    rank_trace *trace; /* NULL: none is wanted */
    rank_profile profile;
} rank_traced;

/* With `operations` those of the queue become spans from now on: a step of a small model that decodes is too short for
 * that. The storage stays where it is until end. */
BASE_MUST_CHECK base_status rank_traced_begin(const rank_worker *worker, const rank_device *device,
                                              bool operations, rank_traced *traced,
                                              base_error *reterr);

/* Collective over all ranks, behind the last step: rank 0 writes the trace into OUT. */
BASE_MUST_CHECK base_status rank_traced_write(const rank_worker *worker, const rank_traced *traced,
                                              base_error *reterr);

/* The queue is as it was. Also after a failure. */
void rank_traced_end(rank_traced *traced, const rank_device *device);

#endif
