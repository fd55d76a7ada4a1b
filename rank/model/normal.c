/* Fills tensors with normal deviates. Called by families' init. */
#include "model/normal.h"

#include "base/splitmix.h"

enum { HASHES_PER_NORMAL = 3, UNIFORMS_PER_HASH = 4, UNIFORM_BITS = 16 };

/* A normal deviate in units of 2^-16. */
static int32_t normal_scaled(uint64_t stream, uint64_t index)
{
    const int32_t mean = HASHES_PER_NORMAL * UNIFORMS_PER_HASH / 2 * ((1 << UNIFORM_BITS) - 1);
    int32_t sum = 0;
    for (uint64_t h = 0; h < HASHES_PER_NORMAL; h++) {
        uint64_t bits =
            base_splitmix_mix(stream + BASE_SPLITMIX_STEP * (index * HASHES_PER_NORMAL + h + 1));
        for (int u = 0; u < UNIFORMS_PER_HASH; u++) {
            sum += (int32_t)(bits & 0xffff);
            bits >>= UNIFORM_BITS;
        }
    }
    return sum - mean;
}

void rank_fill_normal(uint64_t seed, int tensor, float deviation, float *to, size_t count)
{
    const uint64_t stream = base_splitmix_mix(base_splitmix_mix(seed) + (uint64_t)tensor);
    const float unit = deviation * 0x1p-16f;
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)normal_scaled(stream, i) * unit;
    }
}

void rank_fill(float value, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}
