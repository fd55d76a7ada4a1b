/* How often something is measured, and what its rounds say together. Short work is measured more
 * often: one round of a few milliseconds says little. Used by baseline.c and curve_run.c. Pure, plain
 * data. */
#ifndef RANK_GENERATE_ROUNDS_H
#define RANK_GENERATE_ROUNDS_H

#include <stdbool.h>

enum { RANK_ROUNDS_MIN = 3, RANK_ROUNDS_MAX = 50 };

/* Of some rounds. NaN, all three: nothing was measured. */
typedef struct rank_spread {
    double median;
    double
        low; /* a tenth of the rounds is below it, and a tenth above high, by interpolation: of */
    double high; /* many rounds no single stall counts */
} rank_spread;

/* Rounds that are not finite do not count. At most RANK_ROUNDS_MAX. */
rank_spread rank_spread_of(const double *rounds, int count);

/* Whether another round is worth its time: there are fewer than RANK_ROUNDS_MIN, or less than half a
 * second was timed in all, of what took least. But none begins elapsed_limit_s after the first one
 * did, and there are RANK_ROUNDS_MAX at most. */
bool rank_rounds_go_on(int count, double timed_s, double elapsed_s, double elapsed_limit_s);

#endif
