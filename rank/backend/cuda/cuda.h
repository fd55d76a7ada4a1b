/* The backends of NVIDIA GPUs. Both have the same memory, queues and kernels. `cuda` gives plain
 * matrix products to cublasLt. `cuda-exact` computes them in the canonical order too, so that it has
 * the CPU's bits. */
#ifndef RANK_BACKEND_CUDA_CUDA_H
#define RANK_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"

extern const rank_backend rank_cuda_backend;
extern const rank_backend rank_cuda_exact_backend;

#endif
