// For the backend `cuda`: layer norm and its gradient. A warp has a row, and keeps it in registers.
// Launched by fast.c.
//
// Rows wider than GRAD_WIDTH_MAX or NORM_WIDTH_MAX do not fit there. They get the kernels of
// `cuda-exact`.
#include "fast.h"

#define EPSILON 1e-5f

enum {
    NORM_THREADS = 128,
    NORM_WARPS = NORM_THREADS / WARP,
    NORM_WIDTH_MAX = 16 * WARP_COLUMNS,
    GRAD_THREADS = 256,
    GRAD_WARPS = GRAD_THREADS / WARP,
    GRAD_BLOCKS = 128, // at most; each leaves a part of the three column sums
    GRAD_WIDTH_MAX = 8 * WARP_COLUMNS,
    GRAD_SUMS = 3,
};
static_assert(GRAD_BLOCKS * GRAD_SUMS * GRAD_WIDTH_MAX <= PART_FLOATS, "room for the parts");
static_assert((int)GRAD_BLOCKS <= (int)PARTS_MAX, "parts of one sum");

// K: how many fours a lane has of a row.
template <int K, bool VEC> struct row_fours {
    float4 at[K];
    __device__ static size_t column(int k)
    {
        return ((size_t)k * WARP + threadIdx.x % WARP) * FOUR;
    }
    __device__ void load(const float *row, size_t width)
    {
#pragma unroll
        for (int k = 0; k < K; k++) {
            at[k] = load_four<VEC>(row, column(k), width);
        }
    }
    template <typename E> __device__ void store(E *row, size_t width) const
    {
#pragma unroll
        for (int k = 0; k < K; k++) {
            store_four<VEC>(row, column(k), width, at[k]);
        }
    }
};

__device__ static float square_from(float x, float mean, bool exists)
{
    const float d = exists ? x - mean : 0.0f;
    return d * d;
}

template <int K, bool VEC>
__device__ static void add_residual(const rank_layernorm &args, size_t row, row_fours<K, VEC> &x)
{
    const size_t from = args.residual_rows != NULL ? (size_t)args.residual_rows[row] : row;
    const float *residual = args.residual + from * args.width;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const size_t column = x.column(k);
        x.at[k] = plus(plus(x.at[k], load_four<VEC>(args.residual_bias, column, args.width)),
                       load_four<VEC>(residual, column, args.width));
    }
    x.store(args.x + row * args.width, args.width);
}

template <int K, typename E, bool VEC>
__global__ static void __launch_bounds__(NORM_THREADS) fast_layernorm_kernel(rank_layernorm args)
{
    const size_t row = (size_t)blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
    const size_t width = args.width;
    row_fours<K, VEC> x;
    if (row >= args.rows) { // a whole warp
        return;
    }
    x.load(args.x + row * width, width);
    if (args.residual != NULL) {
        add_residual(args, row, x);
    }
    if (args.out == NULL) {
        return;
    }
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < K; k++) {
        sum = sum + sum_of_four(x.at[k]);
    }
    const float mean = sum_warp(sum) / (float)width;
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const size_t c = x.column(k);
        squares = squares + sum_of_four(make_float4(square_from(x.at[k].x, mean, c < width),
                                                    square_from(x.at[k].y, mean, c + 1 < width),
                                                    square_from(x.at[k].z, mean, c + 2 < width),
                                                    square_from(x.at[k].w, mean, c + 3 < width)));
    }
    const float rstd = 1.0f / sqrtf(sum_warp(squares) / (float)width + EPSILON);
#pragma unroll
    for (int k = 0; k < K; k++) {
        const float4 w = load_four<VEC>(args.weight, x.column(k), width);
        const float4 b = load_four<VEC>(args.bias, x.column(k), width);
        x.at[k] = make_float4(
            fmaf((x.at[k].x - mean) * rstd, w.x, b.x), fmaf((x.at[k].y - mean) * rstd, w.y, b.y),
            fmaf((x.at[k].z - mean) * rstd, w.z, b.z), fmaf((x.at[k].w - mean) * rstd, w.w, b.w));
    }
    x.store((E *)args.out + row * width, width);
    if (threadIdx.x % WARP == 0) {
        args.mean[row] = mean;
        args.rstd[row] = rstd;
    }
}

template <int K, typename E>
static void launch_norm(const rank_layernorm *args, bool vec, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((args->rows + NORM_WARPS - 1) / NORM_WARPS);
    LAUNCH((vec ? fast_layernorm_kernel<K, E, true> : fast_layernorm_kernel<K, E, false>), blocks,
           NORM_THREADS, 0, stream, *args);
}

extern "C" void cuda_launch_fast_layernorm(const rank_layernorm *args, cudaStream_t stream)
{
    uintptr_t addresses = address_of(args->x) | address_of(args->weight) | address_of(args->bias);
    addresses |= address_of(args->out) | address_of(args->residual);
    addresses |= args->residual != NULL ? address_of(args->residual_bias) : 0;
    const bool vec = in_fours(args->width, addresses);
    const size_t fours = (args->width + WARP_COLUMNS - 1) / WARP_COLUMNS;
    if (args->width > NORM_WIDTH_MAX) {
        cuda_launch_layernorm(args, stream);
    } else if (fours <= 1) {
        WITH_ELEMENT(args->type, launch_norm<1, Element>(args, vec, stream));
    } else if (fours <= 4) {
        WITH_ELEMENT(args->type, launch_norm<4, Element>(args, vec, stream));
    } else if (fours <= 6) {
        WITH_ELEMENT(args->type, launch_norm<6, Element>(args, vec, stream));
    } else if (fours <= 8) {
        WITH_ELEMENT(args->type, launch_norm<8, Element>(args, vec, stream));
    } else {
        WITH_ELEMENT(args->type, launch_norm<16, Element>(args, vec, stream));
    }
}

// The three column sums of the rows that a warp has had.
template <int K> struct grad_sums {
    float4 weight[K];
    float4 bias[K];
    float4 dx[K];
};

__device__ static float4 times(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__device__ static float4 plus_product(float4 a, float4 b, float4 c)
{
    return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z),
                       fmaf(a.w, b.w, c.w));
}

// row: mean, rstd, the mean of dnormal, the mean of dnormal · normal.
__device__ static float grad_of(float normal, float dnormal, const float4 &row)
{
    return (dnormal - row.z - normal * row.w) * row.y;
}

// A row's gradient. dx may be dout's memory. Everything is read before anything is written: so the
// row's reads are under way together.
template <int K, bool VEC>
__device__ static void row_grad(const rank_layernorm_grad &args, size_t row, grad_sums<K> &sums)
{
    const size_t width = args.width;
    row_fours<K, VEC> normal;
    row_fours<K, VEC> d;
    row_fours<K, VEC> before = {};
    float4 of_row = make_float4(args.mean[row], args.rstd[row], 0.0f, 0.0f);
    float sum_d = 0.0f;
    float sum_dn = 0.0f;
    normal.load(args.x + row * width, width);
    d.load(args.dout + row * width, width);
    if (args.keep) {
        before.load(args.dx + row * width, width);
    }
#pragma unroll
    for (int k = 0; k < K; k++) { // behind the row's end d is 0
        const float4 x = normal.at[k];
        const float4 n = make_float4((x.x - of_row.x) * of_row.y, (x.y - of_row.x) * of_row.y,
                                     (x.z - of_row.x) * of_row.y, (x.w - of_row.x) * of_row.y);
        sums.weight[k] = plus_product(d.at[k], n, sums.weight[k]);
        sums.bias[k] = plus(sums.bias[k], d.at[k]);
        d.at[k] = times(d.at[k], load_four<VEC>(args.weight, d.column(k), width)); // now dnormal
        normal.at[k] = n;
        sum_d = sum_d + sum_of_four(d.at[k]);
        sum_dn = sum_dn + sum_of_four(times(d.at[k], n));
    }
    of_row.z = sum_warp(sum_d) / (float)width;
    of_row.w = sum_warp(sum_dn) / (float)width;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const float4 n = normal.at[k];
        const float4 g = d.at[k];
        float4 dx = make_float4(grad_of(n.x, g.x, of_row), grad_of(n.y, g.y, of_row),
                                grad_of(n.z, g.z, of_row), grad_of(n.w, g.w, of_row));
        dx = args.keep ? plus(dx, before.at[k]) : dx;
        sums.dx[k] = plus(sums.dx[k], dx);
        store_four<VEC>(args.dx + row * width, d.column(k), width, dx);
        if (args.rounded != NULL) {
            store_four<VEC>((__nv_bfloat16 *)args.rounded + row * width, d.column(k), width, dx);
        }
    }
}

// parts (gridDim.x, 3, C): the sums of the block's warps, in their order.
template <int K>
__device__ static void leave_parts(const grad_sums<K> &sums, size_t width, float4 *tile,
                                   float *parts)
{
    const float *values = reinterpret_cast<const float *>(tile);
    parts += (size_t)blockIdx.x * GRAD_SUMS * width;
#pragma unroll
    for (int k = 0; k < K; k++) {
        tile[threadIdx.x] = sums.weight[k];
        tile[GRAD_THREADS + threadIdx.x] = sums.bias[k];
        tile[2 * GRAD_THREADS + threadIdx.x] = sums.dx[k];
        __syncthreads();
        for (int i = (int)threadIdx.x; i < GRAD_SUMS * WARP_COLUMNS; i += GRAD_THREADS) {
            const float *of_sum = values + (size_t)(i / WARP_COLUMNS) * GRAD_THREADS * FOUR;
            const size_t column = (size_t)k * WARP_COLUMNS + (size_t)(i % WARP_COLUMNS);
            float sum = of_sum[i % WARP_COLUMNS];
            for (int w = 1; w < GRAD_WARPS; w++) {
                sum = sum + of_sum[w * WARP_COLUMNS + i % WARP_COLUMNS];
            }
            if (column < width) {
                parts[(size_t)(i / WARP_COLUMNS) * width + column] = sum;
            }
        }
        __syncthreads();
    }
}

template <int K, bool VEC>
__global__ static void __launch_bounds__(GRAD_THREADS)
    fast_layernorm_grad_kernel(rank_layernorm_grad args, float *parts)
{
    SHARED(float4, tile);
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    grad_sums<K> sums;
#pragma unroll
    for (int k = 0; k < K; k++) {
        sums.weight[k] = zero;
        sums.bias[k] = zero;
        sums.dx[k] = zero;
    }
    for (size_t row = (size_t)blockIdx.x * GRAD_WARPS + threadIdx.x / WARP; row < args.rows;
         row += (size_t)gridDim.x * GRAD_WARPS) {
        row_grad<K, VEC>(args, row, sums);
    }
    leave_parts<K>(sums, args.width, tile, parts);
}

template <int K>
static void launch_grad(const rank_layernorm_grad *args, bool vec, float *parts,
                        cudaStream_t stream)
{
    const size_t wanted = (args->rows + GRAD_WARPS - 1) / GRAD_WARPS;
    const unsigned blocks = (unsigned)(wanted < GRAD_BLOCKS ? wanted : (size_t)GRAD_BLOCKS);
    const sums_to to = {{args->dweight, args->dbias, args->dx_sum}, args->width};
    LAUNCH((vec ? fast_layernorm_grad_kernel<K, true> : fast_layernorm_grad_kernel<K, false>),
           blocks, GRAD_THREADS, GRAD_SUMS * GRAD_THREADS * sizeof(float4), stream, *args, parts);
    launch_column_ends(parts, blocks, GRAD_SUMS * args->width, to, stream);
}

extern "C" void cuda_launch_fast_layernorm_grad(const rank_layernorm_grad *args, double *partials,
                                                cudaStream_t stream)
{
    float *parts = (float *)partials;
    const bool vec = in_fours(args->width, address_of(args->x) | address_of(args->weight) |
                                               address_of(args->dout) | address_of(args->dx) |
                                               address_of(args->rounded));
    const size_t fours = (args->width + WARP_COLUMNS - 1) / WARP_COLUMNS;
    if (args->width > GRAD_WIDTH_MAX) {
        const rank_cast cast = {args->rows * args->width, args->dx, args->rounded};
        cuda_launch_layernorm_grad(args, stream);
        if (args->rounded != NULL) {
            cuda_launch_cast(&cast, stream);
        }
    } else if (fours <= 1) {
        launch_grad<1>(args, vec, parts, stream);
    } else if (fours <= 4) {
        launch_grad<4>(args, vec, parts, stream);
    } else if (fours <= 6) {
        launch_grad<6>(args, vec, parts, stream);
    } else {
        launch_grad<8>(args, vec, parts, stream);
    }
}
