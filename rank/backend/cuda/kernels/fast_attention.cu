// For the backend `cuda`: causal attention of flat tokens in segments, in tiles, with the softmax
// made on the way: no memory grows with the square of the length. fast_attention.h explains the
// tiles, fast_attention_grad.cu has backward. Launched by fast.c.
#include "fast_attention_place.h"

// Of the softmax so far: the largest score of a row, and this lane's share of the sum.
template <typename S> struct softmax_state {
    float largest[S::each_down];
    float sum[S::each_down];
};

// From scores to exponentials; what was summed before is scaled to the new largest score. A row
// without any key yet has -INFINITY.
template <typename S>
__device__ static void soften(typename S::values &s, softmax_state<S> &soft, strip_sums<S> &sums)
{
#pragma unroll
    for (int i = 0; i < S::each_down; i++) {
        float largest = soft.largest[i];
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            largest = fmaxf(largest, s[i][j]);
        }
        largest = largest_across(largest);
        const float from = largest == -INFINITY ? 0.0f : largest;
        const float factor = quick_exponential(soft.largest[i] - from);
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            s[i][j] = quick_exponential(s[i][j] - from);
            sum = sum + s[i][j];
        }
        soft.sum[i] = fmaf(soft.sum[i], factor, sum);
        soft.largest[i] = largest;
        sums.scale(i, factor);
    }
}

template <typename S, typename E, bool VEC>
__device__ static void write_out(const rank_attention &args, const tile_place &at,
                                 strip_sums<S> &sums, const softmax_state<S> &soft)
{
#pragma unroll
    for (int i = 0; i < S::each_down; i++) {
        const float inverse = 1.0f / sum_across(soft.sum[i]);
        const int row = at.begin + own_row<S>(i);
        if (row >= at.end) {
            continue;
        }
        E *out = (E *)args.out + (at.token + (size_t)row) * args.width + at.head * at.width;
        sums.scale(i, inverse);
#pragma unroll
        for (int g = 0; g < S::fours; g++) {
            store_four<VEC>(out, sum_column(g), at.width, sums.at[i][g]);
        }
        if (lane_across() == 0) {
            args.row_max[statistic(args, at, row)] = soft.largest[i];
            args.row_scale[statistic(args, at, row)] = inverse;
        }
    }
}

// The tiles with most keys begin first.
template <typename S, typename E, bool VEC>
__global__ static void __launch_bounds__(S::threads) fast_attention_kernel(rank_attention args)
{
    SHARED(float, query);
    float *key = query + S::own_floats;
    float *value = key + S::stream_floats;
    float *strip = value + S::stream_floats + threadIdx.x / WARP * S::rows * STRIP_PITCH;
    const tile_place at = place_of<S>(args, gridDim.x - 1 - blockIdx.x);
    row_reader<S, S::own_batch, VEC, E> queries(rows_of_qkv<E>(args, at, 0), query);
    row_reader<S, S::stream_batch, VEC, E> keys(rows_of_qkv<E>(args, at, 1), key);
    row_reader<S, S::stream_batch, VEC, E> values(rows_of_qkv<E>(args, at, 2), value);
    row_bounds bounds[S::each_down];
    softmax_state<S> soft;
    strip_sums<S> sums;
    int k = stream_tile(at.scratch.bounds[at.begin].begin);
    fetch_ahead<S>(keys, values, k, at.end);
    bring_tile<S::own, S::own_batch>(queries, at.begin, at.end);
    load_bounds<S>(bounds, at);
    const stream_range range = keys_of_strip<S>(at);
    sums.clear();
#pragma unroll
    for (int i = 0; i < S::each_down; i++) {
        soft.largest[i] = -INFINITY;
        soft.sum[i] = 0.0f;
    }
    for (; k < at.end; k += STREAM) {
        put_streams<S>(keys, values, k, at.end);
        __syncthreads();
        fetch_ahead<S>(keys, values, k + STREAM, at.end);
        if (range.meets(k)) {
            typename S::values s;
            scores<S>(s, query, key);
            mask<S>(s, at, bounds, k, -INFINITY);
            soften<S>(s, soft, sums);
            put_strip<S>(strip, s);
            accumulate<S>(sums, strip, value);
        }
        __syncthreads();
    }
    write_out<S, E, VEC>(args, at, sums, soft);
}

template <typename S, typename E>
static void launch_forward_tiles(const rank_attention *args, cudaStream_t stream)
{
    const size_t bytes = (S::own_floats + 2 * S::stream_floats + S::strip_floats) * sizeof(float);
    void (*kernel)(rank_attention) = heads_in_fours(args) ? fast_attention_kernel<S, E, true>
                                                          : fast_attention_kernel<S, E, false>;
    ALLOW_SHARED(kernel, bytes);
    LAUNCH(kernel, grid_of<S>(args, 1), S::threads, bytes, stream, *args);
}

template <int D, typename E>
static void launch_forward(const rank_attention *args, cudaStream_t stream)
{
    if constexpr (D <= 64) {
        if (has_few_tiles<D>(args)) {
            launch_forward_tiles<tile_shape<D, LOW>, E>(args, stream);
            return;
        }
    }
    launch_forward_tiles<tile_shape<D, TALL>, E>(args, stream);
}

extern "C" size_t cuda_fast_attention_floats(const rank_attention_shape *shape)
{
    return attention_scratch_floats(shape);
}

extern "C" void cuda_launch_fast_attention(const rank_attention *args, cudaStream_t stream)
{
    const size_t width = args->width / args->heads;
    if (width > WIDTH_MAX) {
        cuda_launch_attention(args, stream);
        return;
    }
    cuda_launch_row_bounds(args, stream);
    if (cuda_can_mma_attention(args)) {
        cuda_launch_mma_attention(args, stream);
    } else if (width <= 32) {
        WITH_ELEMENT(args->type, launch_forward<32, Element>(args, stream));
    } else if (width <= 64) {
        WITH_ELEMENT(args->type, launch_forward<64, Element>(args, stream));
    } else {
        WITH_ELEMENT(args->type, launch_forward<128, Element>(args, stream));
    }
}
