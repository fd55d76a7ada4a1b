/* Order statistics. Pure. */
#ifndef LAUNCH_STATS_H
#define LAUNCH_STATS_H

#include <stddef.h>

typedef struct launch_spread {
    double mean; /* NaN, as are the others, if nothing was measured */
    double p50;
    double p95;
} launch_spread;

/* Sorts the values (none of them NaN) in place and describes them. */
launch_spread launch_spread_of(double *values, size_t count);

/* part of whole in percent; 0 if the whole is not above 0. */
double launch_share_percent(double part, double whole);

#endif
