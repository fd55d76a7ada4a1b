// Sums of squares, the gradients' scale, and the difference of two arrays. Launched by
// operations.c.
#include "device.h"
#include "kernels.h"

enum {
    THREADS = 256,
    BLOCKS_MAX = 512, // that leave partial results
};

// What a block leaves of its values for the sum of backend/squares.h.
struct squares_part {
    rank_squares sum;
    int32_t largest;
};

static_assert(BLOCKS_MAX * sizeof(squares_part) <= CUDA_PARTIALS * sizeof(double), "scratch");

struct squares_shared {
    rank_squares sums[THREADS];
    int32_t largest[THREADS];
};

__device__ static int32_t join(int32_t a, int32_t b)
{
    return b > a ? b : a;
}

__device__ static rank_squares join(rank_squares a, rank_squares b)
{
    return {a.low + b.low, a.high + b.high};
}

// What the threads of a block have, joined, for each of them. `shared` is used once.
template <typename T> __device__ static T join_block(T mine, T *shared)
{
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
    }
    return shared[0];
}

// The largest of all blocks, for each thread.
__device__ static int32_t largest_of(const squares_part *parts, size_t blocks, int32_t *shared)
{
    int32_t largest = 0;
    for (size_t i = threadIdx.x; i < blocks; i += THREADS) {
        largest = join(largest, parts[i].largest);
    }
    return join_block(largest, shared);
}

__global__ static void largest_kernel(const float *values, size_t count, squares_part *parts)
{
    SHARED(squares_shared, shared);
    int32_t largest = 0;
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        largest = join(largest, (int32_t)(__float_as_uint(values[i]) & INT32_MAX));
    }
    largest = join_block(largest, shared->largest);
    if (threadIdx.x == 0) {
        parts[blockIdx.x].largest = largest;
    }
}

// With the grid of largest_kernel. If the largest is not finite, nobody reads these sums.
__global__ static void squares_kernel(const float *values, size_t count, squares_part *parts)
{
    SHARED(squares_shared, shared);
    const double magic = rank_squares_magic(largest_of(parts, gridDim.x, shared->largest));
    const uint64_t magic_bits = (uint64_t)__double_as_longlong(magic);
    rank_squares sum = {0, 0};
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        const double x = (double)values[i];
        const uint64_t ulps = (uint64_t)__double_as_longlong(x * x + magic) - magic_bits;
        sum.low += ulps & UINT32_MAX;
        sum.high += ulps >> 32;
    }
    sum.high += sum.low >> 32;
    sum.low &= UINT32_MAX;
    sum = join_block(sum, shared->sums);
    if (threadIdx.x == 0) {
        parts[blockIdx.x].sum = sum;
    }
}

// One block, over the parts of all.
__global__ static void squares_end_kernel(const squares_part *parts, size_t blocks, double *result)
{
    SHARED(squares_shared, shared);
    const int32_t largest = largest_of(parts, blocks, shared->largest);
    rank_squares sum = {0, 0};
    for (size_t i = threadIdx.x; i < blocks; i += THREADS) {
        sum = join(sum, parts[i].sum);
    }
    sum = join_block(sum, shared->sums);
    if (threadIdx.x == 0) {
        *result = rank_squares_value(&sum, largest);
    }
}

static unsigned few_blocks_for(size_t count)
{
    const unsigned wanted = blocks_for(count, THREADS);
    return wanted < BLOCKS_MAX ? wanted : (unsigned)BLOCKS_MAX;
}

extern "C" void cuda_launch_sum_squares(const rank_sum_squares *args, double *partials,
                                        cudaStream_t stream)
{
    const unsigned blocks = few_blocks_for(args->count);
    squares_part *parts = reinterpret_cast<squares_part *>(partials);
    LAUNCH(largest_kernel, blocks, THREADS, sizeof(squares_shared), stream, args->values,
           args->count, parts);
    LAUNCH(squares_kernel, blocks, THREADS, sizeof(squares_shared), stream, args->values,
           args->count, parts);
    LAUNCH(squares_end_kernel, 1, THREADS, sizeof(squares_shared), stream, parts, (size_t)blocks,
           args->sum);
}

__global__ static void grad_scale_kernel(rank_grad_scale args)
{
    const double tokens = *args.tokens;
    const double norm = sqrt(*args.sum_squares) / tokens;
    const double clip = args.norm_max / (norm + 1e-6);
    *args.norm = norm;
    *args.scale = (float)(args.norm_max > 0.0 && clip < 1.0 ? clip / tokens : 1.0 / tokens);
}

extern "C" void cuda_launch_grad_scale(const rank_grad_scale *args, cudaStream_t stream)
{
    LAUNCH(grad_scale_kernel, 1, 1, 0, stream, *args);
}

// NaN counts as largest.
__device__ static double wider(double a, double b)
{
    return b > a || b != b ? b : a;
}

// The largest of the threads' values, and whether any of their bytes differ: to results[0] and [1].
__device__ static void reduce_difference(double largest, double differs, double *shared,
                                         double *results)
{
    shared[threadIdx.x] = largest;
    shared[THREADS + threadIdx.x] = differs;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] = wider(shared[threadIdx.x], shared[threadIdx.x + half]);
            shared[THREADS + threadIdx.x] =
                wider(shared[THREADS + threadIdx.x], shared[THREADS + threadIdx.x + half]);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        results[0] = shared[0];
        results[1] = shared[THREADS];
    }
}

__global__ static void difference_kernel(rank_difference args, double *partials)
{
    SHARED(double, shared);
    double largest = 0.0;
    double differs = 0.0;
    for (size_t i = first_thing(); i < args.count; i += all_threads()) {
        const float a = args.a[i];
        const float b = args.b[i];
        if (__float_as_uint(a) != __float_as_uint(b)) {
            differs = 1.0;
        }
        largest = wider(largest, fabs((double)a - (double)b));
    }
    reduce_difference(largest, differs, shared, partials + 2 * (size_t)blockIdx.x);
}

// One block, over the results of all. Equal NaNs are no difference if all bytes are equal.
__global__ static void difference_end_kernel(const double *partials, size_t blocks, bool *equal,
                                             double *largest)
{
    SHARED(double, shared);
    double results[2] = {0.0, 0.0};
    double most = 0.0;
    double differs = 0.0;
    for (size_t i = threadIdx.x; i < blocks; i += THREADS) {
        most = wider(most, partials[2 * i]);
        differs = wider(differs, partials[2 * i + 1]);
    }
    reduce_difference(most, differs, shared, results);
    if (threadIdx.x == 0) {
        *equal = results[1] == 0.0;
        *largest = results[1] == 0.0 ? 0.0 : results[0];
    }
}

extern "C" void cuda_launch_difference(const rank_difference *args, double *partials,
                                       cudaStream_t stream)
{
    const unsigned blocks = few_blocks_for(args->count);
    LAUNCH(difference_kernel, blocks, THREADS, 2 * THREADS * sizeof(double), stream, *args,
           partials);
    LAUNCH(difference_end_kernel, 1, THREADS, 2 * THREADS * sizeof(double), stream, partials,
           (size_t)blocks, args->equal, args->largest);
}
