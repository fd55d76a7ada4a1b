/* exp and log whose bits are the same on every machine, compiler and instruction set: IEEE
 * additions, multiplications and divisions in a fixed order, no libm, no contraction (the build
 * says -ffp-contract=off). Both are within 2 units in the last place (test_noise.c). Kernels for GPUs
 * use them, too. */
#ifndef BASE_FIXED_MATH_H
#define BASE_FIXED_MATH_H

#include <stdint.h>
#include <string.h>

#include "base/device_function.h"

/* ln 2 in two parts: the upper one has 20 zero bits at its end,
 * so that multiples of it are exact */
#define BASE_LN2_HIGH 0x1.62e42feep-1
#define BASE_LN2_LOW  0x1.a39ef35793c76p-33

/* ln x, for x > 0 that is neither subnormal nor infinite. x = 2^e · m with m in [√½, √2), and
 * ln m = 2 · artanh(s) with s = (m − 1) / (m + 1): ten terms of its series, since s² < 0.0295. */
BASE_DEVICE_FUNCTION double base_fixed_log(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t mantissa = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m = 0;
    memcpy(&m, &mantissa, sizeof m);
    int e = (int)(bits >> 52) - 1023;
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    const double s = (m - 1) / (m + 1);
    const double z = s * s;
    double series = 1.0 / 21;
    series = series * z + 1.0 / 19;
    series = series * z + 1.0 / 17;
    series = series * z + 1.0 / 15;
    series = series * z + 1.0 / 13;
    series = series * z + 1.0 / 11;
    series = series * z + 1.0 / 9;
    series = series * z + 1.0 / 7;
    series = series * z + 1.0 / 5;
    series = series * z + 1.0 / 3;
    const double small = 2 * s * z * series + e * BASE_LN2_LOW;
    return e * BASE_LN2_HIGH + (2 * s + small);
}

/* e^x for x <= 0, -infinity included; 0 below -708. x = n · ln 2 + r with |r| <= ln 2 / 2, and
 * thirteen terms of the series in r. Without a branch, so that loops over it become vectors. */
BASE_DEVICE_FUNCTION double base_fixed_exp(double x)
{
    const double round_magic = 0x1.8p52; /* adding it rounds to an integer in the low bits */
    const double inside = x < -708.0 ? -708.0 : x;
    const double shifted = inside * 0x1.71547652b82fep+0 + round_magic;
    const double n = shifted - round_magic;
    const double r = (inside - n * BASE_LN2_HIGH) - n * BASE_LN2_LOW;
    double series = 1.0 / 6227020800;
    series = series * r + 1.0 / 479001600;
    series = series * r + 1.0 / 39916800;
    series = series * r + 1.0 / 3628800;
    series = series * r + 1.0 / 362880;
    series = series * r + 1.0 / 40320;
    series = series * r + 1.0 / 5040;
    series = series * r + 1.0 / 720;
    series = series * r + 1.0 / 120;
    series = series * r + 1.0 / 24;
    series = series * r + 1.0 / 6;
    series = series * r + 0.5;
    const double power = (series * r * r + r) + 1.0;
    uint64_t bits = 0;
    uint64_t n_bits = 0;
    memcpy(&bits, &power, sizeof bits);
    memcpy(&n_bits, &shifted, sizeof n_bits);
    bits += n_bits << 52; /* n, without the magic number's own bits */
    double scaled = 0;
    memcpy(&scaled, &bits, sizeof scaled);
    return x < -708.0 ? 0.0 : scaled;
}

#endif
