/* The CPU kernels: everything of the model and the optimizer.
 *
 * The same source is compiled once per instruction set. rank_kernels_get gives the best table for this CPU, or the
 * one that RINGFENCE_ISA=baseline|neon|avx2|avxvnni|avx512|avx512vnni names. (avxvnni and avx512vnni have products in
 * blocks of their own, and all else of avx2 and avx512.) Arithmetic is in a fixed order, which is the same on every
 * instruction set: sums along a row have sixteen lanes everywhere (vec.h), sums over the depth of a product are chains
 * of fused multiply-adds (product.c). Nothing is contracted by the compiler. So all but the baseline give the same
 * bits. The baseline has no fused multiply-add, and other bits wherever there are products.
 *
 * Arrays may have any alignment; backend/operations.h has their shapes. Kernels keep no state and may run in
 * several threads on different arrays. */
#ifndef RANK_BACKEND_CPU_KERNELS_H
#define RANK_BACKEND_CPU_KERNELS_H

#include <stddef.h>

#include "backend/dropout.h"
#include "backend/experts.h"
#include "backend/operations.h"
#include "base/status.h"

/* The kernels that are an operation of the backend each, by its name: EACH(name, part) gets the part of a step
 * that its time belongs to (backend/profile.h). */
#define RANK_KERNELS(EACH)                                                                         \
    EACH(pack, PACK)                                                                               \
    EACH(dropout, DROPOUT)                                                                         \
    EACH(embed, EMBED)                                                                             \
    EACH(embed_packed, EMBED)                                                                      \
    EACH(embed_grad, EMBED_GRAD)                                                                   \
    EACH(layernorm, LAYERNORM)                                                                     \
    EACH(layernorm_grad, LAYERNORM_GRAD)                                                           \
    EACH(rmsnorm, LAYERNORM)                                                                       \
    EACH(rmsnorm_grad, LAYERNORM_GRAD)                                                             \
    EACH(swiglu, GELU)                                                                             \
    EACH(swiglu_grad, GELU_GRAD)                                                                   \
    EACH(route, OTHER)                                                                             \
    EACH(route_grad, OTHER)                                                                        \
    EACH(take_places, OTHER)                                                                       \
    EACH(add_places, OTHER)                                                                        \
    EACH(dot_places, OTHER)                                                                        \
    EACH(weigh_places, OTHER)                                                                      \
    EACH(gelu, GELU)                                                                               \
    EACH(gelu_grad, GELU_GRAD)                                                                     \
    EACH(attention, ATTENTION)                                                                     \
    EACH(attention_cached, ATTENTION)                                                              \
    EACH(cross_entropy, CROSS_ENTROPY)                                                             \
    EACH(adamw, OPTIMIZER)                                                                         \
    EACH(largest, OPTIMIZER)                                                                       \
    EACH(add_squares, OPTIMIZER)

#define RANK_KERNEL_MEMBER(name, part) void (*name)(const rank_##name *args);

typedef struct rank_kernels {
    const char *name; /* as in RINGFENCE_ISA */
    RANK_KERNELS(RANK_KERNEL_MEMBER)
    /* Floats of scratch that segments of at most segment_max tokens need. */
    size_t (*attention_scratch)(size_t head_width, size_t segment_max);
    void (*attention_grad)(const rank_attention *args);
    /* For benchmarks: the matrix products of both, and nothing else. The results mean nothing. */
    void (*attention_products)(const rank_attention *args);
    /* Floats of scratch that sequences of at most length_max tokens need. */
    size_t (*attention_cached_scratch)(size_t head_width, size_t length_max);
    void (*product)(const rank_product *args);
    void (*exp)(float *values, size_t count); /* in place; for tests of the approximation */
} rank_kernels;

/* The table by name, or NULL if there is no such name or this CPU cannot run it. */
const rank_kernels *rank_kernels_named(const char *name);

/* The tables that this CPU can run, by index: the baseline first, the best last, then NULL. All
 * but the baseline have fused multiply-add. */
const rank_kernels *rank_kernels_at(int index);

/* The table of this process: the one of RINGFENCE_ISA if it is set, else the best. Chosen once.
 * Never NULL: if RINGFENCE_ISA is wrong, this is the best table, and rank_kernels_check returns the
 * error. */
const rank_kernels *rank_kernels_get(void);

/* BASE_ERR_INVALID if RINGFENCE_ISA names no table,
 * BASE_ERR_UNSUPPORTED if this CPU cannot run it. */
BASE_MUST_CHECK base_status rank_kernels_check(base_error *reterr);

#endif
