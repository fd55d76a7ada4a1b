// Attention of new tokens over a cache in blocks, for decoding. Launched by operations.c.
//
// One kernel puts the new keys and values into the cache, the next one attends: a block has one row
// of one head. How many rows there are stands in a table that only the device reads, so blocks go
// on from row to row.
#include "attend.h"

enum { ROW_BLOCKS = 256 };

struct sequence_row {
    size_t sequence;
    size_t token; // of the sequence
};

// Which sequence a row belongs to: row_start ascends, and empty sequences have no rows.
__device__ static sequence_row find_row(const rank_attention_cached &args, size_t row)
{
    size_t low = 0;
    size_t high = args.sequence_count; // row_start[low] <= row < row_start[high]
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if ((size_t)args.row_start[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    sequence_row found;
    found.sequence = low;
    found.token = (size_t)args.lengths[low] + row - (size_t)args.row_start[low];
    return found;
}

// The keys and values of a sequence, of one head.
struct cached_rows {
    size_t width;
    size_t block_tokens;
    size_t kv_heads;
    size_t kv_head;
    const int32_t *blocks;
    float *keys;
    float *values;
    __device__ size_t block_of(size_t t) const
    {
        const size_t block = (size_t)blocks[t / block_tokens];
        return (block * kv_heads + kv_head) * block_tokens * width;
    }
    __device__ size_t key_at(size_t t, size_t d) const
    {
        return block_of(t) + d * block_tokens + t % block_tokens;
    }
    __device__ size_t value_at(size_t t, size_t d) const
    {
        return block_of(t) + t % block_tokens * width + d;
    }
    __device__ float key(size_t t, size_t d) const
    {
        return keys[key_at(t, d)];
    }
    __device__ float value(size_t t, size_t d) const
    {
        return values[value_at(t, d)];
    }
};

__device__ static cached_rows rows_of(const rank_attention_cached &args, size_t sequence,
                                      size_t kv_head)
{
    cached_rows rows;
    rows.width = args.head_width;
    rows.block_tokens = args.block_tokens;
    rows.kv_heads = args.kv_heads;
    rows.kv_head = kv_head;
    rows.blocks = args.block_table + sequence * args.table_width;
    rows.keys = static_cast<float *>(args.keys);
    rows.values = static_cast<float *>(args.values);
    return rows;
}

__device__ static float biased(const rank_attention_cached &args, size_t row, size_t column)
{
    const size_t stride = (args.heads + 2 * args.kv_heads) * args.head_width;
    return args.qkv[row * stride + column] + (args.bias != NULL ? args.bias[column] : 0.0f);
}

// blockIdx.y: the head of keys and values.
__global__ static void append_kernel(rank_attention_cached args)
{
    const size_t width = args.head_width;
    const size_t k = (args.heads + blockIdx.y) * width;
    const size_t v = k + args.kv_heads * width;
    const size_t row_count = (size_t)args.row_start[args.sequence_count];
    for (size_t row = blockIdx.x; row < row_count; row += gridDim.x) {
        const sequence_row at = find_row(args, row);
        if (args.lengths[at.sequence] < 0) {
            continue; // padding
        }
        const cached_rows rows = rows_of(args, at.sequence, blockIdx.y);
        for (size_t d = threadIdx.x; d < width; d += ATTEND_THREADS) {
            rows.keys[rows.key_at(at.token, d)] = biased(args, row, k + d);
            rows.values[rows.value_at(at.token, d)] = biased(args, row, v + d);
        }
    }
}

// blockIdx.y: the head of queries.
__global__ static void attend_kernel(rank_attention_cached args)
{
    SHARED(attend_shared, shared);
    const size_t width = args.head_width;
    const float scale = 1.0f / sqrtf((float)width);
    const size_t head = blockIdx.y;
    const size_t row_count = (size_t)args.row_start[args.sequence_count];
    for (size_t row = blockIdx.x; row < row_count; row += gridDim.x) {
        const sequence_row at = find_row(args, row);
        float *out = args.out + (row * args.heads + head) * width;
        if (args.lengths[at.sequence] < 0) { // padding
            for (size_t d = threadIdx.x; d < width; d += ATTEND_THREADS) {
                out[d] = 0.0f;
            }
            continue;
        }
        const cached_rows rows = rows_of(args, at.sequence, head / (args.heads / args.kv_heads));
        for (size_t d = threadIdx.x; d < width; d += ATTEND_THREADS) {
            shared->query[d] = biased(args, row, head * width + d) * scale;
        }
        __syncthreads();
        (void)attend_row(shared, rows, at.token + 1, out);
        __syncthreads();
    }
}

extern "C" void cuda_launch_attention_cached(const rank_attention_cached *args, cudaStream_t stream)
{
    const dim3 appending(ROW_BLOCKS, (unsigned)args->kv_heads);
    const dim3 attending(ROW_BLOCKS, (unsigned)args->heads);
    LAUNCH(append_kernel, appending, ATTEND_THREADS, 0, stream, *args);
    LAUNCH(attend_kernel, attending, ATTEND_THREADS, sizeof(attend_shared), stream, *args);
}
