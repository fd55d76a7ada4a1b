/* Kernels of the NCCL backend: the fixed tree over ranks, and the numbers for the flight record. */
#include "nccl/nccl_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace
{

enum { RANKS_MAX = 64, THREADS = 256, BLOCKS_MAX = 2048 };

/* How an element is computed with: what it is loaded to, and stored from. */
template <typename T> struct element {
    typedef T wide;
    static __device__ wide load(T v)
    {
        return v;
    }
    static __device__ T store(wide v)
    {
        return v;
    }
};
template <> struct element<__half> {
    typedef float wide;
    static __device__ wide load(__half v)
    {
        return __half2float(v);
    }
    static __device__ __half store(wide v)
    {
        return __float2half_rn(v);
    }
};
template <> struct element<__nv_bfloat16> {
    typedef float wide;
    static __device__ wide load(__nv_bfloat16 v)
    {
        return __bfloat162float(v);
    }
    static __device__ __nv_bfloat16 store(wide v)
    {
        return __float2bfloat16_rn(v);
    }
};

/* No fused multiply-add can arise here: sums are of sums, products of products. Signed integers
 * wrap, so they are combined as unsigned ones. */
__device__ float combine(float a, float b, bool adds)
{
    return adds ? a + b : a * b;
}
__device__ double combine(double a, double b, bool adds)
{
    return adds ? a + b : a * b;
}
__device__ int32_t combine(int32_t a, int32_t b, bool adds)
{
    return (int32_t)(adds ? (uint32_t)a + (uint32_t)b : (uint32_t)a * (uint32_t)b);
}
__device__ int64_t combine(int64_t a, int64_t b, bool adds)
{
    return (int64_t)(adds ? (uint64_t)a + (uint64_t)b : (uint64_t)a * (uint64_t)b);
}
__device__ uint32_t combine(uint32_t a, uint32_t b, bool adds)
{
    return adds ? a + b : a * b;
}
__device__ uint64_t combine(uint64_t a, uint64_t b, bool adds)
{
    return adds ? a + b : a * b;
}
__device__ uint8_t combine(uint8_t a, uint8_t b, bool adds)
{
    return (uint8_t)(adds ? (unsigned)a + b : (unsigned)a * b);
}
__device__ int8_t combine(int8_t a, int8_t b, bool adds)
{
    return (int8_t)combine((uint8_t)a, (uint8_t)b, adds);
}

/* RANKS: known when compiled, so that the operands stay in registers; 0: any number. */
template <typename T, int RANKS>
__global__ void tree(const T *parts, T *out, size_t count, int given, bool adds, int divisor)
{
    typedef typename element<T>::wide wide;
    const int ranks = RANKS > 0 ? RANKS : given;
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        wide v[RANKS > 0 ? RANKS : RANKS_MAX];
#pragma unroll
        for (int r = 0; r < ranks; r++) {
            v[r] = element<T>::load(parts[(size_t)r * count + i]);
        }
#pragma unroll
        for (int step = 1; step < ranks; step *= 2) {
#pragma unroll
            for (int r = 0; r + step < ranks; r += 2 * step) {
                v[r] = combine(v[r], v[r + step], adds);
            }
        }
        out[i] = element<T>::store(divisor > 1 ? (wide)(v[0] / (wide)divisor) : v[0]);
    }
}

template <typename T> cudaError_t launch(cudaStream_t stream, const coll_nccl_tree *t)
{
    const size_t wanted = (t->count + THREADS - 1) / THREADS;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    const T *parts = (const T *)t->parts;
    T *out = (T *)t->out;
    const bool adds = t->reduce != COLL_PRODUCT;
    switch (t->ranks) {
    case 2:
        tree<T, 2><<<blocks, THREADS, 0, stream>>>(parts, out, t->count, 2, adds, t->divisor);
        break;
    case 4:
        tree<T, 4><<<blocks, THREADS, 0, stream>>>(parts, out, t->count, 4, adds, t->divisor);
        break;
    case 8:
        tree<T, 8><<<blocks, THREADS, 0, stream>>>(parts, out, t->count, 8, adds, t->divisor);
        break;
    default:
        tree<T, 0>
            <<<blocks, THREADS, 0, stream>>>(parts, out, t->count, t->ranks, adds, t->divisor);
        break;
    }
    return cudaGetLastError();
}

/* Nanoseconds of the device's own clock. */
__device__ uint64_t now_ns()
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* One thread each. Streams may run these at once, and the host reads meanwhile. A lock in the device's
 * memory orders them, so what the host sees never falls: a note's stores come before those of the
 * next one. The working numbers are in the device's memory, too, because each read of the host's
 * memory takes longer than all the rest. A store to it is not waited for. As long as operations are
 * under way, each note adds the time since the one before. */
__global__ void note(coll_nccl_notes notes, bool begins)
{
    volatile coll_nccl_numbers *numbers = notes.numbers;
    volatile coll_nccl_progress *progress = notes.progress;
    while (atomicExch(&notes.numbers->locked, 1U) != 0) { /* whoever has it is running */
    }
    __threadfence();
    const uint64_t has_begun = numbers->started;
    const uint64_t has_ended = numbers->finished;
    const uint64_t since = numbers->since_ns;
    const uint64_t now = now_ns();
    uint64_t busy = numbers->busy_ns;
    if (has_begun != has_ended && now > since) {
        busy += now - since;
    }
    numbers->since_ns = now;
    numbers->busy_ns = busy;
    progress->busy_ns = busy; /* before the operation counts */
    if (begins) {
        numbers->started = has_begun + 1;
        progress->started = has_begun + 1;
    } else {
        numbers->finished = has_ended + 1;
        progress->finished = has_ended + 1;
    }
    __threadfence();
    numbers->locked = 0;
}

} // namespace

extern "C" cudaError_t coll_nccl_tree_run(cudaStream_t stream, const coll_nccl_tree *t)
{
    if (t->count == 0) {
        return cudaSuccess;
    }
    if (t->ranks < 1 || t->ranks > RANKS_MAX) {
        return cudaErrorInvalidValue;
    }
    switch (t->type) {
    case COLL_FLOAT32:
        return launch<float>(stream, t);
    case COLL_FLOAT64:
        return launch<double>(stream, t);
    case COLL_INT32:
        return launch<int32_t>(stream, t);
    case COLL_INT64:
        return launch<int64_t>(stream, t);
    case COLL_UINT32:
        return launch<uint32_t>(stream, t);
    case COLL_UINT64:
        return launch<uint64_t>(stream, t);
    case COLL_UINT8:
        return launch<uint8_t>(stream, t);
    case COLL_INT8:
        return launch<int8_t>(stream, t);
    case COLL_FLOAT16:
        return launch<__half>(stream, t);
    case COLL_BFLOAT16:
        return launch<__nv_bfloat16>(stream, t);
    }
    return cudaErrorInvalidValue;
}

extern "C" cudaError_t coll_nccl_begin_run(cudaStream_t stream, const coll_nccl_notes *notes)
{
    note<<<1, 1, 0, stream>>>(*notes, true);
    return cudaGetLastError();
}

extern "C" cudaError_t coll_nccl_end_run(cudaStream_t stream, const coll_nccl_notes *notes)
{
    note<<<1, 1, 0, stream>>>(*notes, false);
    return cudaGetLastError();
}
