/* The arithmetic of rounds. Called by baseline.c and curve_run.c, which measure. */
#include "generate/rounds.h"

#include <math.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/percentile.h"

static const double TIMED_S = 0.5;
static const double LOW = 0.1;
static const double HIGH = 0.9;

rank_spread rank_spread_of(const double *rounds, int count)
{
    double known[RANK_ROUNDS_MAX];
    size_t known_count = 0;
    BASE_ASSERT(count <= RANK_ROUNDS_MAX);
    for (int i = 0; i < count; i++) {
        if (isfinite(rounds[i])) {
            known[known_count++] = rounds[i];
        }
    }
    base_sort(known, known_count);
    return (rank_spread){.median = base_percentile(known, known_count, 0.5),
                         .low = base_percentile(known, known_count, LOW),
                         .high = base_percentile(known, known_count, HIGH)};
}

bool rank_rounds_go_on(int count, double timed_s, double elapsed_s, double elapsed_limit_s)
{
    return count < RANK_ROUNDS_MAX && elapsed_s < elapsed_limit_s &&
           (count < RANK_ROUNDS_MIN || timed_s < TIMED_S);
}
