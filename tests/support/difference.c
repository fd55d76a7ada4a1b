/* How far values are from what they should be: for tests that compare results with a reference. */
#include "difference.h"

#include <math.h>

#include "support.h"

double test_worse(double worst, double difference)
{
    return isnan(worst) || difference <= worst ? worst : difference;
}

double test_worst_difference(const float *got, const float *expected, size_t count, size_t stride)
{
    double worst = 0.0;
    for (size_t i = 0; i < count; i++) {
        worst = test_worse(worst, fabs((double)got[i * stride] - (double)expected[i]));
    }
    return worst;
}

double test_largest(const float *values, size_t count)
{
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double value = fabs((double)values[i]);
        largest = value > largest ? value : largest;
    }
    return largest;
}

void test_check_close(const char *what, const float *got, const float *expected, size_t count,
                      double tolerance)
{
    const double worst = test_worst_difference(got, expected, count, 1);
    const double largest = test_largest(expected, count);
    if (!(worst <= tolerance * largest)) {
        fail_msg("%s: off by %g, largest %g", what, worst, largest);
    }
}
