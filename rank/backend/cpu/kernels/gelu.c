/* gelu(x) = x/2 · (1 + tanh(u)) with u = sqrt(2/pi)·(x + 0.044715·x³), computed as
 * x / (1 + exp(-2u)): the same function, one exponential, no cancellation for negative x. */
#include "kernels_isa.h"

#define TWO_ROOT_2_PI 1.5957691216057308f /* 2·sqrt(2/pi) */
#define CUBIC         0.044715f

/* The logistic function of 2u. */
VEC_INLINE vec gate(vec x)
{
    const vec two_u = x * (TWO_ROOT_2_PI + (TWO_ROOT_2_PI * CUBIC) * (x * x));
    return 1.0f / (1.0f + vec_exp(-two_u));
}

void KERNEL(gelu)(const rank_gelu *args)
{
    const size_t width = args->width;
    for (size_t row = 0; row < args->rows; row++) {
        float *x = (float *)args->x + row * width;
        float *out = (float *)args->out + row * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec biased = vec_load(x + j, left) + vec_load(args->bias + j, left);
            vec_store(x + j, biased, left);
            vec_store(out + j, biased * gate(biased), left);
        }
    }
}

void KERNEL(gelu_grad)(const rank_gelu_grad *args)
{
    const size_t width = args->width;
    for (size_t row = 0; row < args->rows; row++) {
        float *x_row = (float *)args->x + row * width;
        float *d_row = (float *)args->d + row * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec x = vec_load(x_row + j, left);
            const vec s = gate(x);
            const vec gelu = x * s;
            const vec two_u_slope = TWO_ROOT_2_PI + (3.0f * TWO_ROOT_2_PI * CUBIC) * (x * x);
            const vec slope = s + gelu * (1.0f - s) * two_u_slope;
            const vec d = vec_load(d_row + j, left) * slope;
            vec_store(x_row + j, gelu, left);
            vec_store(d_row + j, d, left);
            if (args->dbias != NULL) {
                vec_store(args->dbias + j, vec_load(args->dbias + j, left) + d, left);
            }
        }
    }
}
