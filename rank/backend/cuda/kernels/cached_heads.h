// Where attention_split.cu's rows are, and their keys and values: which sequence a row is of, how that
// is cut into parts, and where its cache has a token of a head. Included by attention_split.cu.
#ifndef RANK_BACKEND_CUDA_KERNELS_CACHED_HEADS_H
#define RANK_BACKEND_CUDA_KERNELS_CACHED_HEADS_H

#include "element.h"
#include "kernels.h"

enum {
    WARP = 32,
    WARPS = 4,
    THREADS = WARPS * WARP,
    PART_TOKENS = 64,
    PARTS_MAX = 32,
    TILE = 256,     // tokens whose scores are in shared memory at a time
    EXTRA = 2,      // floats of a part behind its values: the largest score, and the sum
    AT_ONCE = 4,    // vectors that a thread asks for together
    USUAL_BITS = 4, // of a block's tokens
};

// What the kernels get beside the operation's arguments. The host divides: on the device that takes
// as long as a read.
struct split {
    unsigned first_row;  // of this launch
    unsigned parts;      // the grid's, enough for the longest sequence
    unsigned token_bits; // block_tokens is 1 << token_bits
    unsigned sharing;    // heads of queries that share one of keys and values
    float scale;         // of queries
    float *partial;      // (rows of this launch, heads, parts, head_width + EXTRA)
    unsigned *counts;    // (rows of this launch, heads): zeros
};

struct split_row {
    unsigned sequence;
    unsigned length; // tokens that the row attends to
    unsigned each;   // tokens of a part
    bool exists;
};

__device__ static split_row find(const rank_attention_cached &args, unsigned row)
{
    unsigned low = args.one_row_each ? row : 0;
    unsigned high = args.one_row_each ? row + 1 : (unsigned)args.sequence_count;
    while (high - low > 1) { // row_start[low] <= row < row_start[high]
        const unsigned middle = (low + high) / 2;
        if ((unsigned)args.row_start[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    split_row found;
    found.sequence = low;
    found.exists = args.lengths[low] >= 0;
    found.length = (unsigned)(args.lengths[low] + 1) + row - (unsigned)args.row_start[low];
    const unsigned least = (found.length + PARTS_MAX - 1) / PARTS_MAX;
    found.each = (least + PART_TOKENS - 1) / PART_TOKENS * PART_TOKENS;
    return found;
}

__device__ static float biased(const rank_attention_cached &args, unsigned row, unsigned column)
{
    const unsigned stride = (unsigned)((args.heads + 2 * args.kv_heads) * args.head_width);
    return args.qkv[(size_t)row * stride + column] + (args.bias != NULL ? args.bias[column] : 0.0f);
}

// Where a row's q of a head, and k and v of a head of these, begin.
struct row_columns {
    unsigned q;
    unsigned k;
    unsigned v;
};

__device__ static row_columns columns_of(const rank_attention_cached &args, unsigned head,
                                         unsigned kv_head)
{
    const unsigned width = (unsigned)args.head_width;
    const unsigned k = (unsigned)args.heads * width + kv_head * width;
    return {head * width, k, k + (unsigned)args.kv_heads * width};
}

// Biases do not wait for what computes the row.
__device__ static void prefetch_bias(const rank_attention_cached &args, const row_columns &columns)
{
    enum { LINE_FLOATS = 32 };
    if (args.bias != NULL && threadIdx.x < (unsigned)args.head_width / LINE_FLOATS) {
        prefetch(args.bias + columns.q + threadIdx.x * LINE_FLOATS);
        prefetch(args.bias + columns.k + threadIdx.x * LINE_FLOATS);
        prefetch(args.bias + columns.v + threadIdx.x * LINE_FLOATS);
    }
}

// One sequence's cache of one head. With D, heads are D wide and blocks have 1 << USUAL_BITS tokens,
// which the compiler then knows.
template <typename ELEMENT, int D> struct cached_head {
    const int32_t *blocks;
    ELEMENT *keys; // of block 0
    ELEMENT *values;
    size_t block_elements; // from one block to the next
    unsigned given_width;
    unsigned given_bits;
    __device__ unsigned width() const
    {
        return D > 0 ? (unsigned)D : given_width;
    }
    __device__ unsigned token_bits() const
    {
        return D > 0 ? (unsigned)USUAL_BITS : given_bits;
    }
    __device__ size_t block(unsigned t) const
    {
        return (size_t)blocks[t >> token_bits()] * block_elements;
    }
    __device__ unsigned in_block(unsigned t) const
    {
        return t & ((1u << token_bits()) - 1);
    }
};

template <typename ELEMENT, int D>
__device__ static cached_head<ELEMENT, D>
head_of(const rank_attention_cached &args, const split &how, unsigned sequence, unsigned kv_head)
{
    cached_head<ELEMENT, D> at;
    const size_t elements = args.head_width << how.token_bits;
    at.blocks = args.block_table + (size_t)sequence * args.table_width;
    at.keys = static_cast<ELEMENT *>(args.keys) + kv_head * elements;
    at.values = static_cast<ELEMENT *>(args.values) + kv_head * elements;
    at.block_elements = args.kv_heads * elements;
    at.given_width = (unsigned)args.head_width;
    at.given_bits = how.token_bits;
    return at;
}

// Element d of a key and of a value, to token t of the sequence.
template <typename ELEMENT, int D>
__device__ static void append(const cached_head<ELEMENT, D> &at, unsigned t, unsigned d, float key,
                              float value)
{
    const size_t block = at.block(t);
    put(at.keys + block + ((size_t)d << at.token_bits()) + at.in_block(t), key);
    put(at.values + block + (size_t)at.in_block(t) * at.width() + d, value);
}

// Asks for the keys and values of tokens begin … end; begin is a block's first.
template <typename ELEMENT, int D>
__device__ static void prefetch_cache(const cached_head<ELEMENT, D> &at, unsigned begin,
                                      unsigned end)
{
    const unsigned each = 1u << at.token_bits();
    const size_t bytes = (size_t)at.width() * each * sizeof(ELEMENT);
#pragma unroll 1
    for (unsigned t = begin + threadIdx.x * each; t < end; t += THREADS * each) {
        prefetch_span(at.keys + at.block(t), bytes);
        prefetch_span(at.values + at.block(t), bytes);
    }
}

#endif
