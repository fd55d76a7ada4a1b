/* Noise by counter. The sampler calls it for each token that could still win. */
#include "generate/noise.h"

#include "generate/fixed_math.h"

enum { NOISE_BITS = 52 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

uint64_t rank_noise_stream(uint64_t seed, uint64_t prompt_index, uint64_t position)
{
    return mix(mix(mix(seed + golden) + golden * (prompt_index + 1)) + golden * (position + 1));
}

uint64_t rank_noise_bits(uint64_t stream, int32_t token)
{
    return mix(stream + golden * ((uint64_t)token + 1)) >> (64 - NOISE_BITS);
}

double rank_noise_gumbel(uint64_t bits)
{
    const double u = ((double)bits + 0.5) * 0x1p-52;
    return -rank_fixed_log(-rank_fixed_log(u));
}

/* −ln u >= 1 − u, so the noise is at most −ln(1 − u); and 1 − u >= 2^(k − 52) where k is the index
 * of the highest bit of 2^52 − 1 − bits. */
double rank_noise_bound(uint64_t bits)
{
    const uint64_t rest = (UINT64_C(1) << NOISE_BITS) - 1 - bits;
    const int highest = rest == 0 ? -1 : 63 - __builtin_clzll(rest);
    return (NOISE_BITS - highest) * 0.69314718056 + 1e-9;
}
