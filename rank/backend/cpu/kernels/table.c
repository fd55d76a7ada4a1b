/* The table of all kernels of one instruction set, which dispatch.c chooses from. */
#include "kernels_isa.h"

#ifndef RANK_REST_ISA
void KERNEL(exp)(float *values, size_t count)
{
    for (size_t i = 0; i < count; i += VEC_LANES) {
        vec_store(values + i, vec_exp(vec_load(values + i, count - i)), count - i);
    }
}
#endif

#define AND(name, part) , .name = REST(name)

const rank_kernels KERNEL(table) = {
    .name = RANK_TEXT(RANK_ISA) RANK_KERNELS(AND),
    .attention_scratch = REST(attention_scratch),
    .attention_grad = REST(attention_grad),
    .attention_products = REST(attention_products),
    .attention_cached_scratch = REST(attention_cached_scratch),
    .product = KERNEL(product),
    .exp = REST(exp),
};
