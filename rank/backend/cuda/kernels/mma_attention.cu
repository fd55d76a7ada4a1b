// For the backend `cuda`: causal attention of bfloat16 on tensor cores. mma_tiles.h explains the
// tiles, mma.h the fragments. Launched by fast_attention.cu, which keeps what this does not take.
//
// The softmax is made on the way (Dao 2023, FlashAttention-2): a row's largest score and its sum are
// kept in registers, and what was added up before is scaled when a larger score comes.
#include "mma_attention.h"

// Of the softmax so far, for this lane's two rows: the largest score, and the lane's share of the
// sum.
struct running_softmax {
    float largest[HALVES];
    float sum[HALVES];
};

// From scores to 2^(score · scale - the largest one). A row without any key yet has -INFINITY.
template <int D>
__device__ static void soften(mma_c (&s)[2 * GROUPS], running_softmax &soft,
                              mma_c (&sums)[mma_shape<D>::tiles], float scale)
{
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        float largest = soft.largest[half];
#pragma unroll
        for (int n = 0; n < 2 * GROUPS; n++) {
            largest = fmaxf(largest, fmaxf(s[n].at[2 * half], s[n].at[2 * half + 1]));
        }
        largest = largest_of_quad(largest);
        const float from = largest == -INFINITY ? 0.0f : largest * scale;
        const float factor = power_of_two(fmaf(soft.largest[half], scale, -from));
        float sum = soft.sum[half] * factor;
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) {
            float &score = s[i / 2].at[2 * half + i % 2];
            score = power_of_two(fmaf(score, scale, -from));
            sum = sum + score;
        }
        soft.largest[half] = largest;
        soft.sum[half] = sum;
#pragma unroll
        for (int n = 0; n < mma_shape<D>::tiles; n++) {
            sums[n].at[2 * half] = sums[n].at[2 * half] * factor;
            sums[n].at[2 * half + 1] = sums[n].at[2 * half + 1] * factor;
        }
    }
}

template <int D>
__device__ static void write_out(const rank_attention &args, const own_rows &own,
                                 const mma_c (&sums)[mma_shape<D>::tiles],
                                 const running_softmax &soft)
{
    float inverse[HALVES];
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        const int32_t row = own.strip + mma_row(2 * half);
        inverse[half] = 1.0f / sum_of_quad(soft.sum[half]);
        if (row < own.end && threadIdx.x % 4 == 0) {
            args.row_max[statistic(args, own, row)] = soft.largest[half] * own.scale;
            args.row_scale[statistic(args, own, row)] = inverse[half];
        }
    }
    write_strip<D>((__nv_bfloat16 *)args.out + place_of(own, args.width), (int)args.width, own,
                   sums, inverse);
}

// The tiles with most keys begin first.
template <int D>
__global__ static void __launch_bounds__(THREADS, 2) mma_attention_kernel(rank_attention args)
{
    SHARED(__nv_bfloat16, keys);
    __nv_bfloat16 *values = keys + mma_shape<D>::tile_elements;
    const own_rows own = rows_of_tile<false>(args, gridDim.x - 1 - blockIdx.x);
    const array_rows<__nv_bfloat16> key_rows = rows_of_qkv(args, own, 1);
    const array_rows<__nv_bfloat16> value_rows = rows_of_qkv(args, own, 2);
    running_softmax soft = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    mma_a query[mma_shape<D>::steps];
    mma_c sums[mma_shape<D>::tiles];
    clear<D>(sums);
    bring_strip<D>(query, keys, rows_of_qkv(args, own, 0), own.begin, own.end);
    auto key_part = fetch<D>(key_rows, own.stream.low, own.stream.high);
    auto value_part = fetch<D>(value_rows, own.stream.low, own.stream.high);
    for (int32_t k = own.stream.low; k < own.stream.high; k += STREAM) {
        __syncthreads();
        key_part.place(keys, key_rows);
        value_part.place(values, value_rows);
        __syncthreads();
        key_part = fetch<D>(key_rows, k + STREAM, own.stream.high);
        value_part = fetch<D>(value_rows, k + STREAM, own.stream.high);
        if (!needs(own, k)) {
            continue;
        }
        mma_c s[2 * GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            products_with_rows<D>(s + 2 * g, query, keys + g * GROUP * mma_shape<D>::pitch);
        }
        if (!sees_all(own, k)) {
            mask_scores<false>(s, own, k);
        }
        soften<D>(s, soft, sums, own.scale * LOG2_E);
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            add_weighted_rows<D>(sums, rounded_tiles(s[2 * g], s[2 * g + 1]),
                                 values + g * GROUP * mma_shape<D>::pitch);
        }
    }
    write_out<D>(args, own, sums, soft);
}

template <int D> static void launch_forward(const rank_attention *args, cudaStream_t stream)
{
    LAUNCH(mma_attention_kernel<D>, dim3(tiles_of_rows(args), (unsigned)args->heads), THREADS,
           mma_shape<D>::shared_bytes, stream, *args);
}

extern "C" bool cuda_can_mma_attention(const rank_attention *args)
{
    enum { WIDTH_MAX = 64, ALIGNMENT = 16 };
    const size_t width = args->width / args->heads;
    const uintptr_t addresses = address_of(args->qkv) | address_of(args->bias) |
                                address_of(args->out) | address_of(args->dout) |
                                address_of(args->dqkv);
    return args->type == RANK_BFLOAT16 && width % EIGHT == 0 && width <= WIDTH_MAX &&
           addresses % ALIGNMENT == 0 && args->rows <= INT32_MAX - OWN - STREAM;
}

extern "C" void cuda_launch_mma_attention(const rank_attention *args, cudaStream_t stream)
{
    if (args->width / args->heads <= 32) {
        launch_forward<32>(args, stream);
    } else {
        launch_forward<64>(args, stream);
    }
}
