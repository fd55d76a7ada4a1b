/* A function of a header that the CPU and kernels for GPUs use. */
#ifndef BASE_DEVICE_FUNCTION_H
#define BASE_DEVICE_FUNCTION_H

#if defined(__CUDACC__)
#define BASE_DEVICE_FUNCTION __host__ __device__ static inline
#else
#define BASE_DEVICE_FUNCTION static inline
#endif

#endif
