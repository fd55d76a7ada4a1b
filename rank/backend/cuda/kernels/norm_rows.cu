// Layer norm with the residual added on the way, one block for a row: in decoding there are few rows
// and each norm is waited for. Launched by operations.c.
//
// Each thread has every THREADS-th element, in registers. Sums are those of threads, in a warp by
// halves, then of warps in their order: the same for a row whatever the other rows are.
#include "element.h"
#include "kernels.h"
#include "vectors.h"

#define EPSILON 1e-5f

enum {
    WARP = 32,
    WARPS = 8,
    THREADS = WARPS * WARP,
    WIDTH_MAX = 32 * THREADS, // wider rows have the kernel of `cuda-exact`
};

__device__ static float sum_of_block(float mine, float *warps)
{
    mine = sum_warp(mine);
    if (threadIdx.x % WARP == 0) {
        warps[threadIdx.x / WARP] = mine;
    }
    __syncthreads();
    float sum = warps[0];
    for (int w = 1; w < WARPS; w++) {
        sum = sum + warps[w];
    }
    return sum;
}

// EACH: elements of a thread. Weights are read while the kernel before this one runs, and the rest is
// asked for together.
template <int EACH, typename Element> __global__ static void norm_rows_kernel(rank_layernorm args)
{
    SHARED(float, warps); // (2, WARPS)
    Element *out = static_cast<Element *>(args.out);
    const size_t row = blockIdx.x;
    const size_t width = args.width;
    float x[EACH];
    float weight[EACH];
    float bias[EACH];
    float below[EACH]; // the bias of the residual
    float sum = 0.0f;
    begin_reading_ahead();
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const size_t j = (size_t)i * THREADS + threadIdx.x;
        weight[i] = j < width && args.out != NULL ? args.weight[j] : 0.0f;
        bias[i] = j < width && args.out != NULL ? args.bias[j] : 0.0f;
        below[i] = j < width && args.residual != NULL ? args.residual_bias[j] : 0.0f;
    }
    end_reading_ahead();
    wait_for_previous();
    const size_t from = args.residual_rows != NULL ? (size_t)args.residual_rows[row] : row;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const size_t j = (size_t)i * THREADS + threadIdx.x;
        x[i] = j < width ? args.x[row * width + j] : 0.0f;
        if (j < width && args.residual != NULL) {
            x[i] = (x[i] + below[i]) + args.residual[from * width + j];
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const size_t j = (size_t)i * THREADS + threadIdx.x;
        if (j < width && args.residual != NULL) {
            args.x[row * width + j] = x[i];
        }
        sum = sum + x[i];
    }
    if (args.out == NULL) {
        return;
    }
    const float mean = sum_of_block(sum, warps) / (float)width;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const float d = (size_t)i * THREADS + threadIdx.x < width ? x[i] - mean : 0.0f;
        squares = fmaf(d, d, squares);
    }
    const float rstd = 1.0f / sqrtf(sum_of_block(squares, warps + WARPS) / (float)width + EPSILON);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const size_t j = (size_t)i * THREADS + threadIdx.x;
        if (j < width) {
            put(out + row * width + j, fmaf((x[i] - mean) * rstd, weight[i], bias[i]));
        }
    }
    if (threadIdx.x == 0) {
        args.mean[row] = mean;
        args.rstd[row] = rstd;
    }
}

template <int EACH> static void launch(const rank_layernorm *args, cudaStream_t stream)
{
    WITH_ELEMENT(args->type, const auto kernel = norm_rows_kernel<EACH, Element>;
                 LAUNCH_OVERLAPPED(kernel, (unsigned)args->rows, THREADS, 2 * WARPS * sizeof(float),
                                   stream, *args));
}

extern "C" void cuda_launch_norm_rows(const rank_layernorm *args, cudaStream_t stream)
{
    if (args->width <= 4 * THREADS) {
        launch<4>(args, stream);
    } else if (args->width <= 8 * THREADS) {
        launch<8>(args, stream);
    } else if (args->width <= 16 * THREADS) {
        launch<16>(args, stream);
    } else if (args->width <= WIDTH_MAX) {
        launch<32>(args, stream);
    } else {
        cuda_launch_layernorm(args, stream);
    }
}
