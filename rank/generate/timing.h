/* How long the answers to a job's prompts took, in numbers that ranks can add up. */
#ifndef RANK_GENERATE_TIMING_H
#define RANK_GENERATE_TIMING_H

#include "generate/generate.h"

/* Of one answer; all 0 if another rank has it. All are doubles, so that a sum over ranks merges
 * them. */
typedef struct rank_timing {
    double drawn;   /* tokens, with the stop token */
    double ttft_ms; /* from the step that begins the prompt to the first token */
    double
        mean_ms; /* of the tokens after the first, as are the next three; 0 with fewer than two */
    double p50_ms;
    double p95_ms;
    double p99_ms;
    double digest; /* of the tokens: equal tokens have equal digests */
} rank_timing;

enum { RANK_TIMING_DOUBLES = sizeof(rank_timing) / sizeof(double) };

/* BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_timing_of(const rank_answer *answer, rank_timing *timing,
                                           base_error *reterr);

/* The mean time of a token after the first, over all answers; NaN if there is none. */
double rank_timing_per_token_ms(const rank_timing *timings, size_t count);

#endif
