/* The backends of NVIDIA GPUs. All have the same memory, queues and kernels. `cuda` gives plain
 * matrix products to cublasLt, and has bfloat16. `cuda-tf32` does the same, with operands of float32
 * products rounded to TF32. `cuda-exact` computes products in the canonical order too, so that it
 * has the CPU's bits. */
#ifndef RANK_BACKEND_CUDA_CUDA_H
#define RANK_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"

extern const rank_backend rank_cuda_backend;
extern const rank_backend rank_cuda_exact_backend;
extern const rank_backend rank_cuda_tf32_backend;

#endif
