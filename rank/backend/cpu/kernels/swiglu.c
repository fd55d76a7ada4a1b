/* The gated linear unit of Llama's MLP and of Gemma's, and their gradients. Compiled once per instruction set; models
 * call both through the backend. */
#include "backend/cpu/gelu.h"
#include "kernels_isa.h"

static vec sigmoid(vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

VEC_INLINE void multiply_by_gate(const rank_swiglu *args, const int gelu)
{
    for (size_t row = 0; row < args->rows; row++) {
        for (size_t j = 0; j < args->width; j += VEC_LANES) {
            const size_t left = args->width - j;
            const vec x = vec_load(args->gate + row * args->row + j, left);
            const vec up = vec_load(args->up + row * args->row + j, left);
            const vec gate = gelu ? gelu_gate(x) : sigmoid(x);
            vec_store(args->out + row * args->width + j, x * gate * up, left);
        }
    }
}

void KERNEL(swiglu)(const rank_swiglu *args)
{
    if (args->gelu) {
        multiply_by_gate(args, 1);
    } else {
        multiply_by_gate(args, 0);
    }
}

VEC_INLINE void gate_grad(const rank_swiglu_grad *args, const int gelu)
{
    for (size_t row = 0; row < args->rows; row++) {
        for (size_t j = 0; j < args->width; j += VEC_LANES) {
            const size_t left = args->width - j;
            float *gate = args->gate + row * args->row + j;
            float *up = args->up + row * args->row + j;
            float *d = args->d + row * args->width + j;
            const vec x = vec_load(gate, left);
            const vec u = vec_load(up, left);
            const vec dout = vec_load(d, left);
            const vec s = gelu ? gelu_gate(x) : sigmoid(x);
            const vec active = x * s;
            const vec slope = gelu ? gelu_slope(x, s) : s + active * (1.0f - s);
            vec_store(gate, dout * u * slope, left);
            vec_store(up, dout * active, left);
            vec_store(d, active * u, left);
        }
    }
}

void KERNEL(swiglu_grad)(const rank_swiglu_grad *args)
{
    if (args->gelu) {
        gate_grad(args, 1);
    } else {
        gate_grad(args, 0);
    }
}
