/* Sorting and percentiles of times and figures. Called for records (launcher/record) and by the
 * benchmarks. */
#include "base/percentile.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

void base_sort(double *values, size_t count)
{
    if (count > 0) {
        qsort(values, count, sizeof *values, by_value);
    }
}

double base_percentile(const double *sorted, size_t count, double fraction)
{
    if (count == 0) {
        return NAN;
    }
    const double position = fraction * (double)(count - 1);
    const size_t below = (size_t)position;
    const size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (position - (double)below);
}
