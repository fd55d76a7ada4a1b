/* The gated linear unit of Llama's MLP. Compiled once per instruction set; models call it through
 * the backend. */
#include "kernels_isa.h"

void KERNEL(swiglu)(const rank_swiglu *args)
{
    for (size_t i = 0; i < args->count; i += VEC_LANES) {
        const size_t left = args->count - i;
        const vec x = vec_load(args->gate + i, left);
        const vec silu = x * (1.0f / (1.0f + vec_exp(-x)));
        vec_store(args->gate + i, silu * vec_load(args->up + i, left), left);
    }
}
