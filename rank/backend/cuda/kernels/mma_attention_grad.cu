// The gradient of mma_attention.cu's attention. It makes the probabilities again from the largest
// score of a row and its sum. Queries' and keys' gradients are two runs of one kernel: the first over
// the keys of each query, the second over the queries of each key. Nothing is added up between
// blocks. Launched by fast_attention.cu, which then makes the biases' gradients.
//
// The first run also leaves in the scratch what the second has as its stream: queries with their
// bias and dout, both rounded, and each query's state.
//
// Keys and values have no bias here. What it adds to a query's scores, and to its products of dout and
// values, is the same for all keys, and so a part of the query's state. Its product with the scores'
// gradients is zero, because these add up to zero over a query's keys.
#include "mma_attention.h"

// What backward knows of a query: its probabilities are 2^(score · scale - shift), and `mean` is that
// of dout · value, weighted by them: dout · (out - the values' bias).
struct alignas(8) query_state {
    float shift;
    float mean;
};

// The states of a head's rows lie side by side.
__device__ static query_state *states_of(const rank_attention &args, const own_rows &own)
{
    return reinterpret_cast<query_state *>(own.scratch.means) + (size_t)own.head * args.rows;
}

// What the first run keeps for the second, of a head of a row side by side: 0 queries, 1 dout.
__device__ static array_rows<__nv_bfloat16> kept_rows(const rank_attention &args,
                                                      const own_rows &own, int which)
{
    __nv_bfloat16 *at = reinterpret_cast<__nv_bfloat16 *>(own.scratch.factors);
    return {at + (2 * own.head + which) * own.width, NULL, 2 * (int)args.width, own.width};
}

__device__ static array_rows<const __nv_bfloat16> as_stream(const array_rows<__nv_bfloat16> &rows)
{
    return {rows.at, NULL, rows.stride, rows.width};
}

// The states of this lane's queries, from dout as it was rounded and from out.
template <int D>
__device__ static void make_states(const rank_attention &args, const own_rows &own,
                                   const strip_factor<D> &query, const strip_factor<D> &dout,
                                   query_state (&state)[ROWS_EACH])
{
    const __nv_bfloat16 *out = (const __nv_bfloat16 *)args.out + place_of(own, args.width);
    float with_bias[ROWS_EACH];
    products_with_key_bias(with_bias, args, own, query);
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        const int32_t row = own.strip + strip_row(i);
        const int32_t there = row < own.end ? row : own.begin;
        float sum = 0.0f;
#pragma unroll
        for (int n = 0; n < mma_shape<D>::tiles; n++) {
            const int column = n * MMA_COLUMNS + mma_column(0);
            const bias_pair bias = bias_of(args, own, 2, column);
            const uint32_t d = pair_at(dout, i, n);
            const uint32_t o =
                column < own.width
                    ? *reinterpret_cast<const uint32_t *>(out + (size_t)there * args.width + column)
                    : 0;
            sum = fmaf(low_of(o) - bias.left, low_of(d),
                       fmaf(high_of(o) - bias.right, high_of(d), sum));
        }
        const size_t at = statistic(args, own, there);
        state[i].mean = sum_of_quad(sum);
        state[i].shift =
            fmaf(args.row_max[at] - with_bias[i] * own.scale, LOG2_E, -log2f(args.row_scale[at]));
        if (row < own.end && threadIdx.x % 4 == 0) {
            states_of(args, own)[row] = state[i];
        }
    }
}

// From scores to probabilities. `state` has the lane's own queries, or those of the stream.
template <bool KEYS>
__device__ static void make_probabilities(strip_scores<GROUP> &s, const query_state *state,
                                          float scale)
{
#pragma unroll
    for (int n = 0; n < 4 * s.tiles; n++) {
        const int column = n / 4 * MMA_COLUMNS + mma_column(n % 4);
#pragma unroll
        for (int d = 0; d < DOWN; d++) {
            const query_state &of = state[KEYS ? column : d * HALVES + n % 4 / 2];
            float &score = s.at[d][n / 4].at[n % 4];
            score = power_of_two(fmaf(score, scale, -of.shift));
        }
    }
}

// From dout · value to the scores' gradients, without `scale`.
template <bool KEYS>
__device__ static void make_score_grads(strip_scores<GROUP> &grad,
                                        const strip_scores<GROUP> &probabilities,
                                        const query_state *state)
{
#pragma unroll
    for (int n = 0; n < 4 * grad.tiles; n++) {
        const int column = n / 4 * MMA_COLUMNS + mma_column(n % 4);
#pragma unroll
        for (int d = 0; d < DOWN; d++) {
            const query_state &of = state[KEYS ? column : d * HALVES + n % 4 / 2];
            float &value = grad.at[d][n / 4].at[n % 4];
            value = probabilities.at[d][n / 4].at[n % 4] * (value - of.mean);
        }
    }
}

// A strip of keys (KEYS) or queries, and what it has come to.
template <int D, bool KEYS> struct grad_strip {
    strip_factor<D> own;
    strip_factor<D> beside; // beside keys their values, beside queries dout
    strip_sums<D> sums;
    strip_sums<D> value_sums;     // with KEYS
    query_state state[ROWS_EACH]; // without
    float scale;

    // GROUP stream rows from k on: `rows` and, in the tile behind, what is beside them.
    template <bool MASKED>
    __device__ void add_group(const own_rows &place, const __nv_bfloat16 *rows,
                              const query_state *states, int32_t k)
    {
        const __nv_bfloat16 *rows_beside = rows + mma_shape<D>::tile_elements;
        const query_state *of = KEYS ? states : state;
        strip_scores<GROUP> s;
        strip_scores<GROUP> grad;
        products_with_rows<D>(s, 0, own, rows);
        if (MASKED) {
            mask_scores<KEYS>(s, place, k);
        }
        make_probabilities<KEYS>(s, of, scale);
        if (KEYS) {
            add_weighted_rows<D>(value_sums, s, 0, rows_beside);
        }
        products_with_rows<D>(grad, 0, beside, rows_beside);
        make_score_grads<KEYS>(grad, s, of);
        add_weighted_rows<D>(sums, grad, 0, rows);
    }

    // The stage whose first row is k.
    __device__ void add_stage(const own_rows &place, const __nv_bfloat16 *stage,
                              const query_state *states, int32_t k)
    {
        if (sees_all(place, k, STREAM)) {
#pragma unroll
            for (int g = 0; g < STREAM; g += GROUP) {
                add_group<false>(place, stage + g * mma_shape<D>::pitch, states + g, k + g);
            }
            return;
        }
#pragma unroll 1
        for (int g = 0; g < STREAM; g += GROUP) {
            if (needs(place, k + g, GROUP)) {
                add_group<true>(place, stage + g * mma_shape<D>::pitch, states + g, k + g);
            }
        }
    }
};

// Writes the strip's sums · scale as a part (0 queries, 1 keys, 2 values) of dqkv.
template <int D>
__device__ static void write_grad(const rank_attention &args, const own_rows &own,
                                  const strip_sums<D> &sums, int part, float scale)
{
    const int64_t stride = 3 * (int64_t)args.width;
    __nv_bfloat16 *to = (__nv_bfloat16 *)args.dqkv + place_of(own, 3 * args.width) +
                        (size_t)part * args.width - args.dqkv_first * 3 * args.width;
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        const int32_t row = own.strip + strip_row(i);
#pragma unroll
        for (int n = 0; n < mma_shape<D>::tiles; n++) {
            const int column = n * MMA_COLUMNS + mma_column(0);
            const float *sum = sums.at[i / HALVES][n].at + i % HALVES * 2;
            if (row < own.end && column < own.width) {
                *reinterpret_cast<uint32_t *>(to + row * stride + column) =
                    pair_of(sum[0] * scale, sum[1] * scale);
            }
        }
    }
}

// Begins to copy the states of STREAM queries.
__device__ static void begin_states(query_state *to, const query_state *from, int32_t first,
                                    int32_t end)
{
    if (threadIdx.x < STREAM) {
        const int32_t row = first + (int32_t)threadIdx.x;
        copy_async<sizeof(query_state)>(to + threadIdx.x, from + row, row < end);
    }
}

// The stream of queries, and of what stands beside them.
template <bool KEYS>
__device__ static array_rows<const __nv_bfloat16> stream_of(const rank_attention &args,
                                                            const own_rows &own, int which)
{
    return KEYS ? as_stream(kept_rows(args, own, which)) : rows_of_qkv(args, own, 1 + which);
}

// Own rows, and what stands beside them. Those of queries are kept.
template <int D, bool KEYS>
__device__ static void bring_own(grad_strip<D, KEYS> &strip, const rank_attention &args,
                                 const own_rows &own, __nv_bfloat16 *stage)
{
    if constexpr (KEYS) {
        bring_strip<D>(strip.own, stage, rows_of_qkv(args, own, 1), own.begin, own.end);
        bring_strip<D>(strip.beside, stage, rows_of_qkv(args, own, 2), own.begin, own.end);
    } else {
        const array_rows<const float> dout = {args.dout + place_of(own, args.width), NULL,
                                              (int)args.width, own.width};
        bring_strip<D>(strip.own, stage, rows_of_qkv(args, own, 0), own.begin, own.end,
                       kept_rows(args, own, 0));
        bring_strip<D>(strip.beside, stage, dout, own.begin, own.end, kept_rows(args, own, 1));
        make_states<D>(args, own, strip.own, strip.beside, strip.state);
    }
}

// KEYS: own rows are keys, and the stream is of queries. Else it is the other way round. The tiles
// with most stream rows begin first.
template <int D, bool KEYS>
__global__ static void __launch_bounds__(THREADS, 2) mma_grad_kernel(rank_attention args)
{
    SHARED(__nv_bfloat16, stage);
    __nv_bfloat16 *next = stage + mma_shape<D>::stage_elements;
    query_state *states =
        reinterpret_cast<query_state *>(stage + STAGES * mma_shape<D>::stage_elements);
    query_state *next_states = states + STREAM;
    const own_rows own = rows_of_block<KEYS>(args, KEYS ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    const auto rows = stream_of<KEYS>(args, own, 0);
    const auto beside = stream_of<KEYS>(args, own, 1);
    grad_strip<D, KEYS> strip;
    strip.scale = own.scale * LOG2_E;
    strip.sums.clear();
    strip.value_sums.clear();
    begin_stage<D>(stage, rows, beside, own.stream.low, own.stream.high);
    if (KEYS) {
        begin_states(states, states_of(args, own), own.stream.low, own.stream.high);
    }
    bring_own(strip, args, own, next);
    for (int32_t k = own.stream.low; k < own.stream.high; k += STREAM) {
        wait_for_copies();
        __syncthreads(); // this stage is there, and nobody still reads the other one
        if (k + STREAM < own.stream.high) {
            begin_stage<D>(next, rows, beside, k + STREAM, own.stream.high);
            if (KEYS) {
                begin_states(next_states, states_of(args, own), k + STREAM, own.stream.high);
            }
        }
        strip.add_stage(own, stage, states, k);
        swap_places(stage, next);
        swap_places(states, next_states);
    }
    write_grad<D>(args, own, strip.sums, KEYS ? 1 : 0, own.scale);
    if (KEYS) {
        write_grad<D>(args, own, strip.value_sums, 2, 1.0f);
    }
}

template <int D> static void launch_backward(const rank_attention *args, cudaStream_t stream)
{
    const size_t with_states = mma_shape<D>::shared_bytes + STAGES * STREAM * sizeof(query_state);
    LAUNCH((mma_grad_kernel<D, false>), blocks_of(args), THREADS, mma_shape<D>::shared_bytes,
           stream, *args);
    LAUNCH((mma_grad_kernel<D, true>), blocks_of(args), THREADS, with_states, stream, *args);
}

extern "C" void cuda_launch_mma_attention_grad(const rank_attention *args, cudaStream_t stream)
{
    if (args->width / args->heads <= 32) {
        launch_backward<32>(args, stream);
    } else {
        launch_backward<64>(args, stream);
    }
}
