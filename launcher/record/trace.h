/* A job's trace.json (docs/RECORD.md), as the report needs it: the spans of one step.
 *
 * Rank 0 has written the file. It is not trusted: what cannot be drawn is left out, and all is bounded. */
#ifndef LAUNCH_TRACE_H
#define LAUNCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/job.h"

enum {
    LAUNCH_TRACE_NAME_BYTES = 64,
    LAUNCH_TRACE_SPANS_MAX = 1 << 18,
    LAUNCH_TRACE_HOSTS_MAX = 64,
    LAUNCH_TRACE_HOST_BYTES = 64,
};

typedef enum launch_trace_category {
    LAUNCH_TRACE_STEP,
    LAUNCH_TRACE_FORWARD,
    LAUNCH_TRACE_BACKWARD,
    LAUNCH_TRACE_WEIGHTS, /* the second pass of a split backward */
    LAUNCH_TRACE_LAYER,
    LAUNCH_TRACE_EMBEDDING, /* parts of a step of decoding, as the next five */
    LAUNCH_TRACE_ATTENTION,
    LAUNCH_TRACE_MLP,
    LAUNCH_TRACE_OUTPUT,
    LAUNCH_TRACE_DRAFT,
    LAUNCH_TRACE_DRAW,
    LAUNCH_TRACE_OVERLAPPED,
    LAUNCH_TRACE_WAITING,
    LAUNCH_TRACE_EXCHANGE,
    LAUNCH_TRACE_OPTIMIZER,
    LAUNCH_TRACE_NEWTON_SCHULZ, /* in the optimizer, of Muon */
    LAUNCH_TRACE_OTHER,
    LAUNCH_TRACE_CATEGORIES,
} launch_trace_category;

typedef struct launch_trace_span {
    double begin_ms; /* from the step's begin on */
    double end_ms;
    int64_t step;
    int64_t micro_batch; /* -1, as the next one: none */
    int64_t bucket;
    int64_t layer;
    int64_t tokens; /* 0: none; of forward those computed, else those drawn; */
    int64_t
        drafted;   /* and of the ones that were drafted, of the others that were drafted rightly */
    int64_t bytes; /* 0: none, or not known */
    int rank;
    int lane; /* 0: the rank's thread; then those of exchanges */
    launch_trace_category category;
    char name[LAUNCH_TRACE_NAME_BYTES];
} launch_trace_span;

/* A host's clock against that of rank 0's host. */
typedef struct launch_trace_clock {
    char host[LAUNCH_TRACE_HOST_BYTES];
    bool known; /* false: its ranks are not in the trace */
    double uncertainty_ms;
} launch_trace_clock;

typedef struct launch_trace {
    launch_trace_span
        *spans; /* of the chosen step, by rank, lane and begin; operations are left out */
    size_t count;
    int64_t step;    /* the chosen one: of median length among those in the file */
    int steps;       /* in the file */
    bool whole;      /* false: only a part of the step was kept */
    bool operations; /* the file has all of its operations */
    int clock_count;
    launch_trace_clock clocks[LAUNCH_TRACE_HOSTS_MAX];
} launch_trace;

/* Reads directory/trace.json. BASE_ERR_NOTFOUND: there is none. BASE_ERR_INVALID: it is none of ours. On success the
 * caller calls fini. */
BASE_MUST_CHECK base_status launch_trace_read(const char *directory, int world_size,
                                              launch_trace *trace, base_error *reterr);

/* The same of a job that is to have one. Returns `trace`; NULL: there is none that can be drawn, and what is wrong with
 * the file is logged. The caller calls fini in every case. */
const launch_trace *launch_trace_find(const char *directory, const proto_job *job,
                                      launch_trace *trace);
void launch_trace_fini(launch_trace *trace);

#endif
