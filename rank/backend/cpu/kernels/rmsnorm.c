/* RMS norm with the residual added on the way. Compiled once per instruction set; models call it
 * through the backend. */
#include "kernels_isa.h"

static float mean_square(const float *x, size_t width)
{
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t j = 0; j < width; j += VEC_SUM_LANES) {
        VEC_EACH_PART
        {
            const vec part = vec_load(x + j + v * VEC_LANES, vec_left(width, j, v));
            sum[v] += part * part;
        }
    }
    return vec_sum_end(sum) / (float)width;
}

void KERNEL(rmsnorm)(const rank_rmsnorm *args)
{
    const size_t width = args->width;
    for (size_t row = 0; row < args->rows; row++) {
        float *x = args->x + row * width;
        for (size_t j = 0; args->residual != NULL && j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec residual = vec_load(args->residual + row * width + j, left);
            vec_store(x + j, vec_load(x + j, left) + residual, left);
        }
        if (args->out == NULL) {
            continue;
        }
        const float scale = 1.0f / __builtin_sqrtf(mean_square(x, width) + args->epsilon);
        float *out = args->out + row * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec normal = vec_load(x + j, left) * scale;
            vec_store(out + j, normal * vec_load(args->weight + j, left), left);
        }
    }
}
