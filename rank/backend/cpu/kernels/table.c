/* The table of all kernels of one instruction set, which dispatch.c chooses from. */
#include "kernels_isa.h"

void KERNEL(exp)(float *values, size_t count)
{
    for (size_t i = 0; i < count; i += VEC_LANES) {
        vec_store(values + i, vec_exp(vec_load(values + i, count - i)), count - i);
    }
}

#define AND(name, part) , .name = KERNEL(name)

const rank_kernels KERNEL(table) = {
    .name = RANK_TEXT(RANK_ISA) RANK_KERNELS(AND),
    .attention_scratch = KERNEL(attention_scratch),
    .attention_grad = KERNEL(attention_grad),
    .attention_products = KERNEL(attention_products),
    .attention_cached_scratch = KERNEL(attention_cached_scratch),
    .product = KERNEL(product),
    .exp = KERNEL(exp),
};
