/* --baseline: answers the prompts of a tensor-parallel run again, first on one rank alone, then on all
 * ranks, each with the whole model and its share of the prompts. Then all three phases take turns
 * for some rounds more (generate/rounds.h), so that a change of the machine's speed meets each. A
 * phase loads its model after the one before has freed its own. */
#ifndef RANK_GENERATE_BASELINE_H
#define RANK_GENERATE_BASELINE_H

#include "generate/rounds.h"
#include "generate/timing.h"
#include "worker/worker.h"

/* All prompts answered once. */
typedef struct rank_pass {
    rank_timing *timings; /* (count of prompts) */
    double tokens;        /* drawn, warm-up excluded */
    double seconds;       /* in steps of the slowest rank, without warm-up */
} rank_pass;

/* The results of one phase. */
typedef struct rank_phase {
    rank_pass first; /* of the first round; a digest is NaN if a later one drew other tokens */
    double per_token_ms[RANK_ROUNDS_MAX]; /* (rounds), as the next */
    double tokens_per_s[RANK_ROUNDS_MAX];
    double timed_s; /* seconds of all rounds */
} rank_phase;

typedef struct rank_baseline {
    int rounds;    /* in which each phase ran; 0: there are no results */
    rank_phase tp; /* has no timings: the first pass is the caller's */
    rank_phase single;
    rank_phase replicas;
    char reason[BASE_ERROR_MESSAGE_BYTES]; /* why there are no results; empty: there are */
} rank_baseline;

/* Whether `copies` whole models fit into this host's free memory. The reason says what is missing.
 * Pure. */
bool rank_baseline_fits(uint64_t model_bytes, int copies, uint64_t free_bytes,
                        char reason[BASE_ERROR_MESSAGE_BYTES]);

/* Collective over options->comm. prompts: all of the job's, on every rank. first: this rank's report of
 * the tensor-parallel phase that has answered them, which is that phase's first round. Rank 0 has the
 * result; other ranks have only their own timings. Freed with fini. */
BASE_MUST_CHECK base_status rank_baseline_run(const rank_generate_options *options,
                                              const char *const *prompts, size_t count,
                                              const rank_generate_report *first,
                                              rank_baseline *baseline, base_error *reterr);
void rank_baseline_fini(rank_baseline *baseline);

#endif
