// Attention over a cache in blocks, when decoding is to be fast: a long sequence is cut into parts,
// each the work of one block, and the block that ends last puts the parts' results together, in their
// order. Launched by operations.c.
//
// A part is a multiple of PART_TOKENS tokens, and there are at most PARTS_MAX. How a sequence is cut
// follows from its length alone, so a row's bits do not depend on what is beside it. Of each part
// the kernel keeps the largest score, the sum of the exponentials, and the weighted sum of values.
//
// Keys and values are read in vectors of 16 bytes, of the cache's layout (backend.h): a vector of
// keys is one element of VECTOR tokens, one of values is VECTOR elements of one token.
#include "cached_heads.h"
#include "vectors.h"

// blockIdx: the row, the head of keys and values. For sequences that have several rows.
template <typename ELEMENT>
__global__ static void append_rows_kernel(rank_attention_cached args, split how)
{
    const unsigned row = blockIdx.x;
    const row_columns columns = columns_of(args, 0, blockIdx.y);
    wait_for_previous();
    const split_row at = find(args, row);
    for (unsigned d = threadIdx.x; at.exists && d < (unsigned)args.head_width; d += THREADS) {
        append(head_of<ELEMENT, 0>(args, how, at.sequence, blockIdx.y), at.length - 1, d,
               biased(args, row, columns.k + d), biased(args, row, columns.v + d));
    }
}

// scores[0 … end - begin) of tokens begin … end; begin is a block's first. A warp makes those of a
// block: a lane has VECTOR tokens and some elements of their keys.
template <int VECTOR, typename ELEMENT, int D>
__device__ static void make_scores(const cached_head<ELEMENT, D> &at, const float *query,
                                   unsigned begin, unsigned end, float *scores)
{
    const unsigned lane = threadIdx.x % WARP;
    const unsigned each = 1u << at.token_bits();
    const unsigned vector_bits = at.token_bits() - (VECTOR == 8 ? 3 : 2);
    const unsigned vectors = 1u << vector_bits; // of a block's tokens
    const unsigned token = (lane & (vectors - 1)) * VECTOR;
    const unsigned step = WARP >> vector_bits; // elements of a key
    for (unsigned t = begin + threadIdx.x / WARP * each; t < end; t += WARPS * each) {
        const ELEMENT *keys = at.keys + at.block(t) + token;
        float sum[VECTOR];
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            sum[e] = 0.0f;
        }
        for (unsigned d = lane >> vector_bits; d < at.width(); d += AT_ONCE * step) {
            uint4 raw[AT_ONCE];
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++) {
                if (d + k * step < at.width()) {
                    raw[k] = load_vector(keys + ((size_t)(d + k * step) << at.token_bits()));
                }
            }
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++) {
                if (d + k * step < at.width()) {
                    const vector<VECTOR> key =
                        widen(raw[k], static_cast<const vector<VECTOR> *>(NULL));
#pragma unroll
                    for (int e = 0; e < VECTOR; e++) {
                        sum[e] = fmaf(query[d + k * step], key.at[e], sum[e]);
                    }
                }
            }
        }
        for (unsigned apart = WARP / 2; apart >= vectors; apart /= 2) {
#pragma unroll
            for (int e = 0; e < VECTOR; e++) {
                sum[e] = sum[e] + __shfl_xor_sync(0xffffffffu, sum[e], (int)apart);
            }
        }
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            if (lane < vectors && t + token + e < end) {
                scores[t + token + e - begin] = sum[e];
            }
        }
    }
}

// For all threads. `warps` is shared memory for WARPS values.
__device__ static float largest_of_block(float mine, float *warps)
{
    mine = largest_of_warp(mine);
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        warps[threadIdx.x / WARP] = mine;
    }
    __syncthreads();
    float largest = warps[0];
    for (int w = 1; w < WARPS; w++) {
        largest = larger_of(largest, warps[w]);
    }
    return largest;
}

__device__ static float sum_of_block(float mine, float *warps)
{
    mine = sum_warp(mine);
    __syncthreads();
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

// A part's result: what the threads have of its values, and its softmax so far.
template <int VECTOR> struct part_sums {
    float values[VECTOR];
    float largest;
    float sum; // this thread's tokens
};

// How the threads share out the values of a tile: each has VECTOR elements of every step-th token.
template <int VECTOR> struct value_share {
    unsigned first; // token
    unsigned step;
    unsigned element;
    bool is_mine; // threads that are left over have none
};

template <int VECTOR> __device__ static value_share<VECTOR> share_values(unsigned width)
{
    const unsigned pieces = width / VECTOR;
    const unsigned first = threadIdx.x / pieces;
    const unsigned step = THREADS / pieces;
    return {first, step, threadIdx.x % pieces * VECTOR, first < step};
}

// The thread's values of AT_ONCE tokens of begin … begin + count, from t on; zeros behind the end.
template <int VECTOR, typename ELEMENT, int D>
__device__ static void load_values(const cached_head<ELEMENT, D> &at,
                                   const value_share<VECTOR> &share, unsigned begin, unsigned count,
                                   unsigned t, uint4 (&raw)[AT_ONCE])
{
#pragma unroll
    for (unsigned k = 0; k < AT_ONCE; k++) {
        const unsigned token = t + k * share.step;
        raw[k] = {0, 0, 0, 0};
        if (share.is_mine && token < count) {
            raw[k] = load_vector(at.values + at.block(begin + token) +
                                 (size_t)at.in_block(begin + token) * at.width() + share.element);
        }
    }
}

template <int VECTOR>
__device__ static void add_values(part_sums<VECTOR> &part, const value_share<VECTOR> &share,
                                  const float *weights, unsigned count, unsigned t,
                                  const uint4 (&raw)[AT_ONCE])
{
#pragma unroll
    for (unsigned k = 0; k < AT_ONCE; k++) {
        const unsigned token = t + k * share.step;
        const float weight = token < count ? weights[token] : 0.0f;
        const vector<VECTOR> value = widen(raw[k], static_cast<const vector<VECTOR> *>(NULL));
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            part.values[e] = fmaf(weight, value.at[e], part.values[e]);
        }
    }
}

// Tokens begin … end are added; they are at most TILE. The first values are asked for together with
// the keys.
template <int VECTOR, typename ELEMENT, int D>
__device__ static void add_tile(const cached_head<ELEMENT, D> &at, const float *query,
                                unsigned begin, unsigned end, float *scores, float *warps,
                                part_sums<VECTOR> &part)
{
    const unsigned count = end - begin;
    const value_share<VECTOR> share = share_values<VECTOR>(at.width());
    uint4 values[AT_ONCE];
    load_values<VECTOR>(at, share, begin, count, share.first, values);
    make_scores<VECTOR>(at, query, begin, end, scores);
    __syncthreads();
    float largest = part.largest;
    for (unsigned t = threadIdx.x; t < count; t += THREADS) {
        largest = larger_of(scores[t], largest);
    }
    largest = largest_of_block(largest, warps);
    const float before = part.largest == -INFINITY ? 0.0f : exponential(part.largest - largest);
    part.largest = largest;
    part.sum = part.sum * before;
    for (unsigned t = threadIdx.x; t < count; t += THREADS) {
        scores[t] = exponential(scores[t] - largest);
        part.sum = part.sum + scores[t];
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < VECTOR; e++) {
        part.values[e] = part.values[e] * before;
    }
    add_values(part, share, scores, count, share.first, values);
    for (unsigned t = share.first + AT_ONCE * share.step; t < count; t += AT_ONCE * share.step) {
        load_values<VECTOR>(at, share, begin, count, t, values);
        add_values(part, share, scores, count, t, values);
    }
    __syncthreads(); // scores are made anew
}

// out (width) = the threads' sums, in the threads' order, times scale. `shared` has THREADS · VECTOR
// floats, at a multiple of 16 bytes.
template <int VECTOR>
__device__ static void write_values(const part_sums<VECTOR> &part, unsigned width, float scale,
                                    float *shared, float *out)
{
    const unsigned slots = THREADS / (width / VECTOR);
#pragma unroll
    for (int e = 0; e < VECTOR; e += 4) {
        *reinterpret_cast<float4 *>(shared + threadIdx.x * VECTOR + e) =
            make_float4(part.values[e], part.values[e + 1], part.values[e + 2], part.values[e + 3]);
    }
    __syncthreads();
    for (unsigned d = threadIdx.x; d < width; d += THREADS) {
        float sum = shared[d];
#pragma unroll 8
        for (unsigned slot = 1; slot < slots; slot++) {
            sum = sum + shared[slot * width + d];
        }
        out[d] = sum * scale;
    }
}

static size_t shared_floats(const rank_attention_cached *args, size_t vector)
{
    return args->head_width + TILE + WARPS + THREADS * vector;
}

// For all threads: whether all parts' results are there. `word` is shared memory.
__device__ static bool ends_last(unsigned *count, unsigned parts, float *word)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        *word = is_last_block(count, parts) ? 1.0f : 0.0f;
    }
    __syncthreads();
    return *word > 0.0f;
}

// out (width) = the parts' values, weighted by the distance of their largest scores from the largest.
__device__ static void combine_parts(const float *partials, unsigned parts, unsigned width,
                                     float *out)
{
    const unsigned each = width + EXTRA;
    float largest = load_of_other(partials + width);
    for (unsigned p = 1; p < parts; p++) {
        largest = larger_of(load_of_other(partials + p * each + width), largest);
    }
    for (unsigned d = threadIdx.x; d < width; d += THREADS) {
        float value = 0.0f;
        float sum = 0.0f;
#pragma unroll 4
        for (unsigned p = 0; p < parts; p++) {
            const float *of = partials + p * each;
            const float weight = exponential(load_of_other(of + width) - largest);
            value = fmaf(weight, load_of_other(of + d), value);
            sum = fmaf(weight, load_of_other(of + width + 1), sum);
        }
        out[d] = value / sum;
    }
}

// blockIdx: the row of this launch, the head of queries, the part. The rows' places and the tables are
// the step's: no kernel writes them, so they are read, and the cache asked for, before the wait.
template <typename ELEMENT, int VECTOR, int D>
__global__ static void attend_part_kernel(rank_attention_cached args, split how)
{
    SHARED(float, shared);
    const unsigned width = D > 0 ? (unsigned)D : (unsigned)args.head_width;
    const unsigned head = blockIdx.y;
    const unsigned row = how.first_row + blockIdx.x;
    const unsigned kv_head = head / how.sharing;
    const row_columns columns = columns_of(args, head, kv_head);
    float *query = shared;
    float *scores = query + width;
    float *warps = scores + TILE;
    float *sums = warps + WARPS;
    begin_reading_ahead();
    const split_row row_at = find(args, row);
    const unsigned begin = blockIdx.z * row_at.each;
    const unsigned end = begin + row_at.each < row_at.length ? begin + row_at.each : row_at.length;
    const auto at = head_of<ELEMENT, D>(args, how, row_at.sequence, kv_head);
    prefetch_bias(args, columns);
    if (row_at.exists) {
        prefetch_cache(at, begin, end);
    }
    end_reading_ahead();
    wait_for_previous();
    float *out = args.out + ((size_t)row * args.heads + head) * width;
    if (!row_at.exists) { // of padding
        for (unsigned d = threadIdx.x; blockIdx.z == 0 && d < width; d += THREADS) {
            out[d] = 0.0f;
        }
        return;
    }
    if (begin >= row_at.length) {
        return;
    }
    for (unsigned d = threadIdx.x; d < width; d += THREADS) {
        const float q = biased(args, row, columns.q + d);
        const float k = biased(args, row, columns.k + d);
        const float v = biased(args, row, columns.v + d);
        query[d] = q * how.scale;
        if (args.one_row_each && end == row_at.length) { // heads that share keys write the same
            append(at, end - 1, d, k, v);
        }
    }
    __syncthreads();
    part_sums<VECTOR> part;
#pragma unroll
    for (int e = 0; e < VECTOR; e++) {
        part.values[e] = 0.0f;
    }
    part.largest = -INFINITY;
    part.sum = 0.0f;
    for (unsigned t = begin; t < end; t += TILE) {
        add_tile<VECTOR>(at, query, t, t + TILE < end ? t + TILE : end, scores, warps, part);
    }
    const float sum = sum_of_block(part.sum, warps);
    if (row_at.each >= row_at.length) {
        write_values(part, width, 1.0f / sum, sums, out);
        return;
    }
    const size_t place = (size_t)blockIdx.x * args.heads + head;
    float *partials = how.partial + place * how.parts * (width + EXTRA);
    float *mine = partials + blockIdx.z * (width + EXTRA);
    write_values(part, width, 1.0f, sums, mine);
    if (threadIdx.x == 0) {
        mine[width] = part.largest;
        mine[width + 1] = sum;
    }
    const unsigned parts = (row_at.length + row_at.each - 1) / row_at.each;
    if (ends_last(how.counts + place, parts, warps)) {
        combine_parts(partials, parts, width, out);
    }
}

template <typename ELEMENT, int VECTOR, int D>
static void launch_of(const rank_attention_cached *args, split how, size_t rows_at_once,
                      cudaStream_t stream)
{
    const auto append_rows = append_rows_kernel<ELEMENT>;
    const auto attend_part = attend_part_kernel<ELEMENT, VECTOR, D>;
    if (!args->one_row_each) {
        const dim3 all((unsigned)args->rows, (unsigned)args->kv_heads);
        LAUNCH_OVERLAPPED(append_rows, all, THREADS, 0, stream, *args, how);
    }
    for (size_t row = 0; row < args->rows; row += rows_at_once) {
        const size_t left = args->rows - row;
        const unsigned rows = (unsigned)(left < rows_at_once ? left : rows_at_once);
        const dim3 parts(rows, (unsigned)args->heads, how.parts);
        how.first_row = (unsigned)row;
        LAUNCH_OVERLAPPED(attend_part, parts, THREADS, shared_floats(args, VECTOR) * sizeof(float),
                          stream, *args, how);
    }
}

template <typename ELEMENT, int VECTOR>
static void launch(const rank_attention_cached *args, const split &how, size_t rows_at_once,
                   cudaStream_t stream)
{
    if (how.token_bits == USUAL_BITS && args->head_width == 64) {
        launch_of<ELEMENT, VECTOR, 64>(args, how, rows_at_once, stream);
    } else if (how.token_bits == USUAL_BITS && args->head_width == 128) {
        launch_of<ELEMENT, VECTOR, 128>(args, how, rows_at_once, stream);
    } else {
        launch_of<ELEMENT, VECTOR, 0>(args, how, rows_at_once, stream);
    }
}

static unsigned parts_of(size_t length_max)
{
    const size_t parts = (length_max + PART_TOKENS - 1) / PART_TOKENS;
    return (unsigned)(parts < PARTS_MAX ? parts : (size_t)PARTS_MAX);
}

static size_t row_floats(const rank_attention_cached *args)
{
    return args->heads * parts_of(args->length_max) * (args->head_width + EXTRA);
}

// A lane has whole vectors of a block's tokens, a warp one block at least, and a part whole blocks.
extern "C" bool cuda_can_split(const rank_attention_cached *args, size_t scratch_floats)
{
    const size_t tokens = args->block_tokens;
    const size_t vector = 16 / rank_type_bytes(args->cache_type);
    return args->rows > 0 && (tokens & (tokens - 1)) == 0 && tokens >= vector &&
           tokens <= PART_TOKENS && args->head_width % vector == 0 &&
           args->head_width / vector <= THREADS && row_floats(args) <= scratch_floats &&
           args->heads <= CUDA_COUNTS &&
           (reinterpret_cast<uintptr_t>(args->keys) | reinterpret_cast<uintptr_t>(args->values)) %
                   16 ==
               0;
}

extern "C" void cuda_launch_attention_split(const rank_attention_cached *args, float *scratch,
                                            size_t scratch_floats, unsigned *counts,
                                            cudaStream_t stream)
{
    split how = {0,
                 parts_of(args->length_max),
                 0,
                 (unsigned)(args->heads / args->kv_heads),
                 1.0f / sqrtf((float)args->head_width),
                 scratch,
                 counts};
    while (args->block_tokens >> how.token_bits > 1) {
        how.token_bits++;
    }
    const size_t room = scratch_floats / row_floats(args);
    const size_t counted = CUDA_COUNTS / args->heads;
    const size_t rows = room < counted ? room : counted;
    if (args->cache_type == RANK_BFLOAT16) {
        launch<__nv_bfloat16, 8>(args, how, rows, stream);
    } else {
        launch<float, 4>(args, how, rows, stream);
    }
}
