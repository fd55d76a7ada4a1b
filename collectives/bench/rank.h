/* One rank of coll-bench, from its context to its last row. */
#ifndef COLL_BENCH_RANK_H
#define COLL_BENCH_RANK_H

#include "bench.h"
#include "bench/on_device.h"

typedef struct bench_job {
    const bench_options *options;
    const bench_roofline *roofline; /* NULL: of the host, and the job is on GPUs */
    bench_shared *shared;
    const bench_device *device; /* NULL: on CPUs */
} bench_job;

/* Collective: measures everything on the context's world; rank 0 prints. */
COLL_MUST_CHECK coll_status bench_rank_work(const bench_job *job, coll_context *context,
                                            coll_error *reterr);

/* A forked_body whose user is a bench_job; rank 0 prints. */
int bench_rank(forked_rank *rank, void *user);

#endif
