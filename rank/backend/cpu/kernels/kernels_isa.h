/* Names for one compilation of the kernels: RANK_ISA is one of kernels.h and comes from the build. If
 * only the products are compiled, RANK_REST_ISA is the set that all other kernels are taken from. */
#ifndef RANK_BACKEND_CPU_KERNELS_ISA_H
#define RANK_BACKEND_CPU_KERNELS_ISA_H

#include "backend/cpu/kernels.h"
#include "backend/cpu/vec.h"

#define RANK_JOIN_(a, b, c) a##b##_##c
#define RANK_JOIN(a, b, c)  RANK_JOIN_(a, b, c)
#define KERNEL(name)        RANK_JOIN(rank_, RANK_ISA, name)

#ifdef RANK_REST_ISA
#define REST(name) RANK_JOIN(rank_, RANK_REST_ISA, name)
#else
#define REST(name) KERNEL(name)
#endif

#define RANK_TEXT_(x) #x
#define RANK_TEXT(x)  RANK_TEXT_(x)

#define RANK_KERNEL_DECLARE(name, part) void REST(name)(const rank_##name *args);
RANK_KERNELS(RANK_KERNEL_DECLARE)
size_t REST(attention_scratch)(size_t head_width, size_t segment_max);
void REST(attention_grad)(const rank_attention *args);
void REST(attention_products)(const rank_attention *args);
size_t REST(attention_cached_scratch)(size_t head_width, size_t length_max);
void REST(exp)(float *values, size_t count);
void KERNEL(product)(const rank_product *args);

extern const rank_kernels KERNEL(table);

#endif
