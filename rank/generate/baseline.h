/* --baseline: the prompts of a shared model once more, on one rank alone, and dealt out to ranks
 * that each have the whole model. One phase loads after the other has gone. */
#ifndef RANK_GENERATE_BASELINE_H
#define RANK_GENERATE_BASELINE_H

#include "generate/timing.h"
#include "worker/worker.h"

/* One way to answer all prompts. */
typedef struct rank_phase {
    rank_timing *timings; /* (count of prompts) */
    double tokens;        /* drawn, warm-up excluded */
    double seconds;       /* in steps, warm-up excluded; of the slowest rank */
} rank_phase;

typedef struct rank_baseline {
    rank_phase single;
    rank_phase replicas;
    char reason[BASE_ERROR_MESSAGE_BYTES]; /* why there is neither; empty: there is */
} rank_baseline;

/* Whether `copies` whole models fit into the memory that is free on this host. The reason says what
 * is missing. Pure. */
bool rank_baseline_fits(uint64_t model_bytes, int copies, uint64_t free_bytes,
                        char reason[BASE_ERROR_MESSAGE_BYTES]);

/* Collective over options->comm, which has at least one rank. prompts: all of the job, on every
 * rank. The result is rank 0's; other ranks have timings of their own only. Freed with fini. */
BASE_MUST_CHECK base_status rank_baseline_run(const rank_generate_options *options,
                                              const char *const *prompts, size_t count,
                                              rank_baseline *baseline, base_error *reterr);
void rank_baseline_fini(rank_baseline *baseline);

#endif
