#include "record/stats.h"

#include <math.h>
#include <stdlib.h>

double launch_percentile(const double *sorted, size_t count, double fraction)
{
    if (count == 0) {
        return NAN;
    }
    const double position = fraction * (double)(count - 1);
    const size_t below = (size_t)position;
    const size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (position - (double)below);
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

launch_spread launch_spread_of(double *values, size_t count)
{
    double sum = 0;
    if (count == 0) {
        return (launch_spread){NAN, NAN, NAN};
    }
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return (launch_spread){
        .mean = sum / (double)count,
        .p50 = launch_percentile(values, count, 0.5),
        .p95 = launch_percentile(values, count, 0.95),
    };
}

double launch_share_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}
