/* Copies from device memory into shared memory that run while their thread computes. Included by
 * kernels.
 *
 * This is cp.async of the PTX ISA (9.0, section 9.7.9.25.3.1, "Data Movement and Conversion
 * Instructions: cp.async"), for sm_80 and later. In tests the emulator copies at once or as late as
 * it may, by the order in which it runs threads (tests/gpu/emulate/threads.cc). */
#ifndef RANK_BACKEND_CUDA_KERNELS_ASYNC_COPY_H
#define RANK_BACKEND_CUDA_KERNELS_ASYNC_COPY_H

#include "device.h"

/* Begins to copy 8 or 16 bytes between addresses at multiples of that. Without `there` the target
 * gets zeros, and `from` is not read. */
template <int BYTES> __device__ inline void copy_async(void *to, const void *from, bool there)
{
    static_assert(BYTES == 8 || BYTES == 16, "what kernels need");
#if defined(__CUDACC__)
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    const int read_bytes = there ? BYTES : 0;
    if (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                     "r"(read_bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from),
                     "r"(read_bytes)
                     : "memory");
    }
#else
    emulate_copy_async(to, there ? from : NULL, BYTES);
#endif
}

/* Until all copies of this thread have arrived. Other threads see them behind the next barrier. */
__device__ inline void wait_for_copies()
{
#if defined(__CUDACC__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
    emulate_wait_for_copies();
#endif
}

#endif
