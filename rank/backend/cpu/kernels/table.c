/* The table of all kernels of one instruction set, which dispatch.c chooses from. */
#include "kernels_isa.h"

void KERNEL(exp)(float *values, size_t count)
{
    for (size_t i = 0; i < count; i += VEC_LANES) {
        vec_store(values + i, vec_exp(vec_load(values + i, count - i)), count - i);
    }
}

const rank_kernels KERNEL(table) = {
    .name = RANK_TEXT(RANK_ISA),
    .dropout = KERNEL(dropout),
    .embed = KERNEL(embed),
    .embed_packed = KERNEL(embed_packed),
    .embed_grad = KERNEL(embed_grad),
    .layernorm = KERNEL(layernorm),
    .layernorm_grad = KERNEL(layernorm_grad),
    .rmsnorm = KERNEL(rmsnorm),
    .rmsnorm_grad = KERNEL(rmsnorm_grad),
    .swiglu = KERNEL(swiglu),
    .swiglu_grad = KERNEL(swiglu_grad),
    .route = KERNEL(route),
    .route_grad = KERNEL(route_grad),
    .take_places = KERNEL(take_places),
    .add_places = KERNEL(add_places),
    .dot_places = KERNEL(dot_places),
    .weigh_places = KERNEL(weigh_places),
    .gelu = KERNEL(gelu),
    .gelu_grad = KERNEL(gelu_grad),
    .cross_entropy = KERNEL(cross_entropy),
    .attention_scratch = KERNEL(attention_scratch),
    .attention = KERNEL(attention),
    .attention_grad = KERNEL(attention_grad),
    .attention_products = KERNEL(attention_products),
    .attention_cached_scratch = KERNEL(attention_cached_scratch),
    .attention_cached = KERNEL(attention_cached),
    .pack = KERNEL(pack),
    .product = KERNEL(product),
    .adamw = KERNEL(adamw),
    .largest = KERNEL(largest),
    .add_squares = KERNEL(add_squares),
    .exp = KERNEL(exp),
};
