/* Computes the times of an answer. Called by results.c and baseline.c. */
#include "generate/timing.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/percentile.h"

static double to_ms(int64_t ns)
{
    return (double)ns / (double)BASE_NS_PER_MS;
}

/* FNV-1a, cut to what a double holds exactly. */
static double digest_of(const int32_t *tokens, size_t count)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        digest = (digest ^ (uint32_t)tokens[i]) * UINT64_C(0x100000001b3);
    }
    return (double)(digest >> 11);
}

base_status rank_timing_of(const rank_answer *answer, rank_timing *timing, base_error *reterr)
{
    const size_t drawn = answer->drawn_count;
    *timing =
        (rank_timing){.drawn = (double)drawn, .digest = digest_of(answer->tokens, answer->count)};
    if (drawn > 0) {
        timing->ttft_ms = to_ms(answer->drawn_ns[0] - answer->began_ns);
    }
    if (drawn < 2) {
        return BASE_OK;
    }
    double *each = malloc((drawn - 1) * sizeof *each);
    if (each == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the times of %zu tokens", drawn);
    }
    for (size_t i = 0; i + 1 < drawn; i++) {
        each[i] = to_ms(answer->drawn_ns[i + 1] - answer->drawn_ns[i]);
    }
    base_sort(each, drawn - 1);
    timing->mean_ms =
        to_ms(answer->drawn_ns[drawn - 1] - answer->drawn_ns[0]) / (double)(drawn - 1);
    timing->p50_ms = base_percentile(each, drawn - 1, 0.50);
    timing->p95_ms = base_percentile(each, drawn - 1, 0.95);
    timing->p99_ms = base_percentile(each, drawn - 1, 0.99);
    free(each);
    return BASE_OK;
}

double rank_timing_per_token_ms(const rank_timing *timings, size_t count)
{
    double sum_ms = 0.0;
    double tokens = 0.0;
    for (size_t i = 0; i < count; i++) {
        if (timings[i].drawn >= 2) {
            sum_ms += timings[i].mean_ms * (timings[i].drawn - 1);
            tokens += timings[i].drawn - 1;
        }
    }
    return tokens > 0 ? sum_ms / tokens : (double)NAN;
}
