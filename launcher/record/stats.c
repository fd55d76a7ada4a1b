/* Mean and percentiles of an array, and shares in percent. Called by summary.c, job/progress.c
 * and the pages. */
#include "record/stats.h"

#include <math.h>

#include "base/percentile.h"

launch_spread launch_spread_of(double *values, size_t count)
{
    double sum = 0;
    if (count == 0) {
        return (launch_spread){NAN, NAN, NAN};
    }
    base_sort(values, count);
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return (launch_spread){
        .mean = sum / (double)count,
        .p50 = base_percentile(values, count, 0.5),
        .p95 = base_percentile(values, count, 0.95),
    };
}

double launch_share_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}
