// For the backend `cuda`: softmax cross entropy with its gradient, and sums of squares. Launched by
// fast.c.
//
// Small rows have a warp each, which keeps them in registers. Others have a block each, which reads
// its row once for the largest logit and the sum of exponentials together, and once more for the
// gradient.
#include "fast.h"

enum {
    LOSS_THREADS = 512, // of a block that has one row
    LOSS_WARPS = LOSS_THREADS / WARP,
    SMALL_THREADS = 128, // of a block whose warps have a row each
    SMALL_WARPS = SMALL_THREADS / WARP,
    SMALL_COLUMNS = 2048,
    SUM_THREADS = 1024, // of the block that ends a sum of doubles
    SQUARES_THREADS = 256,
    SQUARES_WARPS = SQUARES_THREADS / WARP,
    SQUARES_BLOCKS = 1024,
    SQUARES_EACH = 1024, // elements that a warp takes at once
};

// The largest of some values, and the sum of the exponentials of their distances from it.
struct soft_sum {
    float largest;
    float sum;
};

__device__ static soft_sum join(const soft_sum &a, const soft_sum &b)
{
    const float largest = larger_of(a.largest, b.largest);
    const float from_a =
        a.largest == largest ? a.sum : a.sum * quick_exponential(a.largest - largest);
    const float from_b =
        b.largest == largest ? b.sum : b.sum * quick_exponential(b.largest - largest);
    return {largest, from_a + from_b};
}

__device__ static float4 exponentials(float4 x, float largest)
{
    return make_float4(quick_exponential(x.x - largest), quick_exponential(x.y - largest),
                       quick_exponential(x.z - largest), quick_exponential(x.w - largest));
}

// With VEC fours are aligned, but the last one may end inside: it is moved one by one.
template <bool VEC> __device__ static float4 load_logits(const float *row, size_t c, size_t count)
{
    return VEC && c + FOUR <= count ? load_four<true>(row, c, count)
                                    : load_four<false>(row, c, count);
}

template <bool VEC, typename E>
__device__ static void store_logits(E *row, size_t c, size_t count, float4 x)
{
    if (VEC && c + FOUR <= count) {
        store_four<true>(row, c, count, x);
    } else {
        store_four<false>(row, c, count, x);
    }
}

__device__ static soft_sum sum_four(float4 x)
{
    const float largest = larger_of(larger_of(x.x, x.y), larger_of(x.z, x.w));
    return {largest, sum_of_four(exponentials(x, largest))};
}

// Of the fours that this one of `team` threads has. Columns behind the end are far below all.
template <bool VEC>
__device__ static soft_sum sum_row(const float *row, size_t count, size_t mine, size_t team)
{
    soft_sum sum = {-INFINITY, 0.0f};
    size_t c = mine * FOUR;
#pragma unroll 4
    for (; c + FOUR <= count; c += team * FOUR) {
        sum = join(sum, sum_four(load_four<VEC>(row, c, count)));
    }
    if (c < count) { // the last one, which ends inside
        float4 x = load_four<false>(row, c, count);
        x.y = c + 1 < count ? x.y : -INFINITY;
        x.z = c + 2 < count ? x.z : -INFINITY;
        x.w = c + 3 < count ? x.w : -INFINITY;
        sum = join(sum, sum_four(x));
    }
    return sum;
}

// For all lanes of the warp.
__device__ static soft_sum join_warp(soft_sum sum)
{
    for (int half = WARP / 2; half > 0; half /= 2) {
        const float largest = __shfl_xor_sync(0xffffffffu, sum.largest, half);
        const float other = __shfl_xor_sync(0xffffffffu, sum.sum, half);
        sum = threadIdx.x & (unsigned)half ? join(soft_sum{largest, other}, sum)
                                           : join(sum, soft_sum{largest, other});
    }
    return sum;
}

// From exponentials, of columns c … c + 3.
__device__ static float4 gradient_of(float4 p, float scale, size_t c, size_t target)
{
    return make_float4(p.x * scale - (c == target ? 1.0f : 0.0f),
                       p.y * scale - (c + 1 == target ? 1.0f : 0.0f),
                       p.z * scale - (c + 2 == target ? 1.0f : 0.0f),
                       p.w * scale - (c + 3 == target ? 1.0f : 0.0f));
}

template <bool VEC, typename E>
__device__ static void write_gradient(E *to, const float *row, size_t count, size_t mine,
                                      size_t team, const soft_sum &sum, size_t target)
{
    const float scale = 1.0f / sum.sum;
    for (size_t c = mine * FOUR; c < count; c += team * FOUR) {
        const float4 p = exponentials(load_logits<VEC>(row, c, count), sum.largest);
        store_logits<VEC>(to, c, count, gradient_of(p, scale, c, target));
    }
}

template <bool VEC, typename E>
__device__ static void write_zeros(E *to, size_t count, size_t mine, size_t team)
{
    for (size_t c = mine * FOUR; c < count; c += team * FOUR) {
        store_logits<VEC>(to, c, count, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    }
}

// A rounded gradient has zeros up to the next row; in place of logits nothing behind is touched.
__device__ static void write_end(float *, size_t, size_t, size_t, size_t)
{
}

__device__ static void write_end(__nv_bfloat16 *to, size_t count, size_t row, size_t mine,
                                 size_t team)
{
    for (size_t c = count + mine; c < row; c += team) {
        put(to + c, 0.0f);
    }
}

__device__ static double loss_of(const soft_sum &sum, float target_logit)
{
    return log((double)sum.sum) + ((double)sum.largest - (double)target_logit);
}

// Where a row's gradient goes: in place of the logits, or rounded.
__device__ static float *gradient_row(const rank_cross_entropy &args, size_t row, const float *)
{
    return args.logits + row * args.row_floats;
}

__device__ static __nv_bfloat16 *gradient_row(const rank_cross_entropy &args, size_t row,
                                              const __nv_bfloat16 *)
{
    return (__nv_bfloat16 *)args.rounded + row * args.row_floats;
}

// A block for each row.
template <bool VEC, typename E>
__global__ static void __launch_bounds__(LOSS_THREADS)
    block_loss_kernel(rank_cross_entropy args, double *losses)
{
    SHARED(soft_sum, warps);
    const size_t row = blockIdx.x;
    const int32_t target = args.targets[row];
    const float *logits = args.logits + row * args.row_floats;
    E *gradient = gradient_row(args, row, static_cast<const E *>(NULL));
    if (args.want_gradient) {
        write_end(gradient, args.vocab_size, args.row_floats, threadIdx.x, LOSS_THREADS);
    }
    if (target < 0) { // the whole block
        if (args.want_gradient) {
            write_zeros<VEC>(gradient, args.vocab_size, threadIdx.x, LOSS_THREADS);
        }
        if (threadIdx.x == 0) {
            losses[row] = 0.0;
        }
        return;
    }
    const float target_logit = logits[target];
    soft_sum sum = join_warp(sum_row<VEC>(logits, args.vocab_size, threadIdx.x, LOSS_THREADS));
    if (threadIdx.x % WARP == 0) {
        warps[threadIdx.x / WARP] = sum;
    }
    __syncthreads(); // and all have read the target's logit
    sum = warps[0];
    for (int w = 1; w < LOSS_WARPS; w++) {
        sum = join(sum, warps[w]);
    }
    if (threadIdx.x == 0) {
        losses[row] = loss_of(sum, target_logit);
    }
    if (args.want_gradient) {
        write_gradient<VEC>(gradient, logits, args.vocab_size, threadIdx.x, LOSS_THREADS, sum,
                            (size_t)target);
    }
}

// A four of logits; columns behind the end are far below all.
template <bool VEC> __device__ static float4 load_or_below(const float *row, size_t c, size_t count)
{
    if (VEC && c + FOUR <= count) {
        return load_four<true>(row, c, count);
    }
    return make_float4(c < count ? row[c] : -INFINITY, c + 1 < count ? row[c + 1] : -INFINITY,
                       c + 2 < count ? row[c + 2] : -INFINITY,
                       c + 3 < count ? row[c + 3] : -INFINITY);
}

// A warp for each row, which its lanes keep in K fours each.
template <int K, bool VEC, typename E>
__global__ static void __launch_bounds__(SMALL_THREADS)
    warp_loss_kernel(rank_cross_entropy args, double *losses)
{
    const size_t row = (size_t)blockIdx.x * SMALL_WARPS + threadIdx.x / WARP;
    const size_t lane = threadIdx.x % WARP;
    if (row >= args.rows) { // a whole warp
        return;
    }
    const int32_t target = args.targets[row];
    const float *logits = args.logits + row * args.row_floats;
    E *gradient = gradient_row(args, row, static_cast<const E *>(NULL));
    float4 x[K];
    soft_sum sum = {-INFINITY, 0.0f};
#pragma unroll
    for (int k = 0; k < K; k++) {
        x[k] = load_or_below<VEC>(logits, (k * WARP + lane) * FOUR, args.vocab_size);
    }
    if (args.want_gradient) {
        write_end(gradient, args.vocab_size, args.row_floats, lane, WARP);
    }
    if (target < 0) {
        if (args.want_gradient) {
            write_zeros<VEC>(gradient, args.vocab_size, lane, WARP);
        }
        if (lane == 0) {
            losses[row] = 0.0;
        }
        return;
    }
    const float target_logit = logits[target];
#pragma unroll
    for (int k = 0; k < K; k++) {
        sum.largest =
            larger_of(sum.largest, larger_of(larger_of(x[k].x, x[k].y), larger_of(x[k].z, x[k].w)));
    }
    sum.largest = largest_of_warp(sum.largest);
#pragma unroll
    for (int k = 0; k < K; k++) {
        x[k] = exponentials(x[k], sum.largest);
        sum.sum = sum.sum + sum_of_four(x[k]);
    }
    sum.sum = sum_warp(sum.sum);
    const float scale = 1.0f / sum.sum;
    __syncwarp(); // every lane has read the target's logit before another writes there
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (args.want_gradient) {
            const size_t c = (k * WARP + lane) * FOUR;
            store_logits<VEC>(gradient, c, args.vocab_size,
                              gradient_of(x[k], scale, c, (size_t)target));
        }
    }
    if (lane == 0) { // last: a logarithm in double takes long
        losses[row] = loss_of(sum, target_logit);
    }
}

// One block: *result = (add ? *result : 0) + the sum of the values, each thread's chain, then a tree.
__global__ static void __launch_bounds__(SUM_THREADS)
    sum_doubles_kernel(const double *values, size_t count, double *result, bool add)
{
    SHARED(double, warps);
    double sum = 0.0;
#pragma unroll 4
    for (size_t i = threadIdx.x; i < count; i += SUM_THREADS) {
        sum = sum + values[i];
    }
    sum = sum_warp(sum);
    if (threadIdx.x % WARP == 0) {
        warps[threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    if (threadIdx.x < WARP) {
        sum = sum_warp(warps[threadIdx.x]);
        if (threadIdx.x == 0) {
            *result = add ? *result + sum : sum;
        }
    }
}

static void launch_sum(const double *values, size_t count, double *result, bool add,
                       cudaStream_t stream)
{
    LAUNCH(sum_doubles_kernel, 1, SUM_THREADS, WARP * sizeof(double), stream, values, count, result,
           add);
}

template <int K, typename E>
static void launch_small_loss(const rank_cross_entropy *args, bool vec, double *losses,
                              cudaStream_t stream)
{
    LAUNCH((vec ? warp_loss_kernel<K, true, E> : warp_loss_kernel<K, false, E>),
           (unsigned)((args->rows + SMALL_WARPS - 1) / SMALL_WARPS), SMALL_THREADS, 0, stream,
           *args, losses);
}

template <typename E>
static void launch_loss(const rank_cross_entropy *args, bool vec, double *losses,
                        cudaStream_t stream)
{
    if (args->vocab_size <= 4 * WARP_COLUMNS) {
        launch_small_loss<4, E>(args, vec, losses, stream);
    } else if (args->vocab_size <= 8 * WARP_COLUMNS) {
        launch_small_loss<8, E>(args, vec, losses, stream);
    } else if (args->vocab_size > SMALL_COLUMNS) {
        LAUNCH((vec ? block_loss_kernel<true, E> : block_loss_kernel<false, E>),
               (unsigned)args->rows, LOSS_THREADS, LOSS_WARPS * sizeof(soft_sum), stream, *args,
               losses);
    } else {
        launch_small_loss<SMALL_COLUMNS / WARP_COLUMNS, E>(args, vec, losses, stream);
    }
}

extern "C" void cuda_launch_fast_cross_entropy(const rank_cross_entropy *args, double *partials,
                                               cudaStream_t stream)
{
    const bool vec =
        in_fours(rank_logit_row(args), address_of(args->logits) | address_of(args->rounded));
    for (size_t first = 0; first < args->rows; first += CUDA_PARTIALS) {
        const size_t left = args->rows - first;
        rank_cross_entropy slab = *args;
        slab.rows = left < CUDA_PARTIALS ? left : (size_t)CUDA_PARTIALS;
        slab.targets += first;
        slab.row_floats = rank_logit_row(args);
        slab.logits += first * slab.row_floats;
        if (slab.rounded != NULL) {
            slab.rounded += first * slab.row_floats;
            launch_loss<__nv_bfloat16>(&slab, vec, partials, stream);
        } else {
            launch_loss<float>(&slab, vec, partials, stream);
        }
        launch_sum(partials, slab.rows, args->loss, true, stream);
    }
}

__device__ static double squares_of(float4 x)
{
    return ((double)x.x * (double)x.x + (double)x.y * (double)x.y) +
           ((double)x.z * (double)x.z + (double)x.w * (double)x.w);
}

// `sum` plus the squares that this lane has of a block of SQUARES_EACH elements. All loads of a
// whole block are under way together. The last one of all may end inside a four.
template <bool VEC>
__device__ static double add_squares(double sum, const float *block, size_t count)
{
    constexpr int each = SQUARES_EACH / WARP_COLUMNS;
    const size_t lane = threadIdx.x % WARP;
    if (count < SQUARES_EACH) {
        for (size_t c = lane * FOUR; c < count; c += WARP_COLUMNS) {
            sum += squares_of(load_four<false>(block, c, count));
        }
        return sum;
    }
    float4 x[each];
#pragma unroll
    for (int i = 0; i < each; i++) {
        x[i] = load_four<VEC>(block, (i * WARP + lane) * FOUR, SQUARES_EACH);
    }
#pragma unroll
    for (int i = 0; i < each; i++) {
        sum += squares_of(x[i]);
    }
    return sum;
}

// A warp has blocks of SQUARES_EACH elements, in strides of the grid. Its sum goes to sums.
template <bool VEC>
__global__ static void fast_squares_kernel(const float *values, size_t count, double *sums)
{
    const size_t warp = (size_t)blockIdx.x * SQUARES_WARPS + threadIdx.x / WARP;
    const size_t step = (size_t)gridDim.x * SQUARES_WARPS * SQUARES_EACH;
    double sum = 0.0;
    for (size_t begin = warp * SQUARES_EACH; begin < count; begin += step) {
        sum = add_squares<VEC>(sum, values + begin, count - begin);
    }
    sum = sum_warp(sum);
    if (threadIdx.x % WARP == 0) {
        sums[warp] = sum;
    }
}

extern "C" void cuda_launch_fast_sum_squares(const rank_sum_squares *args, double *partials,
                                             cudaStream_t stream)
{
    enum { EACH = SQUARES_WARPS * SQUARES_EACH };
    const size_t wanted = (args->count + EACH - 1) / EACH;
    const size_t blocks = wanted < SQUARES_BLOCKS ? wanted : (size_t)SQUARES_BLOCKS;
    const bool vec = in_fours(FOUR, address_of(args->values));
    LAUNCH((vec ? fast_squares_kernel<true> : fast_squares_kernel<false>), (unsigned)blocks,
           SQUARES_THREADS, 0, stream, args->values, args->count, partials);
    launch_sum(partials, blocks * SQUARES_WARPS, args->sum, false, stream);
}
