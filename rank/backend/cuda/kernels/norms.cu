// Sums of squares, the gradients' scale, and the difference of two arrays. Launched by
// operations.c.
#include "ordered_sum.h"

enum {
    THREADS = 256,
    NORM_LANES = 8, // of the sum of one block of RANK_NORM_BLOCK elements
    NORM_BLOCKS = THREADS / NORM_LANES,
    DIFFERENCE_BLOCKS = 512,
};

// NORM_LANES threads sum up one block of RANK_NORM_BLOCK elements.
__global__ static void block_sums_kernel(const float *values, size_t count, size_t blocks,
                                         double *sums)
{
    const size_t block = (size_t)blockIdx.x * NORM_BLOCKS + threadIdx.x / NORM_LANES;
    const size_t begin = block * RANK_NORM_BLOCK;
    const size_t end = begin + RANK_NORM_BLOCK < count ? begin + RANK_NORM_BLOCK : count;
    double lane = 0.0;
    for (size_t i = begin + threadIdx.x % NORM_LANES; i < end; i += NORM_LANES) {
        const double x = (double)values[i];
        lane = lane + x * x;
    }
    for (int half = NORM_LANES / 2; half > 0; half /= 2) {
        lane = lane + __shfl_xor_sync(0xffffffffu, lane, half);
    }
    if (block < blocks && threadIdx.x % NORM_LANES == 0) {
        sums[block] = lane;
    }
}

extern "C" void cuda_launch_sum_squares(const rank_sum_squares *args, double *partials,
                                        cudaStream_t stream)
{
    const size_t blocks = (args->count + RANK_NORM_BLOCK - 1) / RANK_NORM_BLOCK;
    for (size_t first = 0; first < blocks; first += SLAB) {
        const size_t here = blocks - first < SLAB ? blocks - first : (size_t)SLAB;
        const size_t begin = first * RANK_NORM_BLOCK;
        LAUNCH(block_sums_kernel, (unsigned)((here + NORM_BLOCKS - 1) / NORM_BLOCKS), THREADS, 0,
               stream, args->values + begin, args->count - begin, here, partials + 1);
        const slab_place place = {first == 0, first + here == blocks, args->sum, false};
        launch_ordered_sum(partials, here, place, stream);
    }
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
    const unsigned wanted = blocks_for(args->count, THREADS);
    const unsigned blocks = wanted < DIFFERENCE_BLOCKS ? wanted : (unsigned)DIFFERENCE_BLOCKS;
    LAUNCH(difference_kernel, blocks, THREADS, 2 * THREADS * sizeof(double), stream, *args,
           partials);
    LAUNCH(difference_end_kernel, 1, THREADS, 2 * THREADS * sizeof(double), stream, partials,
           (size_t)blocks, args->equal, args->largest);
}
