// Layer norm with the residual added on the way, one block for a row: in decoding there are few rows
// and each norm is waited for. Launched by operations.c.
//
// Each thread has every THREADS-th element. Sums are those of threads, in a warp by halves, then of
// warps in their order: the same for a row whatever the other rows are.
#include "element.h"
#include "kernels.h"
#include "vectors.h"

#define EPSILON 1e-5f

enum { WARP = 32, WARPS = 8, THREADS = WARPS * WARP };

__device__ static float sum_of_block(float mine, float *warps)
{
    mine = sum_of_warp(mine);
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

template <typename Element> __global__ static void norm_rows_kernel(rank_layernorm args)
{
    Element *out = static_cast<Element *>(args.out);
    SHARED(float, warps); // (2, WARPS)
    const size_t row = blockIdx.x;
    const size_t width = args.width;
    float *x = args.x + row * width;
    float sum = 0.0f;
    if (args.residual != NULL) {
        const size_t from = args.residual_rows != NULL ? (size_t)args.residual_rows[row] : row;
        const float *residual = args.residual + from * width;
        for (size_t j = threadIdx.x; j < width; j += THREADS) {
            x[j] = (x[j] + args.residual_bias[j]) + residual[j];
        }
    }
    if (args.out == NULL) {
        return;
    }
    for (size_t j = threadIdx.x; j < width; j += THREADS) { // a thread reads what it has written
        sum = sum + x[j];
    }
    const float mean = sum_of_block(sum, warps) / (float)width;
    float squares = 0.0f;
    for (size_t j = threadIdx.x; j < width; j += THREADS) {
        const float d = x[j] - mean;
        squares = fmaf(d, d, squares);
    }
    const float rstd = 1.0f / sqrtf(sum_of_block(squares, warps + WARPS) / (float)width + EPSILON);
    for (size_t j = threadIdx.x; j < width; j += THREADS) {
        put(out + row * width + j, fmaf((x[j] - mean) * rstd, args.weight[j], args.bias[j]));
    }
    if (threadIdx.x == 0) {
        args.mean[row] = mean;
        args.rstd[row] = rstd;
    }
}

extern "C" void cuda_launch_norm_rows(const rank_layernorm *args, cudaStream_t stream)
{
    WITH_ELEMENT(args->type, LAUNCH(norm_rows_kernel<Element>, (unsigned)args->rows, THREADS,
                                    2 * WARPS * sizeof(float), stream, *args));
}
