// For the backend `cuda`: causal attention of flat tokens in segments, in tiles, with the softmax
// made on the way: no memory grows with the square of the length. fast_attention.h explains the
// tiles. Launched by fast.c.
//
// Backward makes the probabilities again from what forward kept. The gradient of a row's softmax
// needs the mean of its values' gradients, weighted by the probabilities: that is out · dout. One
// kernel goes by query tiles and makes the queries' gradients, and one by key tiles makes those of
// keys and values. Then come the biases, as sums of columns.
#include "fast_attention.h"

enum { WIDTH_MAX = 128 };

// A block's place in a call: its head, and its own rows.
struct tile_place {
    attention_scratch scratch;
    size_t token; // of row 0
    size_t head;
    size_t width; // of the head
    size_t begin; // the own rows
    size_t end;
    float scale; // of queries
};

// The row of statistics, in (T, H).
__device__ static size_t statistic(const rank_attention &args, const tile_place &at, size_t row)
{
    return (at.token + row) * args.heads + at.head;
}

template <int D> __device__ static tile_place place_of(const rank_attention &args, size_t tile)
{
    tile_place at;
    at.scratch = scratch_of(args);
    at.token = (size_t)*at.scratch.first;
    at.head = blockIdx.y;
    at.width = args.width / args.heads;
    at.begin = tile * tile_shape<D>::own;
    at.end = at.begin + tile_shape<D>::own < args.rows ? at.begin + tile_shape<D>::own : args.rows;
    at.scale = 1.0f / sqrtf((float)at.width);
    return at;
}

// part: 0 queries (scaled), 1 keys, 2 values.
template <typename E>
__device__ static head_rows<E> rows_of_qkv(const rank_attention &args, const tile_place &at,
                                           int part)
{
    const size_t column = (size_t)part * args.width + at.head * at.width;
    return {(const E *)args.qkv + at.token * 3 * args.width + column, 3 * args.width,
            args.bias + column, part == 0 ? at.scale : 1.0f, at.width};
}

__device__ static head_rows<float> rows_of_dout(const rank_attention &args, const tile_place &at)
{
    return {args.dout + at.token * args.width + at.head * at.width, args.width, NULL, 1.0f,
            at.width};
}

// The bounds of this lane's rows; of rows that are not there, none.
__device__ static row_bounds bounds_of(const tile_place &at, int i)
{
    const size_t row = at.begin + (size_t)own_row(i);
    return row < at.end ? at.scratch.bounds[row] : row_bounds{0x7fffffff, 0};
}

// Whether any row of the warp's strip needs keys key … key + STREAM, for queries.
__device__ static bool strip_needs_keys(const tile_place &at, size_t key)
{
    const size_t first = at.begin + (size_t)(threadIdx.x / WARP) * STRIP_ROWS;
    return first < at.end && key < first + STRIP_ROWS &&
           key + STREAM > (size_t)at.scratch.bounds[first].begin;
}

// Of the softmax so far: the largest score of a row, and this lane's share of the sum.
struct softmax_state {
    float largest[EACH_DOWN];
    float sum[EACH_DOWN];
};

// From scores to exponentials; what was summed before is scaled to the new largest score. A row
// without any key yet has -INFINITY.
template <int D>
__device__ static void soften(strip_values &s, softmax_state &soft, strip_sums<D> &sums)
{
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
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

// Scores of keys that a query does not see become `value`.
__device__ static void mask(strip_values &s, const tile_place &at, const row_bounds *bounds,
                            size_t key, float value)
{
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        const int32_t row = (int32_t)at.begin + own_row(i);
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            const int32_t k = (int32_t)key + strip_column(j);
            s[i][j] = k >= bounds[i].begin && k <= row ? s[i][j] : value;
        }
    }
}

template <int D, typename E, bool VEC>
__device__ static void write_out(const rank_attention &args, const tile_place &at,
                                 strip_sums<D> &sums, const softmax_state &soft)
{
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        const float inverse = 1.0f / sum_across(soft.sum[i]);
        const size_t row = at.begin + (size_t)own_row(i);
        if (row >= at.end) {
            continue;
        }
        E *out = (E *)args.out + (at.token + row) * args.width + at.head * at.width;
        sums.scale(i, inverse);
#pragma unroll
        for (int g = 0; g < tile_shape<D>::fours; g++) {
            store_four<VEC>(out, sum_column(g), at.width, sums.at[i][g]);
        }
        if (threadIdx.x % LANES_ACROSS == 0) {
            args.row_max[statistic(args, at, row)] = soft.largest[i];
            args.row_scale[statistic(args, at, row)] = inverse;
        }
    }
}

// The tiles with most keys begin first.
template <int D, typename E, bool VEC>
__global__ static void __launch_bounds__(tile_shape<D>::threads)
    fast_attention_kernel(rank_attention args)
{
    typedef tile_shape<D> shape;
    SHARED(float, query);
    float *key = query + shape::own_floats;
    float *value = key + shape::stream_floats;
    float *strip = value + shape::stream_floats + threadIdx.x / WARP * STRIP_ROWS * STRIP_PITCH;
    const tile_place at = place_of<D>(args, gridDim.x - 1 - blockIdx.x);
    row_bounds bounds[EACH_DOWN];
    softmax_state soft;
    strip_sums<D> sums;
    sums.clear();
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        bounds[i] = bounds_of(at, i);
        soft.largest[i] = -INFINITY;
        soft.sum[i] = 0.0f;
    }
    bring_tile<D, VEC>(query, shape::own, rows_of_qkv<E>(args, at, 0), at.begin, at.end);
    for (size_t k = (size_t)at.scratch.bounds[at.begin].begin; k < at.end; k += STREAM) {
        bring_tile<D, VEC>(key, STREAM, rows_of_qkv<E>(args, at, 1), k, at.end);
        bring_tile<D, VEC>(value, STREAM, rows_of_qkv<E>(args, at, 2), k, at.end);
        __syncthreads();
        if (strip_needs_keys(at, k)) {
            strip_values s;
            scores<D>(s, query, key);
            mask(s, at, bounds, k, -INFINITY);
            soften<D>(s, soft, sums);
            put_strip(strip, s);
            accumulate<D>(sums, strip, value);
        }
        __syncthreads();
    }
    write_out<D, E, VEC>(args, at, sums, soft);
}

// What backward knows of a row.
struct row_state {
    float largest;
    float scale;
    float mean;
};

// The means of this lane's rows, from dout (in shared memory) and out; also to the scratch.
template <int D, typename E, bool VEC>
__device__ static void load_states(const rank_attention &args, const tile_place &at,
                                   const float *dout, row_state *state)
{
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        const size_t row = at.begin + (size_t)own_row(i);
        const size_t there = row < at.end ? row : at.begin;
        const E *out = (const E *)args.out + (at.token + there) * args.width + at.head * at.width;
        float sum = 0.0f;
#pragma unroll
        for (int g = 0; g < tile_shape<D>::fours; g++) {
            const float4 o = load_four<VEC>(out, sum_column(g), at.width);
            const float4 d = four_at(dout + own_row(i) * tile_shape<D>::pitch + sum_column(g));
            sum = fmaf(o.x, d.x, fmaf(o.y, d.y, fmaf(o.z, d.z, fmaf(o.w, d.w, sum))));
        }
        state[i].mean = sum_across(sum);
        state[i].largest = args.row_max[statistic(args, at, there)];
        state[i].scale = args.row_scale[statistic(args, at, there)];
        if (row < at.end && threadIdx.x % LANES_ACROSS == 0) {
            at.scratch.means[row * args.heads + at.head] = state[i].mean;
        }
    }
}

// Writes the strip's sums, scaled, as a part (0 queries, 1 keys, 2 values) of dqkv.
template <int D, typename E, bool VEC>
__device__ static void write_grad(const rank_attention &args, const tile_place &at,
                                  strip_sums<D> &sums, int part, float scale)
{
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        const size_t row = at.begin + (size_t)own_row(i);
        E *to = (E *)args.dqkv + (at.token - args.dqkv_first + row) * 3 * args.width +
                (size_t)part * args.width + at.head * at.width;
        sums.scale(i, scale);
#pragma unroll
        for (int g = 0; g < tile_shape<D>::fours && row < at.end; g++) {
            store_four<VEC>(to, sum_column(g), at.width, sums.at[i][g]);
        }
    }
}

template <int D, typename E, bool VEC>
__global__ static void __launch_bounds__(tile_shape<D>::threads)
    fast_query_grad_kernel(rank_attention args)
{
    typedef tile_shape<D> shape;
    SHARED(float, query);
    float *dout = query + shape::own_floats;
    float *key = dout + shape::own_floats;
    float *value = key + shape::stream_floats;
    float *strip = value + shape::stream_floats + threadIdx.x / WARP * STRIP_ROWS * STRIP_PITCH;
    const tile_place at = place_of<D>(args, gridDim.x - 1 - blockIdx.x);
    row_bounds bounds[EACH_DOWN];
    row_state state[EACH_DOWN];
    strip_sums<D> sums;
    sums.clear();
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        bounds[i] = bounds_of(at, i);
    }
    bring_tile<D, VEC>(query, shape::own, rows_of_qkv<E>(args, at, 0), at.begin, at.end);
    bring_tile<D, VEC>(dout, shape::own, rows_of_dout(args, at), at.begin, at.end);
    __syncthreads();
    load_states<D, E, VEC>(args, at, dout, state);
    for (size_t k = (size_t)at.scratch.bounds[at.begin].begin; k < at.end; k += STREAM) {
        bring_tile<D, VEC>(key, STREAM, rows_of_qkv<E>(args, at, 1), k, at.end);
        bring_tile<D, VEC>(value, STREAM, rows_of_qkv<E>(args, at, 2), k, at.end);
        __syncthreads();
        if (strip_needs_keys(at, k)) {
            strip_values s;
            strip_values grad;
            scores<D>(s, query, key);
            scores<D>(grad, dout, value);
#pragma unroll
            for (int i = 0; i < EACH_DOWN * EACH_ACROSS; i++) {
                const row_state &row = state[i / EACH_ACROSS];
                float &score = s[i / EACH_ACROSS][i % EACH_ACROSS];
                score = quick_exponential(score - row.largest) * row.scale *
                        (grad[i / EACH_ACROSS][i % EACH_ACROSS] - row.mean);
            }
            mask(s, at, bounds, k, 0.0f);
            put_strip(strip, s);
            accumulate<D>(sums, strip, key);
        }
        __syncthreads();
    }
    write_grad<D, E, VEC>(args, at, sums, 0, at.scale);
}

// The states of STREAM queries from `first` on, in shared memory.
__device__ static void bring_states(const rank_attention &args, const tile_place &at,
                                    row_state *states, size_t first, size_t end)
{
    if (threadIdx.x < STREAM) {
        const size_t row = first + threadIdx.x < end ? first + threadIdx.x : end - 1;
        states[threadIdx.x] = {args.row_max[statistic(args, at, row)],
                               args.row_scale[statistic(args, at, row)],
                               at.scratch.means[row * args.heads + at.head]};
    }
}

// Probabilities of this lane's keys for the queries from `first` on; zero where a query does not see
// a key.
__device__ static void probabilities(strip_values &s, const tile_place &at,
                                     const row_bounds *bounds, const row_state *states,
                                     size_t first)
{
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        const int32_t key = (int32_t)at.begin + own_row(i);
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            const int32_t row = (int32_t)first + strip_column(j);
            const row_state &state = states[strip_column(j)];
            const bool sees = key <= row && row < bounds[i].end;
            s[i][j] = sees ? quick_exponential(s[i][j] - state.largest) * state.scale : 0.0f;
        }
    }
}

// A strip of keys, over the queries from its first on that see any of them.
template <int D, typename E, bool VEC>
__global__ static void __launch_bounds__(tile_shape<D>::threads)
    fast_key_grad_kernel(rank_attention args)
{
    typedef tile_shape<D> shape;
    SHARED(float, key);
    float *value = key + shape::own_floats;
    float *query = value + shape::own_floats;
    float *dout = query + shape::stream_floats;
    float *strip = dout + shape::stream_floats + threadIdx.x / WARP * STRIP_ROWS * STRIP_PITCH;
    row_state *states =
        reinterpret_cast<row_state *>(dout + shape::stream_floats + shape::strip_floats);
    const tile_place at = place_of<D>(args, blockIdx.x);
    row_bounds bounds[EACH_DOWN];
    strip_sums<D> dk;
    strip_sums<D> dv;
    dk.clear();
    dv.clear();
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
        bounds[i] = bounds_of(at, i);
    }
    const size_t strip_first = at.begin + (size_t)(threadIdx.x / WARP) * STRIP_ROWS;
    const size_t strip_last =
        strip_first + STRIP_ROWS < at.end ? strip_first + STRIP_ROWS - 1 : at.end - 1;
    const size_t end = (size_t)at.scratch.bounds[at.end - 1].end;
    const size_t strip_end = strip_first < at.end ? (size_t)at.scratch.bounds[strip_last].end : 0;
    bring_tile<D, VEC>(key, shape::own, rows_of_qkv<E>(args, at, 1), at.begin, at.end);
    bring_tile<D, VEC>(value, shape::own, rows_of_qkv<E>(args, at, 2), at.begin, at.end);
    for (size_t q = at.begin; q < end; q += STREAM) {
        bring_tile<D, VEC>(query, STREAM, rows_of_qkv<E>(args, at, 0), q, end);
        bring_tile<D, VEC>(dout, STREAM, rows_of_dout(args, at), q, end);
        bring_states(args, at, states, q, end);
        __syncthreads();
        if (q < strip_end && q + STREAM > strip_first) {
            strip_values s;
            strip_values grad;
            scores<D>(s, key, query);
            probabilities(s, at, bounds, states, q);
            put_strip(strip, s);
            accumulate<D>(dv, strip, dout);
            scores<D>(grad, value, dout);
#pragma unroll
            for (int i = 0; i < EACH_DOWN * EACH_ACROSS; i++) {
                s[i / EACH_ACROSS][i % EACH_ACROSS] *= grad[i / EACH_ACROSS][i % EACH_ACROSS] -
                                                       states[strip_column(i % EACH_ACROSS)].mean;
            }
            put_strip(strip, s);
            accumulate<D>(dk, strip, query);
        }
        __syncthreads();
    }
    write_grad<D, E, VEC>(args, at, dk, 1, 1.0f);
    write_grad<D, E, VEC>(args, at, dv, 2, 1.0f);
}

// The rows of dqkv, whose column sums are the biases' gradients.
template <typename E, bool VEC> struct dqkv_value {
    rank_attention args;
    __device__ size_t rows() const
    {
        return args.rows;
    }
    __device__ float4 operator()(size_t row, size_t column) const
    {
        const size_t first = (size_t)*scratch_of(args).first - args.dqkv_first;
        return load_four<VEC>((const E *)args.dqkv + (first + row) * 3 * args.width, column,
                              3 * args.width);
    }
};

static bool heads_in_fours(const rank_attention *args)
{
    return in_fours(args->width / args->heads, address_of(args->qkv) | address_of(args->bias) |
                                                   address_of(args->out) | address_of(args->dout) |
                                                   address_of(args->dqkv));
}

template <int D> static dim3 grid_of(const rank_attention *args)
{
    return dim3((unsigned)((args->rows + tile_shape<D>::own - 1) / tile_shape<D>::own),
                (unsigned)args->heads);
}

template <int D, typename E>
static void launch_forward(const rank_attention *args, cudaStream_t stream)
{
    typedef tile_shape<D> shape;
    const size_t bytes =
        (shape::own_floats + 2 * shape::stream_floats + shape::strip_floats) * sizeof(float);
    void (*kernel)(rank_attention) = heads_in_fours(args) ? fast_attention_kernel<D, E, true>
                                                          : fast_attention_kernel<D, E, false>;
    ALLOW_SHARED(kernel, bytes);
    LAUNCH(kernel, grid_of<D>(args), shape::threads, bytes, stream, *args);
}

template <int D, typename E>
static void launch_backward(const rank_attention *args, cudaStream_t stream)
{
    typedef tile_shape<D> shape;
    const bool vec = heads_in_fours(args);
    const size_t bytes =
        (2 * shape::own_floats + 2 * shape::stream_floats + shape::strip_floats) * sizeof(float);
    const size_t with_states = bytes + STREAM * sizeof(row_state);
    void (*queries)(rank_attention) =
        vec ? fast_query_grad_kernel<D, E, true> : fast_query_grad_kernel<D, E, false>;
    void (*keys)(rank_attention) =
        vec ? fast_key_grad_kernel<D, E, true> : fast_key_grad_kernel<D, E, false>;
    ALLOW_SHARED(queries, bytes);
    LAUNCH(queries, grid_of<D>(args), shape::threads, bytes, stream, *args);
    ALLOW_SHARED(keys, with_states);
    LAUNCH(keys, grid_of<D>(args), shape::threads, with_states, stream, *args);
}

extern "C" size_t cuda_fast_attention_floats(size_t tokens, size_t heads)
{
    return attention_scratch_floats(tokens, heads);
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
