/* Noise from a counter. Called by the sampler for each token that can still win. */
#include "generate/noise.h"

#include "base/fixed_math.h"
#include "base/splitmix.h"

enum { NOISE_BITS = 52 };

uint64_t rank_noise_stream(uint64_t seed, uint64_t prompt_index, uint64_t position)
{
    const uint64_t step = BASE_SPLITMIX_STEP;
    const uint64_t of_seed = base_splitmix_mix(seed + step);
    const uint64_t of_prompt = base_splitmix_mix(of_seed + step * (prompt_index + 1));
    return base_splitmix_mix(of_prompt + step * (position + 1));
}

uint64_t rank_noise_bits(uint64_t stream, int32_t token)
{
    return base_splitmix_mix(stream + BASE_SPLITMIX_STEP * ((uint64_t)token + 1)) >>
           (64 - NOISE_BITS);
}

double rank_noise_gumbel(uint64_t bits)
{
    const double u = ((double)bits + 0.5) * 0x1p-52;
    return -base_fixed_log(-base_fixed_log(u));
}

/* −ln u >= 1 − u, so the noise is at most −ln(1 − u); and 1 − u >= 2^(k − 52) where k is the index
 * of the highest bit of 2^52 − 1 − bits. */
double rank_noise_bound(uint64_t bits)
{
    const uint64_t rest = (UINT64_C(1) << NOISE_BITS) - 1 - bits;
    const int highest = rest == 0 ? -1 : 63 - __builtin_clzll(rest);
    return (NOISE_BITS - highest) * 0.69314718056 + 1e-9;
}
