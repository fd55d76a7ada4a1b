/* Matrix products of row-major float32, by oneDNN.
 *
 * One thread: see rank_matmul_use_one_thread. The bits depend only on the shape and on the
 * instruction set. */
#ifndef RANK_BACKEND_CPU_MATMUL_H
#define RANK_BACKEND_CPU_MATMUL_H

#include "backend/backend.h"

/* Pins the library to the instruction set that RINGFENCE_ISA asks for and to strict float32. Once
 * per process, before the first product; calling it again does nothing. */
void rank_matmul_init(void);

/* The calling thread's products take one thread, unless OMP_NUM_THREADS asks for more. */
void rank_matmul_use_one_thread(void);

BASE_MUST_CHECK base_status rank_matmul_run(const rank_matmul *args, base_error *reterr);

/* "oneDNN 2.6.3 avx512_core"; static storage. */
const char *rank_matmul_library(void);

#endif
