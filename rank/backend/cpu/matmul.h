/* Matrix products of row-major float32, by oneDNN.
 *
 * The names say which operand is transposed as it lies in memory. Each writes all of c, or
 * adds to it. A product of depth 0 is zero. One thread: see
 * rank_matmul_use_one_thread. The bits
 * depend on the shape and on the instruction set; nothing else. */
#ifndef RANK_BACKEND_CPU_MATMUL_H
#define RANK_BACKEND_CPU_MATMUL_H

#include <stddef.h>

#include "base/status.h"

typedef struct rank_matmul {
    size_t rows;    /* of c */
    size_t columns; /* of c */
    size_t depth;
    const float *a;
    const float *b;
    float *c;       /* (rows, columns) */
    int accumulate; /* c += instead of c = */
} rank_matmul;

/* Pins the library to the instruction set that RINGFENCE_ISA asks for and to strict float32. Once
 * per process, before the first product; calling it again does nothing. */
void rank_matmul_init(void);

/* The calling thread's products take one thread, unless OMP_NUM_THREADS asks for more. */
void rank_matmul_use_one_thread(void);

/* c = a (rows, depth) · b (depth, columns) */
BASE_MUST_CHECK base_status rank_matmul_nn(const rank_matmul *args, base_error *reterr);

/* c = a (rows, depth) · b (columns, depth)ᵀ */
BASE_MUST_CHECK base_status rank_matmul_nt(const rank_matmul *args, base_error *reterr);

/* c = a (depth, rows)ᵀ · b (depth, columns) */
BASE_MUST_CHECK base_status rank_matmul_tn(const rank_matmul *args, base_error *reterr);

/* "oneDNN 2.6.3 avx512_core"; static storage. */
const char *rank_matmul_library(void);

#endif
