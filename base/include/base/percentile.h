/* Order statistics. Pure. */
#ifndef BASE_PERCENTILE_H
#define BASE_PERCENTILE_H

#include <stddef.h>

/* Sorts ascending. No value may be NaN. */
void base_sort(double *values, size_t count);

/* The value at fraction (0 … 1) of count ascending values, by linear interpolation between the two
 * closest ones: position fraction × (count - 1). Hyndman and Fan's type 7, NumPy's default. NaN for
 * count 0. */
double base_percentile(const double *sorted, size_t count, double fraction);

#endif
