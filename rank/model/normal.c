/* Fills tensors with normal deviates. Called by families' init. */
#include "model/normal.h"

#include "base/splitmix.h"
#include "model/share_out.h"

enum {
    HASHES_PER_NORMAL = 3,
    UNIFORMS_PER_HASH = 4,
    UNIFORM_BITS = 16,
    NORMALS_OF_THREAD = 1 << 18, /* at least: some milliseconds */
};

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

/* One tensor. */
typedef struct drawing {
    uint64_t stream;
    float unit;
    float *to;
} drawing;

static void draw_some(void *user, size_t first, size_t end)
{
    const drawing *of = user;
    for (size_t i = first; i < end; i++) {
        of->to[i] = (float)normal_scaled(of->stream, i) * of->unit;
    }
}

void rank_fill_normal(uint64_t seed, int tensor, float deviation, float *to, size_t count)
{
    drawing of = {.stream = base_splitmix_mix(base_splitmix_mix(seed) + (uint64_t)tensor),
                  .unit = deviation * 0x1p-16f,
                  .to = to};
    rank_share_out(count, NORMALS_OF_THREAD, draw_some, &of);
}

void rank_fill(float value, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}
