/* GELU and its gradient. Compiled once per instruction set; models call both through the backend. */
#include "backend/cpu/gelu.h"
#include "kernels_isa.h"

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
            vec_store(out + j, biased * gelu_gate(biased), left);
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
            const vec s = gelu_gate(x);
            const vec d = vec_load(d_row + j, left) * gelu_slope(x, s);
            vec_store(x_row + j, x * s, left);
            vec_store(d_row + j, d, left);
            if (args->dbias != NULL) {
                vec_store(args->dbias + j, vec_load(args->dbias + j, left) + d, left);
            }
        }
    }
}
