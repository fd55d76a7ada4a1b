/* Initial parameters, without libm: integer arithmetic, one square root (correctly rounded by
 * IEEE 754) and one multiplication per element, so the same bits on every machine.
 *
 * Random numbers are counter based: element i of tensor t hashes (seed, t, i) with the finaliser of
 * SplitMix64 (Steele, Lea and Flood 2014), so no element depends on another. A normal deviate is
 * the sum of twelve uniform ones of 16 bits (Irwin–Hall): mean 0, variance 1, within ±6. */
#include "model/state.h"
#include "rank/model.h"

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

enum { HASHES_PER_NORMAL = 3, UNIFORMS_PER_HASH = 4, UNIFORM_BITS = 16 };

/* A normal deviate in units of 2^-16. */
static int32_t normal_scaled(uint64_t stream, uint64_t index)
{
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    const int32_t mean = HASHES_PER_NORMAL * UNIFORMS_PER_HASH / 2 * ((1 << UNIFORM_BITS) - 1);
    int32_t sum = 0;
    for (uint64_t h = 0; h < HASHES_PER_NORMAL; h++) {
        uint64_t bits = mix(stream + step * (index * HASHES_PER_NORMAL + h + 1));
        for (int u = 0; u < UNIFORMS_PER_HASH; u++) {
            sum += (int32_t)(bits & 0xffff);
            bits >>= UNIFORM_BITS;
        }
    }
    return sum - mean;
}

static void fill_normal(uint64_t stream, float deviation, float *to, size_t count)
{
    const float unit = deviation * 0x1p-16f;
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)normal_scaled(stream, i) * unit;
    }
}

static void fill(float value, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}

static int is_residual_projection(const rank_model_config *config, int index)
{
    const int which = (index - 2) % RANK_TENSORS_PER_BLOCK;
    return index >= 2 && index < rank_model_tensor_count(config) - 2 &&
           (which == PROJ_WEIGHT || which == DOWN_WEIGHT);
}

/* The only vectors that begin at 1 are the norms' weights. */
static int is_norm_weight(const rank_model_config *config, int index)
{
    const int which = (index - 2) % RANK_TENSORS_PER_BLOCK;
    const int from_end = rank_model_tensor_count(config) - index;
    return from_end == 2 ||
           (index >= 2 && from_end > 2 && (which == LN1_WEIGHT || which == LN2_WEIGHT));
}

void rank_model_init(const rank_model_config *config, uint64_t seed, float *params)
{
    const double residual = 0.02 / __builtin_sqrt(2.0 * config->layers);
    for (int i = 0; i < rank_model_tensor_count(config); i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        float *to = params + tensor.offset;
        if (tensor.dims == 2) {
            const float deviation = is_residual_projection(config, i) ? (float)residual : 0.02f;
            fill_normal(mix(mix(seed) + (uint64_t)i), deviation, to, tensor.count);
        } else {
            fill(is_norm_weight(config, i) ? 1.0f : 0.0f, to, tensor.count);
        }
    }
}
