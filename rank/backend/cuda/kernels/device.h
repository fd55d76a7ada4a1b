/* What all kernels share: the language, launches, sums whose order is the CPU's, and exp.
 *
 * Under nvcc this is CUDA. Without it, tests compile the same files as C++ against an emulator
 * (tests/gpu/emulate), which runs every thread of every block on the CPU.
 *
 * Bits. A kernel does the same operations in the same order as the CPU's kernel of that name: the
 * compiler contracts nothing (CMakeLists.txt), a product of matrices is one chain of fused
 * multiply-adds per element, a sum along a row has ROW_LANES lanes, a sum of columns is one chain
 * down the rows. No sum of floats is made by atomic operations: those that there are (is_last_block,
 * count_up) count. So results do not depend on how blocks are scheduled, and are the CPU's. */
#ifndef RANK_BACKEND_CUDA_KERNELS_DEVICE_H
#define RANK_BACKEND_CUDA_KERNELS_DEVICE_H

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
/* Before a launch with more than 48 KB of shared memory. */
#define ALLOW_SHARED(kernel, shared_bytes)                                                         \
    (void)cudaFuncSetAttribute((kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,              \
                               (int)(shared_bytes))
/* All of a block's shared memory, as an array. The launch gives its size. */
#define SHARED(type, name)                                                                         \
    extern __shared__ __align__(16) unsigned char shared_bytes_of_block[];                         \
    type *name = reinterpret_cast<type *>(shared_bytes_of_block)
/* Reads what nobody reads again: it leaves the caches first. */
template <typename T> __device__ static inline T load_once(const T *from)
{
    return __ldcs(from);
}

/* Overlap: a kernel that is launched so may begin while the one before it on the stream still runs,
 * from when each block of that has called wait_for_previous or ended (CUDA Programming Guide,
 * "Programmatic Dependent Launch"; sm_90 and later). All its threads call wait_for_previous.
 * Until then they may only prefetch, since the second-level cache keeps what it has up to date, and read
 * between begin_reading_ahead and end_reading_ahead. It is a
 * plain launch where the kernel is built for less than sm_90, and so has no wait in it, where the
 * driver is older than CUDA 12.3, whose graphs have no such edges, and with
 * RINGFENCE_CUDA_OVERLAP=0. */
static inline bool can_overlap(const void *kernel)
{
    const char *wanted = getenv("RINGFENCE_CUDA_OVERLAP");
    int driver = 0;
    cudaFuncAttributes built = {};
    return (wanted == NULL || strcmp(wanted, "0") != 0) &&
           cudaDriverGetVersion(&driver) == cudaSuccess && driver >= 12030 &&
           cudaFuncGetAttributes(&built, kernel) == cudaSuccess && built.ptxVersion >= 90;
}

template <typename... Parameters, typename... Arguments>
static void launch_overlapped(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                              size_t shared_bytes, cudaStream_t stream, Arguments... arguments)
{
    static const bool overlaps = can_overlap((const void *)kernel); // so can all others
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = overlaps ? 1 : 0;
    (void)cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}
#define LAUNCH_OVERLAPPED(kernel, grid, block, shared_bytes, stream, ...)                          \
    launch_overlapped(kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

/* The next kernel may begin; this one goes on when the one before it has ended, and its results are
 * there. */
__device__ static inline void wait_for_previous(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

/* The 128 bytes around the address, into the second-level cache. Without overlap there is no time
 * for it. */
__device__ static inline void prefetch(const void *at)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

/* The same of so many bytes: both are multiples of 16. */
__device__ static inline void prefetch_span(const void *at, size_t bytes)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"((unsigned)bytes)
                 : "memory");
#endif
}

/* Between these a kernel reads before it waits: only what no kernel of the last ones writes, as
 * weights and a step's tables. */
__device__ static inline void begin_reading_ahead(void)
{
}

__device__ static inline void end_reading_ahead(void)
{
}

/* For one thread of each of `blocks` blocks, once all others have met it: whether all blocks have been
 * here. The last one sees what they wrote, and leaves *count as it was, 0. */
__device__ static inline bool is_last_block(unsigned *count, unsigned blocks)
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    const bool last = atomicInc(count, blocks - 1) == blocks - 1;
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    return last;
}

/* Adds one to a count that threads share; returns what it was. */
__device__ static inline unsigned count_up(unsigned *count)
{
    return atomicAdd(count, 1u);
}

/* What another block has written in this kernel. */
__device__ static inline float load_of_other(const float *from)
{
    return __ldcg(from);
}
#else
#include "emulate/device.h"
#endif

#include <stddef.h>
#include <stdint.h>

enum {
    ROW_LANES = 16, /* of a sum along a row: lane i adds elements i, i + 16, … from 0 */
    GRID_MAX = 1 << 20,
};

/* Blocks for `count` things, `each` in one. Kernels go on from their last thing in strides of the
 * whole grid, so that any count will do. */
static inline unsigned blocks_for(size_t count, size_t each)
{
    const size_t blocks = (count + each - 1) / each;
    return (unsigned)(blocks < GRID_MAX ? blocks : (size_t)GRID_MAX);
}

__device__ inline size_t first_thing(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ inline size_t all_threads(void)
{
    return (size_t)gridDim.x * blockDim.x;
}

/* a > b ? a : b, so b where one of them is not a number; as vec_max of the CPU. */
__device__ inline float larger_of(float a, float b)
{
    return a > b ? a : b;
}

/* exp(x) for x in [-87, 88], beyond that the value at the end of the range; NaN stays. The same
 * operations as vec_exp of the CPU (backend/cpu/vec.h), which explains them. */
__device__ inline float exponential(float x)
{
    const float round_magic = 0x1.8p23f;
    x = larger_of(-87.0f, x);
    x = 88.0f < x ? 88.0f : x;
    const float shifted = x * 0x1.715476p0f + round_magic;
    const float n = shifted - round_magic;
    const float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    const float r2 = r * r;
    const float p01 = 1.6666520104e-1f * r + 4.9999993412e-1f;
    const float p23 = 8.3687808189e-3f * r + 4.1668394248e-2f;
    const float p = (1.3814466541e-3f * r2 + p23) * r2 + p01;
    const float y = (p * r2 + r) + 1.0f;
    return __uint_as_float(__float_as_uint(y) + (__float_as_uint(shifted) << 23));
}

/* The sum of a warp's values, for each of its lanes: a balanced tree. */
template <typename T> __device__ inline T sum_warp(T value)
{
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
        value = value + __shfl_xor_sync(0xffffffffu, value, half);
    }
    return value;
}

__device__ inline float largest_of_warp(float value)
{
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
        value = larger_of(value, __shfl_xor_sync(0xffffffffu, value, half));
    }
    return value;
}

/* Not for `cuda-exact`: exp(x) as the multiprocessor's own unit has it, to about 2^-21 for small x. */
__device__ inline float quick_exponential(float x)
{
#if defined(__CUDACC__)
    return __expf(x);
#else
    return expf(x);
#endif
}

/* a / b, likewise, to 2 units in the last place; 0 where b is above 2^126. */
__device__ inline float quick_quotient(float a, float b)
{
#if defined(__CUDACC__)
    return __fdividef(a, b);
#else
    return a / b;
#endif
}

/* The sum of the lanes of ROW_LANES neighbouring threads, by halves: i and i + 8 first. All threads
 * of the warp take part, and each gets it. */
__device__ inline float sum_lanes(float lane)
{
    for (int half = ROW_LANES / 2; half > 0; half /= 2) {
        lane = lane + __shfl_xor_sync(0xffffffffu, lane, half);
    }
    return lane;
}

__device__ inline float largest_of_lanes(float lane)
{
    for (int half = ROW_LANES / 2; half > 0; half /= 2) {
        lane = larger_of(lane, __shfl_xor_sync(0xffffffffu, lane, half));
    }
    return lane;
}

/* The same sum, of lanes that lie in memory. */
__device__ inline float sum_of_array(const float *lanes)
{
    float sum[ROW_LANES];
    for (int i = 0; i < ROW_LANES; i++) {
        sum[i] = lanes[i];
    }
    for (int half = ROW_LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            sum[i] = sum[i] + sum[i + half];
        }
    }
    return sum[0];
}

#endif
