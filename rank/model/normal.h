/* Initial parameters without libm: integer arithmetic, one square root (correctly rounded by IEEE
 * 754) and one multiplication per element. So the bits are the same on every machine.
 *
 * Random numbers are counter based: element i of tensor t is a hash of (seed, t, i), by
 * SplitMix64's finaliser (base/splitmix.h). So no element depends on another. A normal deviate is
 * the sum of twelve uniform ones of 16 bits (Irwin–Hall): mean 0, variance 1, within ±6. */
#ifndef RANK_MODEL_NORMAL_H
#define RANK_MODEL_NORMAL_H

#include <stddef.h>
#include <stdint.h>

/* Normal deviates of this standard deviation for tensor number `tensor`. */
void rank_fill_normal(uint64_t seed, int tensor, float deviation, float *to, size_t count);

void rank_fill(float value, float *to, size_t count);

#endif
