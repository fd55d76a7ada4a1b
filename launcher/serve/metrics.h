/* What GET /metrics says, as Prometheus reads it. Pure; the caller locks. */
#ifndef LAUNCH_METRICS_H
#define LAUNCH_METRICS_H

#include <stdint.h>

#include "base/buffer.h"

enum { LAUNCH_METRICS_BUCKETS = 12 };

typedef enum launch_outcome {
    LAUNCH_OUTCOME_STOP,      /* a stop token */
    LAUNCH_OUTCOME_LENGTH,    /* as many tokens as it may have */
    LAUNCH_OUTCOME_CANCELLED, /* its client has gone, or the server ends */
    LAUNCH_OUTCOME_REFUSED,   /* it cannot be answered */
    LAUNCH_OUTCOME_FULL,      /* too many wait: 429 */
    LAUNCH_OUTCOME_FAILED,    /* the job has failed */
    LAUNCH_OUTCOMES,
} launch_outcome;

typedef struct launch_histogram {
    uint64_t counts[LAUNCH_METRICS_BUCKETS + 1]; /* the last: above all bounds */
    uint64_t count;
    double sum_s;
} launch_histogram;

typedef struct launch_metrics {
    uint64_t requests[LAUNCH_OUTCOMES];
    uint64_t prompt_tokens;
    uint64_t cached_tokens; /* of them */
    uint64_t drawn;
    const char *draft_model;    /* the name of the model that drafts; NULL, "": there is none */
    uint64_t drafted;           /* tokens, */
    uint64_t accepted;          /* and of them those that saved a step */
    uint64_t preemptions;       /* of requests that have ended */
    launch_histogram first;     /* from the request to its first token */
    launch_histogram per_token; /* of the tokens after the first, the mean of a request */
} launch_metrics;

void launch_metrics_observe(launch_histogram *histogram, int64_t duration_ns);

/* running, waiting: requests now. */
void launch_metrics_write(const launch_metrics *metrics, int running, int waiting,
                          base_buffer *text);

#endif
