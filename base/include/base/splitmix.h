/* SplitMix64 (Steele, Lea and Flood 2014): a random generator, and its finaliser as a hash. Pure;
 * the bits are the same on every machine. */
#ifndef BASE_SPLITMIX_H
#define BASE_SPLITMIX_H

#include <stdint.h>

#include "base/device_function.h"

/* The step of the generator's state: 2^64 divided by the golden ratio, made odd. */
#define BASE_SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The finaliser: a bijection that mixes all bits. */
BASE_DEVICE_FUNCTION uint64_t base_splitmix_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The next output. */
BASE_DEVICE_FUNCTION uint64_t base_splitmix_next(uint64_t *state)
{
    *state += BASE_SPLITMIX_STEP;
    return base_splitmix_mix(*state);
}

#endif
