// The gradient of mma_attention.cu's attention. It makes the probabilities again from the largest
// score of a row and its sum. Queries' and keys' gradients are two runs of one kernel: the first over
// the keys of each query, the second over the queries of each key. Nothing is added up between
// blocks. Launched by fast_attention.cu, which then makes the biases' gradients.
#include "mma_attention.h"

// What backward knows of a query: its probabilities are 2^(score · scale - shift), and `mean` is that
// of its values' gradients, weighted by them: out · dout.
struct query_state {
    float shift;
    float mean;
};

// The same, as it lies in memory.
struct raw_state {
    float row_max;
    float row_scale;
    float mean;
};

__device__ static query_state made_of(const raw_state &raw)
{
    return {fmaf(raw.row_max, LOG2_E, -log2f(raw.row_scale)), raw.mean};
}

// The states of this lane's two queries, from dout as it was rounded and from out. The means also go
// to the scratch, for keys' gradients.
template <int D>
__device__ static void make_states(const rank_attention &args, const own_rows &own,
                                   const mma_a (&dout)[mma_shape<D>::steps],
                                   query_state (&state)[HALVES])
{
    const __nv_bfloat16 *out = (const __nv_bfloat16 *)args.out + place_of(own, args.width);
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        const int32_t row = own.strip + mma_row(2 * half);
        const int32_t there = row < own.end ? row : own.begin;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 2 * mma_shape<D>::steps; i++) {
            const int column = i * MMA_COLUMNS + mma_column(0);
            const uint32_t d = dout[i / 2].at[i % 2 * 2 + half];
            const uint32_t o =
                column < own.width
                    ? *reinterpret_cast<const uint32_t *>(out + (size_t)there * args.width + column)
                    : 0;
            sum = fmaf(low_of(o), low_of(d), fmaf(high_of(o), high_of(d), sum));
        }
        const size_t at = statistic(args, own, there);
        state[half] = made_of({args.row_max[at], args.row_scale[at], sum_of_quad(sum)});
        if (row < own.end && threadIdx.x % 4 == 0) {
            own.scratch.means[(size_t)row * args.heads + (size_t)own.head] = state[half].mean;
        }
    }
}

// The state of the stream row of this thread; behind the last one, where all is masked, of no
// meaning.
__device__ static raw_state fetch_state(const rank_attention &args, const own_rows &own,
                                        int32_t first)
{
    const int32_t row = first + (int32_t)threadIdx.x;
    if (threadIdx.x >= STREAM || row >= own.stream.high) {
        return {0.0f, 1.0f, 0.0f};
    }
    const size_t at = statistic(args, own, row);
    return {args.row_max[at], args.row_scale[at],
            own.scratch.means[(size_t)row * args.heads + (size_t)own.head]};
}

// From scores to probabilities, and from dout · value to the scores' gradients (without `scale`), of
// the strip's rows with 16 stream rows. `state` has the lane's own queries, or those of the stream.
template <bool KEYS>
__device__ static void score_grads(mma_c (&s)[2], mma_c (&grad)[2], const query_state *state,
                                   float scale)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int e = i % 4;
        const query_state &of = state[KEYS ? i / 4 * MMA_COLUMNS + mma_column(e) : e / 2];
        float &score = s[i / 4].at[e];
        score = power_of_two(fmaf(score, scale, -of.shift));
        grad[i / 4].at[e] = score * (grad[i / 4].at[e] - of.mean);
    }
}

// Beside queries stands dout, beside keys their values.
template <bool DOUT>
__device__ static auto rows_beside(const rank_attention &args, const own_rows &own)
{
    if constexpr (DOUT) {
        return array_rows<float>{args.dout + place_of(own, args.width), NULL, (int)args.width,
                                 own.width};
    } else {
        return rows_of_qkv(args, own, 2);
    }
}

// Writes the strip's sums · scale as a part (0 queries, 1 keys, 2 values) of dqkv.
template <int D>
__device__ static void write_grad(const rank_attention &args, const own_rows &own,
                                  const mma_c (&sums)[mma_shape<D>::tiles], int part, float scale)
{
    const float scales[HALVES] = {scale, scale};
    const size_t at = place_of(own, 3 * args.width) - args.dqkv_first * 3 * args.width;
    write_strip<D>((__nv_bfloat16 *)args.dqkv + at + (size_t)part * args.width, 3 * (int)args.width,
                   own, sums, scales);
}

// KEYS: own rows are keys, and the stream is of queries. Else it is the other way round.
template <int D, bool KEYS>
__global__ static void __launch_bounds__(THREADS, KEYS ? 1 : 2) mma_grad_kernel(rank_attention args)
{
    SHARED(__nv_bfloat16, tile);
    __nv_bfloat16 *beside = tile + mma_shape<D>::tile_elements;
    query_state *states = reinterpret_cast<query_state *>(beside + mma_shape<D>::tile_elements);
    const own_rows own = rows_of_tile<KEYS>(args, KEYS ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    const auto stream_rows = rows_of_qkv(args, own, KEYS ? 0 : 1);
    const auto stream_beside = rows_beside<KEYS>(args, own);
    mma_a strip[mma_shape<D>::steps];
    mma_a strip_beside[mma_shape<D>::steps];
    mma_c sums[mma_shape<D>::tiles];
    mma_c value_sums[mma_shape<D>::tiles]; // with KEYS
    query_state state[HALVES];             // without
    clear<D>(sums);
    clear<D>(value_sums);
    bring_strip<D>(strip, tile, rows_of_qkv(args, own, KEYS ? 1 : 0), own.begin, own.end);
    bring_strip<D>(strip_beside, tile, rows_beside<!KEYS>(args, own), own.begin, own.end);
    if (!KEYS) {
        make_states<D>(args, own, strip_beside, state);
    }
    auto part = fetch<D>(stream_rows, own.stream.low, own.stream.high);
    auto part_beside = fetch<D>(stream_beside, own.stream.low, own.stream.high);
    raw_state part_state = KEYS ? fetch_state(args, own, own.stream.low) : raw_state{};
    for (int32_t k = own.stream.low; k < own.stream.high; k += STREAM) {
        __syncthreads();
        part.place(tile, stream_rows);
        part_beside.place(beside, stream_beside);
        if (KEYS && threadIdx.x < STREAM) {
            states[threadIdx.x] = made_of(part_state);
        }
        __syncthreads();
        part = fetch<D>(stream_rows, k + STREAM, own.stream.high);
        part_beside = fetch<D>(stream_beside, k + STREAM, own.stream.high);
        if (KEYS) {
            part_state = fetch_state(args, own, k + STREAM);
        }
        if (!needs(own, k)) {
            continue;
        }
#pragma unroll
        for (int g = 0; g < STREAM; g += GROUP) {
            mma_c s[2];
            mma_c grad[2];
            products_with_rows<D>(s, strip, tile + g * mma_shape<D>::pitch);
            products_with_rows<D>(grad, strip_beside, beside + g * mma_shape<D>::pitch);
            if (!sees_all(own, k)) {
                mask_scores<KEYS>(s, own, k + g);
            }
            score_grads<KEYS>(s, grad, KEYS ? states + g : state, own.scale * LOG2_E);
            if (KEYS) {
                add_weighted_rows<D>(value_sums, rounded_tiles(s[0], s[1]),
                                     beside + g * mma_shape<D>::pitch);
            }
            add_weighted_rows<D>(sums, rounded_tiles(grad[0], grad[1]),
                                 tile + g * mma_shape<D>::pitch);
        }
    }
    write_grad<D>(args, own, sums, KEYS ? 1 : 0, own.scale);
    if (KEYS) {
        write_grad<D>(args, own, value_sums, 2, 1.0f);
    }
}

template <int D> static void launch_backward(const rank_attention *args, cudaStream_t stream)
{
    const dim3 grid(tiles_of_rows(args), (unsigned)args->heads);
    // Queries first: they leave the means.
    LAUNCH((mma_grad_kernel<D, false>), grid, THREADS, mma_shape<D>::shared_bytes, stream, *args);
    LAUNCH((mma_grad_kernel<D, true>), grid, THREADS,
           mma_shape<D>::shared_bytes + STREAM * sizeof(query_state), stream, *args);
}

extern "C" void cuda_launch_mma_attention_grad(const rank_attention *args, cudaStream_t stream)
{
    if (args->width / args->heads <= 32) {
        launch_backward<32>(args, stream);
    } else {
        launch_backward<64>(args, stream);
    }
}
