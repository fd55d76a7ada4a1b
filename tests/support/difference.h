/* How far values are from what they should be. A difference that is NaN is the worst, whatever
 * follows it, so that `worst <= tolerance` is false. */
#ifndef TEST_DIFFERENCE_H
#define TEST_DIFFERENCE_H

#include <stddef.h>

/* The larger one of both; NaN if one is. */
double test_worse(double worst, double difference);

/* The largest |got[i * stride] - expected[i]| of `count` values. */
double test_worst_difference(const float *got, const float *expected, size_t count, size_t stride);

/* The largest |values[i]|, without those that are NaN. */
double test_largest(const float *values, size_t count);

/* Fails the test unless no difference exceeds `tolerance` times the largest |expected[i]|. */
void test_check_close(const char *what, const float *got, const float *expected, size_t count,
                      double tolerance);

#endif
