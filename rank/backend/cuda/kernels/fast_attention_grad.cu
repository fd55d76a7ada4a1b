// For the backend `cuda`: backward of attention in tiles (fast_attention.cu). Launched by fast.c.
//
// Backward makes the probabilities again from what forward kept. The gradient of a row's softmax
// needs the mean of its values' gradients, weighted by the probabilities: that is out · dout. Some
// blocks go by query tiles and make the queries' gradients, and some by key tiles and make those of
// keys and values. Then come the biases, as sums of columns.
#include "fast_attention_place.h"

// Of out or dout.
template <typename E>
__device__ static head_rows<E> rows_of_out(const rank_attention &args, const tile_place &at,
                                           const E *out)
{
    return {out + at.token * args.width + at.head * at.width, args.width, NULL, 1.0f, at.width};
}

// Of a strip of keys: the queries that see any of them.
template <typename S> __device__ static stream_range queries_of_strip(const tile_place &at)
{
    const int first = at.begin + (int)(threadIdx.x / WARP) * S::rows;
    const int last = first + S::rows < at.end ? first + S::rows - 1 : at.end - 1;
    return first < at.end ? stream_range{first, at.scratch.bounds[last].end} : stream_range{0, 0};
}

// What backward knows of a row.
struct row_state {
    float largest;
    float scale;
    float mean;
};

// Moves rows of dout to a tile, and makes their states, whose means are out · dout.
template <typename S, int BATCH, bool VEC, typename E> struct dout_reader {
    typedef row_reader<S, BATCH, VEC, float> dout_rows;
    const rank_attention &args;
    const tile_place &at;
    row_state *states;
    dout_rows dout;
    row_reader<S, BATCH, VEC, E> out; // is not put anywhere
    float largest[dout_rows::each];
    float scale[dout_rows::each];

    __device__ dout_reader(const rank_attention &args_, const tile_place &at_, float *tile,
                           row_state *states_)
        : args(args_), at(at_), states(states_), dout(rows_of_out(args_, at_, args_.dout), tile),
          out(rows_of_out(args_, at_, (const E *)args_.out), NULL)
    {
    }
    __device__ void fetch(int first, int end)
    {
        dout.fetch(first, end);
        out.fetch(first, end);
#pragma unroll
        for (int i = 0; i < dout_rows::each; i++) {
            const int row = first + dout.row(i);
            const bool mine = dout.column() == 0 && row < end;
            largest[i] = mine ? args.row_max[statistic(args, at, row)] : 0.0f;
            scale[i] = mine ? args.row_scale[statistic(args, at, row)] : 0.0f;
        }
    }
    __device__ void put(int part)
    {
        dout.put(part);
#pragma unroll
        for (int i = 0; i < dout_rows::each; i++) {
            const float4 d = dout.at[i];
            const float4 o = out.at[i];
            float mean = fmaf(o.x, d.x, fmaf(o.y, d.y, fmaf(o.z, d.z, o.w * d.w)));
#pragma unroll
            for (int half = S::across / 2; half > 0; half /= 2) { // the lanes of a row
                mean = mean + __shfl_xor_sync(0xffffffffu, mean, half);
            }
            if (dout.column() == 0) {
                states[part + dout.row(i)] = {largest[i], scale[i], mean};
            }
        }
    }
};

// Writes the strip's sums, scaled, as a part (0 queries, 1 keys, 2 values) of dqkv.
template <typename S, typename E, bool VEC>
__device__ static void write_grad(const rank_attention &args, const tile_place &at,
                                  strip_sums<S> &sums, int part, float scale)
{
#pragma unroll
    for (int i = 0; i < S::each_down; i++) {
        const int row = at.begin + own_row<S>(i);
        E *to = (E *)args.dqkv + (at.token - args.dqkv_first + (size_t)row) * 3 * args.width +
                (size_t)part * args.width + at.head * at.width;
        sums.scale(i, scale);
#pragma unroll
        for (int g = 0; g < S::fours && row < at.end; g++) {
            store_four<VEC>(to, sum_column(g), at.width, sums.at[i][g]);
        }
    }
}

// Where a block of backward has its tiles: own queries and their dout, and streams of keys and
// values; or own keys and values, and streams of queries and their dout.
template <typename S> struct grad_tiles {
    static constexpr int states_max = S::own > STREAM ? S::own : STREAM;
    static constexpr size_t bytes =
        (2 * S::own_floats + 2 * S::stream_floats + S::strip_floats) * sizeof(float) +
        states_max * sizeof(row_state);
    float *own;
    float *own_too;
    float *stream;
    float *stream_too;
    float *strip; // the warp's
    row_state *states;
    __device__ explicit grad_tiles(float *shared)
        : own(shared), own_too(own + S::own_floats), stream(own_too + S::own_floats),
          stream_too(stream + S::stream_floats)
    {
        float *strips = stream_too + S::stream_floats;
        strip = strips + threadIdx.x / WARP * S::rows * STRIP_PITCH;
        states = reinterpret_cast<row_state *>(strips + S::strip_floats);
    }
};

template <typename S, typename E, bool VEC>
__device__ static void query_grad(const rank_attention &args, const grad_tiles<S> &tiles)
{
    const tile_place at = place_of<S>(args, gridDim.x - 1 - blockIdx.x);
    row_reader<S, S::own_batch, VEC, E> queries(rows_of_qkv<E>(args, at, 0), tiles.own);
    dout_reader<S, S::own_batch, VEC, E> dout(args, at, tiles.own_too, tiles.states);
    row_reader<S, S::stream_batch, VEC, E> keys(rows_of_qkv<E>(args, at, 1), tiles.stream);
    row_reader<S, S::stream_batch, VEC, E> values(rows_of_qkv<E>(args, at, 2), tiles.stream_too);
    row_bounds bounds[S::each_down];
    strip_sums<S> sums;
    int k = stream_tile(at.scratch.bounds[at.begin].begin);
    fetch_ahead<S>(keys, values, k, at.end);
    bring_tile<S::own, S::own_batch>(queries, at.begin, at.end);
    bring_tile<S::own, S::own_batch>(dout, at.begin, at.end);
    load_bounds<S>(bounds, at);
    const stream_range range = keys_of_strip<S>(at);
    sums.clear();
    for (; k < at.end; k += STREAM) {
        put_streams<S>(keys, values, k, at.end);
        __syncthreads();
        fetch_ahead<S>(keys, values, k + STREAM, at.end);
        if (range.meets(k)) {
            typename S::values s;
            typename S::values grad;
            scores<S>(s, tiles.own, tiles.stream);
            scores<S>(grad, tiles.own_too, tiles.stream_too);
#pragma unroll
            for (int i = 0; i < S::each_down; i++) {
                const row_state state = tiles.states[own_row<S>(i)];
#pragma unroll
                for (int j = 0; j < EACH_ACROSS; j++) {
                    s[i][j] = quick_exponential(s[i][j] - state.largest) * state.scale *
                              (grad[i][j] - state.mean);
                }
            }
            mask<S>(s, at, bounds, k, 0.0f);
            put_strip<S>(tiles.strip, s);
            accumulate<S>(sums, tiles.strip, tiles.stream);
        }
        __syncthreads();
    }
    write_grad<S, E, VEC>(args, at, sums, 0, at.scale);
}

// Probabilities of this lane's keys for the queries from `first` on; zero where a query does not see
// a key.
template <typename S>
__device__ static void probabilities(typename S::values &s, const tile_place &at,
                                     const row_bounds *bounds, const row_state *states, int first)
{
#pragma unroll
    for (int j = 0; j < EACH_ACROSS; j++) {
        const row_state state = states[strip_column(j)];
        const int row = first + strip_column(j);
#pragma unroll
        for (int i = 0; i < S::each_down; i++) {
            const bool sees = at.begin + own_row<S>(i) <= row && row < bounds[i].end;
            s[i][j] = sees ? quick_exponential(s[i][j] - state.largest) * state.scale : 0.0f;
        }
    }
}

// Strips of keys, over the queries from the tile's first on that see any of them.
template <typename S, typename E, bool VEC>
__device__ static void key_grad(const rank_attention &args, const grad_tiles<S> &tiles)
{
    const tile_place at = place_of<S>(args, blockIdx.x);
    row_reader<S, S::own_batch, VEC, E> keys(rows_of_qkv<E>(args, at, 1), tiles.own);
    row_reader<S, S::own_batch, VEC, E> values(rows_of_qkv<E>(args, at, 2), tiles.own_too);
    row_reader<S, S::stream_batch, VEC, E> queries(rows_of_qkv<E>(args, at, 0), tiles.stream);
    dout_reader<S, S::stream_batch, VEC, E> dout(args, at, tiles.stream_too, tiles.states);
    row_bounds bounds[S::each_down];
    strip_sums<S> dk;
    strip_sums<S> dv;
    const int end = at.scratch.bounds[at.end - 1].end;
    int q = stream_tile(at.begin);
    fetch_ahead<S>(queries, dout, q, end);
    bring_tile<S::own, S::own_batch>(keys, at.begin, at.end);
    bring_tile<S::own, S::own_batch>(values, at.begin, at.end);
    load_bounds<S>(bounds, at);
    const stream_range range = queries_of_strip<S>(at);
    dk.clear();
    dv.clear();
    for (; q < end; q += STREAM) {
        put_streams<S>(queries, dout, q, end);
        __syncthreads();
        fetch_ahead<S>(queries, dout, q + STREAM, end);
        if (range.meets(q)) {
            typename S::values s;
            typename S::values grad;
            scores<S>(s, tiles.own, tiles.stream);
            probabilities<S>(s, at, bounds, tiles.states, q);
            put_strip<S>(tiles.strip, s);
            accumulate<S>(dv, tiles.strip, tiles.stream_too);
            scores<S>(grad, tiles.own_too, tiles.stream_too);
#pragma unroll
            for (int i = 0; i < S::each_down * EACH_ACROSS; i++) {
                s[i / EACH_ACROSS][i % EACH_ACROSS] *=
                    grad[i / EACH_ACROSS][i % EACH_ACROSS] -
                    tiles.states[strip_column(i % EACH_ACROSS)].mean;
            }
            put_strip<S>(tiles.strip, s);
            accumulate<S>(dk, tiles.strip, tiles.stream);
        }
        __syncthreads();
    }
    write_grad<S, E, VEC>(args, at, dk, 1, 1.0f);
    write_grad<S, E, VEC>(args, at, dv, 2, 1.0f);
}

// blockIdx.z: keys, which have more to do, or queries. Neither reads what the other writes.
template <typename S, typename E, bool VEC>
__global__ static void __launch_bounds__(S::threads) fast_attention_grad_kernel(rank_attention args)
{
    SHARED(float, shared);
    const grad_tiles<S> tiles(shared);
    if (blockIdx.z == 0) {
        key_grad<S, E, VEC>(args, tiles);
    } else {
        query_grad<S, E, VEC>(args, tiles);
    }
}

// The rows of dqkv, whose column sums are the biases' gradients.
template <typename E, bool VEC> struct dqkv_value {
    rank_attention args;
    __device__ size_t rows() const
    {
        return args.rows;
    }
    typedef float4 loaded;
    __device__ loaded load(size_t row, size_t column) const
    {
        const size_t first = (size_t)*scratch_of(args).first - args.dqkv_first;
        return load_four<VEC>((const E *)args.dqkv + (first + row) * 3 * args.width, column,
                              3 * args.width);
    }
    __device__ float4 take(size_t, size_t, const loaded &of) const
    {
        return of;
    }
};

template <typename S, typename E>
static void launch_backward_tiles(const rank_attention *args, cudaStream_t stream)
{
    void (*kernel)(rank_attention) = heads_in_fours(args) ? fast_attention_grad_kernel<S, E, true>
                                                          : fast_attention_grad_kernel<S, E, false>;
    ALLOW_SHARED(kernel, grad_tiles<S>::bytes);
    LAUNCH(kernel, grid_of<S>(args, 2), S::threads, grad_tiles<S>::bytes, stream, *args);
}

template <int D, typename E>
static void launch_backward(const rank_attention *args, cudaStream_t stream)
{
    if constexpr (D <= 64) {
        if (has_few_tiles<D>(args)) {
            launch_backward_tiles<tile_shape<D, LOW>, E>(args, stream);
            return;
        }
    }
    launch_backward_tiles<tile_shape<D, TALL>, E>(args, stream);
}

extern "C" void cuda_launch_fast_attention_grad(const rank_attention *args, double *partials,
                                                cudaStream_t stream)
{
    const size_t width = args->width / args->heads;
    const size_t columns = 3 * args->width;
    if (width > WIDTH_MAX || !has_parts(columns)) {
        cuda_launch_attention_grad(args, stream);
        return;
    }
    cuda_launch_row_bounds(args, stream);
    if (cuda_can_mma_attention(args)) {
        cuda_launch_mma_attention_grad(args, stream);
    } else if (width <= 32) {
        WITH_ELEMENT(args->type, launch_backward<32, Element>(args, stream));
    } else if (width <= 64) {
        WITH_ELEMENT(args->type, launch_backward<64, Element>(args, stream));
    } else {
        WITH_ELEMENT(args->type, launch_backward<128, Element>(args, stream));
    }
    if (in_fours(columns, address_of(args->dqkv))) {
        WITH_ELEMENT(args->type,
                     launch_fast_sums(args->rows, columns, dqkv_value<Element, true>{*args},
                                      args->dbias, (float *)partials, stream));
    } else {
        WITH_ELEMENT(args->type,
                     launch_fast_sums(args->rows, columns, dqkv_value<Element, false>{*args},
                                      args->dbias, (float *)partials, stream));
    }
}
