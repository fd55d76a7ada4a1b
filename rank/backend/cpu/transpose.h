/* Transposes a square of VEC_LANES × VEC_LANES floats in registers. Included by kernels only. */
#ifndef RANK_BACKEND_CPU_TRANSPOSE_H
#define RANK_BACKEND_CPU_TRANSPOSE_H

#include "backend/cpu/vec.h"

/* The lower halves of a and b with their elements in turns, and the upper halves. */
#if VEC_LANES == 16
#define VEC_ZIP_LOW(a, b)                                                                          \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VEC_ZIP_HIGH(a, b)                                                                         \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VEC_LANES == 8
#define VEC_ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VEC_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define VEC_ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VEC_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* to[j·to_row + i] = from[i·from_row + j]. Zipping the first half of the rows with the second, once
 * for each bit of the row number, turns row and column numbers round. */
VEC_INLINE void vec_transpose(const float *from, size_t from_row, float *to, size_t to_row)
{
    vec a[VEC_LANES];
    vec b[VEC_LANES];
#pragma GCC unroll 16
    for (int i = 0; i < VEC_LANES; i++) {
        a[i] = vec_get(from + (size_t)i * from_row);
    }
#pragma GCC unroll 4
    for (int bits = VEC_LANES; bits > 1; bits /= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < VEC_LANES / 2; i++) {
            b[2 * i] = VEC_ZIP_LOW(a[i], a[i + VEC_LANES / 2]);
            b[2 * i + 1] = VEC_ZIP_HIGH(a[i], a[i + VEC_LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VEC_LANES; i++) {
            a[i] = b[i];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < VEC_LANES; i++) {
        vec_put(to + (size_t)i * to_row, a[i]);
    }
}

#endif
