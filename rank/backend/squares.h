/* A sum of squares whose bits depend on the values alone: not on their order, and not on who adds which
 * of them. So ranks that hold a model in any cut get the bits of one that has all of it.
 *
 * 1. `largest` is the largest |value| of all, as a float32's bits without the sign. These order like
 *    the numbers, with infinity and NaN behind all of them. A maximum has no order.
 * 2. A square is exact in double, and below rank_squares_magic(largest), a power of two. Their sum in
 *    double is the square rounded to a multiple of the power's ulp. The bits behind those of the power
 *    alone are that multiple, at most 2^52.
 * 3. These are integers, so adding them up has no order either.
 * 4. rank_squares_value turns the total into a double.
 *
 * The largest square is at least 2^50 ulps, and rounding is off by half of one for each value. So the
 * relative error of n values is below n · 2^-51. It is near sqrt(n) · 2^-52 where errors cancel out.
 * Where `largest` is subnormal there is none.
 *
 * backend.h has the operations: largest, add_squares, and sum_squares for values in one place. */
#ifndef RANK_BACKEND_SQUARES_H
#define RANK_BACKEND_SQUARES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define RANK_SQUARES_INLINE __host__ __device__ static inline
#else
#define RANK_SQUARES_INLINE static inline
#endif

/* A number of ulps, high · 2^32 + low. Ranks' are added up limb by limb. There is room for 2^43
 * values, of any number of ranks. Zeros are the empty sum. */
typedef struct rank_squares {
    uint64_t low;
    uint64_t high;
} rank_squares;

enum {
    RANK_SQUARES_LIMBS = 2,             /* uint64_t */
    RANK_SQUARES_INFINITE = 0x7f800000, /* the bits of infinity; more: NaN */
};

RANK_SQUARES_INLINE bool rank_squares_finite(int32_t largest)
{
    return largest < RANK_SQUARES_INFINITE;
}

RANK_SQUARES_INLINE double rank_squares_power(uint64_t exponent)
{
    const uint64_t bits = exponent << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* The exponent's bits of 4^(e + 1), where the largest is below 2^(e + 1). Subnormals have the smallest
 * normal number's e. */
RANK_SQUARES_INLINE uint64_t rank_squares_exponent(int32_t largest)
{
    const uint64_t biased = (uint64_t)largest >> 23;
    return 2 * ((biased > 0 ? biased : 1) + 1) + 1023 - 2 * 127;
}

RANK_SQUARES_INLINE double rank_squares_magic(int32_t largest)
{
    return rank_squares_power(rank_squares_exponent(largest));
}

/* The sum of squares. Infinity and NaN if that is the largest. */
RANK_SQUARES_INLINE double rank_squares_value(const rank_squares *squares, int32_t largest)
{
    if (!rank_squares_finite(largest)) {
        return largest == RANK_SQUARES_INFINITE ? (double)INFINITY : (double)NAN;
    }
    const double high = (double)(squares->high + (squares->low >> 32));
    const double low = (double)(squares->low & UINT32_MAX);
    return (high * 0x1p32 + low) * rank_squares_power(rank_squares_exponent(largest) - 52);
}

#endif
