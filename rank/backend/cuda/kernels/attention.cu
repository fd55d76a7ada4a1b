// Causal attention of flat tokens in segments, for training. A block has one row of one head.
// Launched by operations.c.
//
// Backward computes probabilities again from what forward kept. First each query row makes its own
// gradient, and the mean that its softmax's gradient needs. Then each key row adds up the gradients
// of its key and value over the query rows behind it, in their order. Last the biases.
#include "attend.h"
#include "columns.h"

// A block's row and head. The grid has a block for each row, so it needs no table from the device.
struct place {
    size_t begin; // the first token of the row's segment
    size_t count; // its tokens
    size_t row;   // in the segment
    size_t head;
};

// The row's segment is the last that begins at the row or before it: empty ones come before.
__device__ static place my_place(const rank_attention &args)
{
    const int32_t *start = args.segment_start;
    const int32_t row = start[0] + (int32_t)blockIdx.x;
    size_t low = 0;
    size_t high = args.segment_count; // begins behind the row
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (start[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    place at;
    at.begin = (size_t)start[low];
    at.count = (size_t)start[low + 1] - at.begin;
    at.row = (size_t)row - at.begin;
    at.head = blockIdx.y;
    return at;
}

// The keys and values of a segment, of one head.
template <typename Element> struct segment_rows {
    size_t width; // of the head
    size_t stride;
    const Element *k; // of the segment's first token
    const Element *v;
    const float *k_bias;
    const float *v_bias;
    __device__ float key(size_t t, size_t d) const
    {
        return get(k[t * stride + d]) + k_bias[d];
    }
    __device__ float value(size_t t, size_t d) const
    {
        return get(v[t * stride + d]) + v_bias[d];
    }
};

template <typename Element>
__device__ static segment_rows<Element> rows_of(const rank_attention &args, const place &at)
{
    const size_t head_width = args.width / args.heads;
    const size_t column = at.head * head_width;
    const Element *q = static_cast<const Element *>(args.qkv) + at.begin * 3 * args.width + column;
    segment_rows<Element> rows;
    rows.width = head_width;
    rows.stride = 3 * args.width;
    rows.k = q + args.width;
    rows.v = q + 2 * args.width;
    rows.k_bias = args.bias + args.width + column;
    rows.v_bias = args.bias + 2 * args.width + column;
    return rows;
}

template <typename Element> __device__ static float scale_of(const segment_rows<Element> &rows)
{
    return 1.0f / sqrtf((float)rows.width);
}

// Element d of the scaled query of row i of the segment.
template <typename Element>
__device__ static float query(const rank_attention &args, const place &at,
                              const segment_rows<Element> &rows, size_t i, size_t d, float scale)
{
    const size_t column = at.head * rows.width + d;
    const Element *q = static_cast<const Element *>(args.qkv);
    return (get(q[(at.begin + i) * rows.stride + column]) + args.bias[column]) * scale;
}

// Where the row's statistics stand, in (T, H).
__device__ static size_t statistic(const rank_attention &args, const place &at, size_t i)
{
    return (at.begin + i) * args.heads + at.head;
}

template <typename Element> __global__ static void attention_kernel(rank_attention args)
{
    SHARED(attend_shared, shared);
    const place at = my_place(args);
    const segment_rows<Element> rows = rows_of<Element>(args, at);
    const float scale = scale_of(rows);
    for (size_t d = threadIdx.x; d < rows.width; d += ATTEND_THREADS) {
        shared->query[d] = query(args, at, rows, at.row, d, scale);
    }
    __syncthreads();
    Element *out =
        static_cast<Element *>(args.out) + (at.begin + at.row) * args.width + at.head * rows.width;
    const attend_result result = attend_row(shared, rows, at.row + 1, out);
    if (threadIdx.x == 0) {
        args.row_max[statistic(args, at, at.row)] = result.largest;
        args.row_scale[statistic(args, at, at.row)] = result.inverse;
    }
}

static dim3 grid_of(const rank_attention *args)
{
    return dim3((unsigned)args->rows, (unsigned)args->heads);
}

extern "C" void cuda_launch_attention(const rank_attention *args, cudaStream_t stream)
{
    WITH_ELEMENT(args->type, LAUNCH(attention_kernel<Element>, grid_of(args), ATTEND_THREADS,
                                    sizeof(attend_shared), stream, *args));
}

// Probabilities of tokens first … first + count to shared->scores, their gradients to
// shared->grads.
template <typename Element>
__device__ static void row_probabilities(const rank_attention &args, const place &at,
                                         const segment_rows<Element> &rows, attend_shared *shared,
                                         size_t first, size_t count)
{
    const float largest = args.row_max[statistic(args, at, at.row)];
    const float factor = args.row_scale[statistic(args, at, at.row)];
    for (size_t t = threadIdx.x; t < count; t += ATTEND_THREADS) {
        float score = 0.0f;
        float grad = 0.0f;
        for (size_t d = 0; d < rows.width; d++) {
            score = fmaf(shared->query[d], rows.key(first + t, d), score);
            grad = fmaf(shared->dout[d], rows.value(first + t, d), grad);
        }
        shared->scores[t] = exponential(score - largest) * factor;
        shared->grads[t] = grad;
    }
}

// The mean of the row: the sum of probabilities times their gradients.
template <typename Element>
__device__ static float row_mean(const rank_attention &args, const place &at,
                                 const segment_rows<Element> &rows, attend_shared *shared)
{
    float lane = 0.0f;
    for (size_t first = 0; first <= at.row; first += ATTEND_PIECE) {
        const size_t left = at.row + 1 - first;
        const size_t here = left < ATTEND_PIECE ? left : (size_t)ATTEND_PIECE;
        row_probabilities(args, at, rows, shared, first, here);
        __syncthreads();
        for (size_t t = threadIdx.x; threadIdx.x < ROW_LANES && t < here; t += ROW_LANES) {
            lane = lane + shared->scores[t] * shared->grads[t];
        }
        __syncthreads();
    }
    return attend_sum(shared, lane);
}

// The gradient of the query of row at.row, and the row's mean to scratch (T, H).
template <typename Element> __global__ static void query_grad_kernel(rank_attention args)
{
    SHARED(attend_shared, shared);
    const place at = my_place(args);
    const segment_rows<Element> rows = rows_of<Element>(args, at);
    const float scale = scale_of(rows);
    const float *dout = args.dout + (at.begin + at.row) * args.width + at.head * rows.width;
    for (size_t d = threadIdx.x; d < rows.width; d += ATTEND_THREADS) {
        shared->query[d] = query(args, at, rows, at.row, d, scale);
        shared->dout[d] = dout[d];
    }
    __syncthreads();
    const float mean = row_mean(args, at, rows, shared);
    Element *dqkv = static_cast<Element *>(args.dqkv);
    const size_t dqkv_row = at.begin - args.dqkv_first + at.row;
    float sum[ATTEND_EACH] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (size_t first = 0; first <= at.row; first += ATTEND_PIECE) {
        const size_t left = at.row + 1 - first;
        const size_t here = left < ATTEND_PIECE ? left : (size_t)ATTEND_PIECE;
        if (at.row >= ATTEND_PIECE) { // else they are still there
            row_probabilities(args, at, rows, shared, first, here);
        }
        for (size_t t = threadIdx.x; t < here; t += ATTEND_THREADS) {
            shared->grads[t] = shared->scores[t] * (shared->grads[t] - mean);
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < ATTEND_EACH; e++) {
            const size_t d = threadIdx.x + (size_t)e * ATTEND_THREADS;
            for (size_t t = 0; d < rows.width && t < here; t++) {
                sum[e] = fmaf(shared->grads[t], rows.key(first + t, d), sum[e]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < ATTEND_EACH; e++) {
        const size_t d = threadIdx.x + (size_t)e * ATTEND_THREADS;
        if (d < rows.width) {
            put(dqkv + dqkv_row * rows.stride + at.head * rows.width + d, sum[e] * scale);
        }
    }
    if (threadIdx.x == 0) {
        args.scratch[dqkv_row * args.heads + at.head] = mean;
    }
}

// Of query rows first … first + count and this block's key row: probabilities to shared->scores, the
// gradients of the scores to shared->grads. The key stands in shared->query, the value in
// shared->dout.
template <typename Element>
__device__ static void column_probabilities(const rank_attention &args, const place &at,
                                            const segment_rows<Element> &rows,
                                            attend_shared *shared, size_t first, size_t count)
{
    const float scale = scale_of(rows);
    for (size_t t = threadIdx.x; t < count; t += ATTEND_THREADS) {
        const size_t i = first + t;
        const float *dout = args.dout + (at.begin + i) * args.width + at.head * rows.width;
        const size_t dqkv_row = at.begin - args.dqkv_first + i;
        float score = 0.0f;
        float grad = 0.0f;
        for (size_t d = 0; d < rows.width; d++) {
            score = fmaf(query(args, at, rows, i, d, scale), shared->query[d], score);
            grad = fmaf(dout[d], shared->dout[d], grad);
        }
        const float p = exponential(score - args.row_max[statistic(args, at, i)]) *
                        args.row_scale[statistic(args, at, i)];
        shared->scores[t] = p;
        shared->grads[t] = p * (grad - args.scratch[dqkv_row * args.heads + at.head]);
    }
}

// The gradients of the key and the value of row at.row.
template <typename Element> __global__ static void key_grad_kernel(rank_attention args)
{
    SHARED(attend_shared, shared);
    const place at = my_place(args);
    const segment_rows<Element> rows = rows_of<Element>(args, at);
    const float scale = scale_of(rows);
    for (size_t d = threadIdx.x; d < rows.width; d += ATTEND_THREADS) {
        shared->query[d] = rows.key(at.row, d);
        shared->dout[d] = rows.value(at.row, d);
    }
    __syncthreads();
    float dk[ATTEND_EACH] = {0.0f, 0.0f, 0.0f, 0.0f};
    float dv[ATTEND_EACH] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (size_t first = at.row; first < at.count; first += ATTEND_PIECE) {
        const size_t left = at.count - first;
        const size_t here = left < ATTEND_PIECE ? left : (size_t)ATTEND_PIECE;
        column_probabilities(args, at, rows, shared, first, here);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < ATTEND_EACH; e++) {
            const size_t d = threadIdx.x + (size_t)e * ATTEND_THREADS;
            const float *dout = args.dout + (at.begin + first) * args.width + at.head * rows.width;
            for (size_t t = 0; d < rows.width && t < here; t++) {
                dk[e] = fmaf(shared->grads[t], query(args, at, rows, first + t, d, scale), dk[e]);
                dv[e] = fmaf(shared->scores[t], dout[t * args.width + d], dv[e]);
            }
        }
        __syncthreads();
    }
    Element *dqkv =
        static_cast<Element *>(args.dqkv) + (at.begin - args.dqkv_first + at.row) * rows.stride;
#pragma unroll
    for (int e = 0; e < ATTEND_EACH; e++) {
        const size_t d = threadIdx.x + (size_t)e * ATTEND_THREADS;
        if (d < rows.width) {
            put(dqkv + args.width + at.head * rows.width + d, dk[e]);
            put(dqkv + 2 * args.width + at.head * rows.width + d, dv[e]);
        }
    }
}

// dbias += each segment's column sums of dqkv, each from 0, in the segments' order. Behind the last
// row there are at most empty ones.
template <typename Element> __global__ static void bias_grad_kernel(rank_attention args)
{
    SHARED(float, tile);
    const size_t columns = 3 * args.width;
    const size_t column = (size_t)blockIdx.x * COLUMNS_TILE + threadIdx.x;
    const bool mine = threadIdx.x < COLUMNS_TILE && column < columns;
    const array_value<Element> value = {static_cast<const Element *>(args.dqkv), columns};
    float sum = mine ? args.dbias[column] : 0.0f;
    size_t end = (size_t)args.segment_start[0] - args.dqkv_first;
    const size_t last = end + args.rows;
    for (size_t s = 0; s < args.segment_count && end < last; s++) {
        const size_t first = end;
        end = (size_t)args.segment_start[s + 1] - args.dqkv_first;
        sum = sum + column_chain(0.0f, value, first, end, columns, tile);
    }
    if (mine) {
        args.dbias[column] = sum;
    }
}

extern "C" void cuda_launch_attention_grad(const rank_attention *args, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((3 * args->width + COLUMNS_TILE - 1) / COLUMNS_TILE);
    const size_t shared_bytes = sizeof(attend_shared);
    const dim3 grid = grid_of(args);
    WITH_ELEMENT(args->type, {
        LAUNCH(query_grad_kernel<Element>, grid, ATTEND_THREADS, shared_bytes, stream, *args);
        LAUNCH(key_grad_kernel<Element>, grid, ATTEND_THREADS, shared_bytes, stream, *args);
        LAUNCH(bias_grad_kernel<Element>, blocks, COLUMNS_THREADS, COLUMNS_SHARED_BYTES, stream,
               *args);
    });
}
