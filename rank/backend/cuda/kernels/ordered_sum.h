/* A sum of doubles in their order, as one chain of additions. Included by kernels.
 *
 * What is summed comes in slabs of at most CUDA_PARTIALS - 1 partial results, which kernels leave
 * in scratch memory. The first double of the scratch is the running sum. */
#ifndef RANK_BACKEND_CUDA_KERNELS_ORDERED_SUM_H
#define RANK_BACKEND_CUDA_KERNELS_ORDERED_SUM_H

#include "device.h"
#include "kernels.h"

enum {
    SLAB = CUDA_PARTIALS - 1,
    ORDERED_THREADS = 256,
};

/* Where a slab stands in its sum. */
struct slab_place {
    bool first;
    bool last;
    double *result; /* what is there comes first; the sum is written after the last slab */
};

/* One block. Its threads bring values, and one of them adds. */
__global__ static void ordered_sum_kernel(double *partials, size_t count, slab_place place)
{
    SHARED(double, values);
    double sum = place.first ? *place.result : partials[0];
    for (size_t first = 0; first < count; first += ORDERED_THREADS) {
        const size_t left = count - first;
        if (threadIdx.x < left) {
            values[threadIdx.x] = partials[1 + first + threadIdx.x];
        }
        __syncthreads();
        for (size_t i = 0; threadIdx.x == 0 && i < left && i < ORDERED_THREADS; i++) {
            sum = sum + values[i];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partials[0] = sum;
        if (place.last) {
            *place.result = sum;
        }
    }
}

static void launch_ordered_sum(double *partials, size_t count, slab_place place,
                               cudaStream_t stream)
{
    LAUNCH(ordered_sum_kernel, 1, ORDERED_THREADS, ORDERED_THREADS * sizeof(double), stream,
           partials, count, place);
}

#endif
