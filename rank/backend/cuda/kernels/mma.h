/* Products of small tiles on tensor cores: bfloat16 operands, sums in float32. Included by kernels.
 *
 * Two instructions of the PTX ISA (9.0, section 9.7.14.5, "Matrix multiply-accumulate operation
 * using mma instruction"), both for sm_80 and later:
 *   mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: C (16, 8) += A (16, 16) · B (16, 8)
 *     (9.7.14.5.8, "Matrix Fragments for mma.m16n8k16 with floating point type"),
 *   ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16: four matrices (8, 8) out of shared memory
 *     (9.7.14.5.15, "Warp-level matrix load instruction: ldmatrix").
 * All lanes of a warp call them together. Under nvcc they are these instructions; in tests the
 * emulator does what the sections say (tests/gpu/emulate/mma.cc). The parity case `mma_tile` checks
 * every loader of this file beside plain products, on the emulator and on a GPU.
 *
 * Fragments. With g = lane / 4 and t = lane % 4, a lane has of
 *   A  at[0]: row g,     columns 2t, 2t + 1       at[1]: row g + 8, columns 2t, 2t + 1
 *      at[2]: row g,     columns 2t + 8, 2t + 9   at[3]: row g + 8, columns 2t + 8, 2t + 9
 *   B  at[0]: rows 2t, 2t + 1 of column g         at[1]: rows 2t + 8, 2t + 9 of column g
 *   C  at[0], at[1]: row g, columns 2t, 2t + 1    at[2], at[3]: row g + 8, columns 2t, 2t + 1
 * Two elements of A or B share 32 bits; the first one has the lower half.
 *
 * ldmatrix: lanes 8i … 8i + 7 give the addresses of the rows 0 … 7 of matrix i: 16 bytes each, at a
 * multiple of 16 bytes. Register i of a lane then has columns 2t, 2t + 1 of row g of matrix i; with
 * .trans rows 2t, 2t + 1 of column g. */
#ifndef RANK_BACKEND_CUDA_KERNELS_MMA_H
#define RANK_BACKEND_CUDA_KERNELS_MMA_H

#include "element.h"

enum {
    MMA_ROWS = 16,   /* of A and C */
    MMA_COLUMNS = 8, /* of B and C */
    MMA_DEPTH = 16,  /* columns of A, rows of B */
};

struct mma_a {
    uint32_t at[4];
};

/* B of two neighbouring tiles C: at[0] and at[1] of columns 0 … 7, the others of 8 … 15. */
struct mma_b2 {
    uint32_t at[4];
};

struct mma_c {
    float at[4];
};

/* Where at[i] of a C is. */
__device__ inline int mma_row(int i)
{
    return (int)(threadIdx.x % 32) / 4 + i / 2 * 8;
}

__device__ inline int mma_column(int i)
{
    return (int)(threadIdx.x % 4) * 2 + i % 2;
}

#if defined(__CUDACC__)
__device__ inline void mma_tile(mma_c &c, const mma_a &a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])
                 : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}

/* volatile, and with memory clobbered: it stays between the barriers that it stands between. */
template <bool TRANSPOSED> __device__ inline void load_matrices(uint32_t *to, const void *row)
{
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    if (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
    }
}

/* A value that is the same in all lanes of the warp, so that the compiler knows it is: what hangs on
 * it then does not split the warp, and needs no check for that at each shuffle. */
__device__ inline int32_t same_in_warp(int32_t value)
{
    return __shfl_sync(0xffffffffu, value, 0);
}

/* 2^x by the multiprocessor's own unit, to about 2^-22; below 2^-126 it is zero. */
__device__ inline float power_of_two(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
#else
__device__ inline void mma_tile(mma_c &c, const mma_a &a, uint32_t b0, uint32_t b1)
{
    const uint32_t b[2] = {b0, b1};
    emulate_mma(c.at, a.at, b);
}

template <bool TRANSPOSED> __device__ inline void load_matrices(uint32_t *to, const void *row)
{
    emulate_load_matrices(to, row, TRANSPOSED);
}

__device__ inline int32_t same_in_warp(int32_t value)
{
    return value;
}

__device__ inline float power_of_two(float x)
{
    return exp2f(x);
}
#endif

/* The elements of a pair. */
__device__ inline float low_of(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

__device__ inline float high_of(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

/* A = 16 rows of 16 elements in shared memory, `pitch` elements from row to row. */
__device__ inline void load_a(mma_a &a, const __nv_bfloat16 *rows, int pitch)
{
    const int lane = (int)(threadIdx.x % 32);
    load_matrices<false>(a.at, rows + lane % 16 * pitch + lane / 16 * 8);
}

/* B of two tiles, where 16 rows of 16 elements in shared memory are its columns: A · rowsᵀ. */
__device__ inline void load_b_by_columns(mma_b2 &b, const __nv_bfloat16 *rows, int pitch)
{
    const int lane = (int)(threadIdx.x % 32);
    load_matrices<false>(b.at, rows + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
}

/* B of two tiles, where these rows are its rows: A · rows. */
__device__ inline void load_b_by_rows(mma_b2 &b, const __nv_bfloat16 *rows, int pitch)
{
    const int lane = (int)(threadIdx.x % 32);
    load_matrices<true>(b.at, rows + lane % 16 * pitch + lane / 16 * 8);
}

/* Two neighbouring tiles C, rounded, as an A: what a lane has of both is the same rows and columns. */
__device__ inline mma_a rounded_tiles(const mma_c &left, const mma_c &right)
{
    return {{pair_of(left.at[0], left.at[1]), pair_of(left.at[2], left.at[3]),
             pair_of(right.at[0], right.at[1]), pair_of(right.at[2], right.at[3])}};
}

/* c[0] and c[1] += A · B. */
__device__ inline void mma_two(mma_c *c, const mma_a &a, const mma_b2 &b)
{
    mma_tile(c[0], a, b.at[0], b.at[1]);
    mma_tile(c[1], a, b.at[2], b.at[3]);
}

#endif
