/* The frequencies of rope, in radians for each position. For families that have it. */
#ifndef RANK_MODEL_FREQUENCY_H
#define RANK_MODEL_FREQUENCY_H

#include <math.h>
#include <stddef.h>

/* That of pair i of a head of so many elements, as transformers computes it, whose rounding is
 * float32's. */
static inline float rank_rope_frequency(double theta, size_t i, size_t head_width)
{
    const float exponent = (float)(2 * i) / (float)head_width;
    return 1.0f / (float)pow(theta, (double)exponent);
}

#endif
