/* Names for one compilation of the kernels: RANK_ISA is baseline, neon, avx2 or avx512 and comes from the
 * build. */
#ifndef RANK_BACKEND_CPU_KERNELS_ISA_H
#define RANK_BACKEND_CPU_KERNELS_ISA_H

#include "backend/cpu/kernels.h"
#include "backend/cpu/vec.h"

#define RANK_JOIN_(a, b, c) a##b##_##c
#define RANK_JOIN(a, b, c)  RANK_JOIN_(a, b, c)
#define KERNEL(name)        RANK_JOIN(rank_, RANK_ISA, name)

#define RANK_TEXT_(x) #x
#define RANK_TEXT(x)  RANK_TEXT_(x)

void KERNEL(dropout)(const rank_dropout *args);
void KERNEL(embed)(const rank_embed *args);
void KERNEL(embed_packed)(const rank_embed_packed *args);
void KERNEL(embed_grad)(const rank_embed_grad *args);
void KERNEL(layernorm)(const rank_layernorm *args);
void KERNEL(layernorm_grad)(const rank_layernorm_grad *args);
void KERNEL(rmsnorm)(const rank_rmsnorm *args);
void KERNEL(rmsnorm_grad)(const rank_rmsnorm_grad *args);
void KERNEL(swiglu)(const rank_swiglu *args);
void KERNEL(swiglu_grad)(const rank_swiglu_grad *args);
void KERNEL(route)(const rank_route *args);
void KERNEL(route_grad)(const rank_route_grad *args);
void KERNEL(take_places)(const rank_take_places *args);
void KERNEL(add_places)(const rank_add_places *args);
void KERNEL(dot_places)(const rank_dot_places *args);
void KERNEL(weigh_places)(const rank_weigh_places *args);
void KERNEL(gelu)(const rank_gelu *args);
void KERNEL(gelu_grad)(const rank_gelu_grad *args);
void KERNEL(cross_entropy)(const rank_cross_entropy *args);
size_t KERNEL(attention_scratch)(size_t head_width, size_t segment_max);
void KERNEL(attention)(const rank_attention *args);
void KERNEL(attention_grad)(const rank_attention *args);
void KERNEL(attention_products)(const rank_attention *args);
size_t KERNEL(attention_cached_scratch)(size_t head_width, size_t length_max);
void KERNEL(attention_cached)(const rank_attention_cached *args);
void KERNEL(pack)(const rank_pack *args);
void KERNEL(product)(const rank_product *args);
void KERNEL(adamw)(const rank_adamw *args);
void KERNEL(largest)(const rank_largest *args);
void KERNEL(add_squares)(const rank_add_squares *args);
void KERNEL(exp)(float *values, size_t count);

extern const rank_kernels KERNEL(table);

#endif
