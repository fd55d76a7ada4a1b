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

#define RANK_KERNEL_DECLARE(name, part) void KERNEL(name)(const rank_##name *args);
RANK_KERNELS(RANK_KERNEL_DECLARE)
size_t KERNEL(attention_scratch)(size_t head_width, size_t segment_max);
void KERNEL(attention_grad)(const rank_attention *args);
void KERNEL(attention_products)(const rank_attention *args);
size_t KERNEL(attention_cached_scratch)(size_t head_width, size_t length_max);
void KERNEL(product)(const rank_product *args);
void KERNEL(exp)(float *values, size_t count);

extern const rank_kernels KERNEL(table);

#endif
