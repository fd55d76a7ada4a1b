// For the backend `cuda`: causal attention of bfloat16 on tensor cores. mma_tiles.h explains the
// tiles, mma.h the fragments. Launched by fast_attention.cu, which keeps what this does not take.
//
// The softmax is made on the way (Dao 2023, FlashAttention-2): a row's largest score and its sum are
// kept in registers, and what was added up before is scaled when a larger score comes.
#include "mma_attention.h"

// Keys whose scores a warp has at once. More would take more registers, and leave fewer warps.
enum { PART = 32, BLOCKS_EACH = 3 /* on a multiprocessor, at least */ };

typedef strip_scores<PART> part_scores;

// Of the softmax so far, for this lane's rows: the largest score, and the lane's share of the sum.
struct running_softmax {
    float largest[ROWS_EACH];
    float sum[ROWS_EACH];
};

// From scores to 2^(score · scale - the largest one). A row without any key yet has -INFINITY.
template <int D>
__device__ static void soften(part_scores &s, running_softmax &soft, strip_sums<D> &sums,
                              float scale)
{
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        mma_c *row = s.at[i / HALVES];
        mma_c *summed = sums.at[i / HALVES];
        const int first = i % HALVES * 2;
        float largest = soft.largest[i];
#pragma unroll
        for (int n = 0; n < s.tiles; n++) {
            largest = fmaxf(largest, fmaxf(row[n].at[first], row[n].at[first + 1]));
        }
        largest = largest_of_quad(largest);
        const float from = largest == -INFINITY ? 0.0f : largest * scale;
        const float factor = power_of_two(fmaf(soft.largest[i], scale, -from));
        float sum = soft.sum[i] * factor;
#pragma unroll
        for (int n = 0; n < 2 * s.tiles; n++) {
            float &score = row[n / 2].at[first + n % 2];
            score = power_of_two(fmaf(score, scale, -from));
            sum = sum + score;
        }
        soft.largest[i] = largest;
        soft.sum[i] = sum;
#pragma unroll
        for (int n = 0; n < 2 * mma_shape<D>::tiles; n++) {
            summed[n / 2].at[first + n % 2] = summed[n / 2].at[first + n % 2] * factor;
        }
    }
}

// A strip of queries, and what it has come to.
template <int D> struct query_strip {
    strip_factor<D> query;
    running_softmax soft;
    strip_sums<D> sums;
    float scale;

    // The keys from k on, in tiles of keys and values.
    template <bool MASKED>
    __device__ void attend(const own_rows &own, const __nv_bfloat16 *keys, int32_t k)
    {
        const __nv_bfloat16 *values = keys + mma_shape<D>::tile_elements;
        part_scores s;
#pragma unroll
        for (int g = 0; g < PART; g += GROUP) {
            products_with_rows<D>(s, g / MMA_COLUMNS, query, keys + g * mma_shape<D>::pitch);
        }
        if (MASKED) {
            mask_scores<false>(s, own, k);
        }
        soften<D>(s, soft, sums, scale);
#pragma unroll
        for (int g = 0; g < PART; g += GROUP) {
            add_weighted_rows<D>(sums, s, g / MMA_COLUMNS, values + g * mma_shape<D>::pitch);
        }
    }
};

// Writes the statistics of this lane's rows, and returns 1 / their sums.
template <int D>
__device__ static void write_statistics(const rank_attention &args, const own_rows &own,
                                        const query_strip<D> &strip, float (&inverse)[ROWS_EACH])
{
    float with_bias[ROWS_EACH];
    products_with_key_bias(with_bias, args, own, strip.query);
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        const int32_t row = own.strip + strip_row(i);
        inverse[i] = 1.0f / sum_of_quad(strip.soft.sum[i]);
        if (row < own.end && threadIdx.x % 4 == 0) {
            args.row_max[statistic(args, own, row)] =
                (strip.soft.largest[i] + with_bias[i]) * own.scale;
            args.row_scale[statistic(args, own, row)] = inverse[i];
        }
    }
}

// The values' bias is added here: the probabilities of a row add up to 1.
template <int D>
__device__ static void write_out(const rank_attention &args, const own_rows &own,
                                 const query_strip<D> &strip)
{
    float inverse[ROWS_EACH];
    __nv_bfloat16 *out = (__nv_bfloat16 *)args.out + place_of(own, args.width);
    write_statistics<D>(args, own, strip, inverse);
#pragma unroll
    for (int n = 0; n < mma_shape<D>::tiles; n++) {
        const int column = n * MMA_COLUMNS + mma_column(0);
        const bias_pair bias = bias_of(args, own, 2, column);
#pragma unroll
        for (int i = 0; i < ROWS_EACH; i++) {
            const int32_t row = own.strip + strip_row(i);
            const float *sum = strip.sums.at[i / HALVES][n].at + i % HALVES * 2;
            if (row < own.end && column < own.width) {
                *reinterpret_cast<uint32_t *>(out + (int64_t)row * (int64_t)args.width + column) =
                    pair_of(fmaf(sum[0], inverse[i], bias.left),
                            fmaf(sum[1], inverse[i], bias.right));
            }
        }
    }
}

// The tiles with most keys begin first.
template <int D>
__global__ static void __launch_bounds__(THREADS, BLOCKS_EACH)
    mma_attention_kernel(rank_attention args)
{
    SHARED(__nv_bfloat16, stage);
    __nv_bfloat16 *next = stage + mma_shape<D>::stage_elements;
    const own_rows own = rows_of_block<false>(args, gridDim.x - 1 - blockIdx.x);
    const auto keys = rows_of_qkv(args, own, 1);
    const auto values = rows_of_qkv(args, own, 2);
    query_strip<D> strip = {};
    strip.scale = own.scale * LOG2_E;
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        strip.soft.largest[i] = -INFINITY;
    }
    begin_stage<D>(stage, keys, values, own.stream.low, own.stream.high);
    bring_strip<D>(strip.query, next, rows_of_qkv(args, own, 0), own.begin, own.end);
    for (int32_t k = own.stream.low; k < own.stream.high; k += STREAM) {
        wait_for_copies();
        __syncthreads(); // this stage is there, and nobody still reads the other one
        if (k + STREAM < own.stream.high) {
            begin_stage<D>(next, keys, values, k + STREAM, own.stream.high);
        }
#pragma unroll 1
        for (int p = 0; p < STREAM; p += PART) {
            const __nv_bfloat16 *at = stage + p * mma_shape<D>::pitch;
            if (sees_all(own, k + p, PART)) {
                strip.template attend<false>(own, at, k + p);
            } else if (needs(own, k + p, PART)) {
                strip.template attend<true>(own, at, k + p);
            }
        }
        swap_places(stage, next);
    }
    write_out<D>(args, own, strip);
}

template <int D> static void launch_forward(const rank_attention *args, cudaStream_t stream)
{
    LAUNCH(mma_attention_kernel<D>, blocks_of(args), THREADS, mma_shape<D>::shared_bytes, stream,
           *args);
}

extern "C" bool cuda_can_mma_attention(const rank_attention *args)
{
    enum { ALIGNMENT = 16 };
    const size_t width = args->width / args->heads;
    const uintptr_t addresses = address_of(args->qkv) | address_of(args->bias) |
                                address_of(args->out) | address_of(args->dout) |
                                address_of(args->dqkv) | address_of(args->scratch);
    return args->type == RANK_BFLOAT16 && width % EIGHT == 0 && width <= MMA_WIDTH_MAX &&
           addresses % ALIGNMENT == 0 && args->rows <= (size_t)(INT32_MAX - OWN) / args->heads;
}

extern "C" void cuda_launch_mma_attention(const rank_attention *args, cudaStream_t stream)
{
    if (args->width / args->heads <= 32) {
        launch_forward<32>(args, stream);
    } else {
        launch_forward<64>(args, stream);
    }
}
