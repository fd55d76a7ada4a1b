/* Order statistics. Pure. */
#ifndef LAUNCH_STATS_H
#define LAUNCH_STATS_H

#include <stddef.h>

typedef struct launch_spread {
    double mean; /* NaN, as the others: nothing was measured */
    double p50;
    double p95;
} launch_spread;

/* The value at fraction (0 … 1) of count ascending values, by linear interpolation between the two
 * closest ones: position fraction × (count - 1). Hyndman and Fan's type 7, NumPy's default. NaN for
 * count 0. */
double launch_percentile(const double *sorted, size_t count, double fraction);

/* Sorts the values (none of them NaN) in place and describes them. */
launch_spread launch_spread_of(double *values, size_t count);

/* part of whole in percent; 0 where the whole is not above 0. */
double launch_share_percent(double part, double whole);

#endif
