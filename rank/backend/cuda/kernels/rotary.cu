// What Llama's blocks have beside products and attention: RMS norm, biases, rotary positions, shared
// heads, SwiGLU. Launched by operations.c. `cuda` and `cuda-exact` have the same ones, with the CPU's bits.
#include "backend/turn.h"
#include "columns.h"
#include "kernels.h"
#include "row_place.h"

enum { THREADS = 128, ROWS = THREADS / ROW_LANES };

// ROW_LANES threads work on a row, or on a head.
__global__ static void rmsnorm_kernel(rank_rmsnorm args, size_t count)
{
    wait_for_previous();
    const row_place at = my_row(count, ROWS);
    const size_t width = args.width;
    const size_t from = args.residual_rows != NULL ? (size_t)args.residual_rows[at.row] : at.row;
    const size_t begin = rank_vector_at(&args.heads, at.row, width);
    float *x = args.x + begin;
    float squares = 0.0f;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        if (args.residual != NULL) {
            x[j] = x[j] + args.residual[from * width + j];
        }
        squares = squares + x[j] * x[j];
    }
    if (args.out == NULL) {
        return;
    }
    const float scale = 1.0f / sqrtf(sum_lanes(squares) / (float)width + args.epsilon);
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        const float value = x[j];
        if (args.before != NULL) {
            args.before[at.row * width + j] = value;
        }
        args.out[begin + j] = (value * scale) * args.weight[j];
    }
    if (args.rstd != NULL && at.exists && at.lane == 0) {
        args.rstd[at.row] = scale;
    }
}

extern "C" void cuda_launch_rmsnorm(const rank_rmsnorm *args, cudaStream_t stream)
{
    const size_t count = rank_vector_count(&args->heads, args->rows);
    LAUNCH_OVERLAPPED(rmsnorm_kernel, (unsigned)((count + ROWS - 1) / ROWS), THREADS, 0, stream,
                      *args, count);
}

// dout · normal, whose column sums are dweight.
struct rms_weight_value {
    rank_rmsnorm_grad args;
    __device__ float operator()(size_t row, size_t column) const
    {
        const size_t heads = args.heads.count;
        if (heads == 0) {
            const size_t i = row * args.width + column;
            return args.dout[i] * (args.x[i] * args.rstd[row]);
        }
        const float normal = args.x[row * heads * args.width + column] *
                             args.rstd[row * heads + column / args.width];
        return args.dout[row * args.heads.row + column] * normal;
    }
};

__global__ static void rmsnorm_grad_kernel(rank_rmsnorm_grad args, size_t count)
{
    const row_place at = my_row(count, ROWS);
    const size_t width = args.width;
    const size_t begin = rank_vector_at(&args.heads, at.row, width);
    const float *x = args.x + at.row * width;
    const float *dout = args.dout + begin;
    float *dx = args.dx + begin;
    const float rstd = args.rstd[at.row];
    float sum = 0.0f;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        sum = sum + (dout[j] * (x[j] * rstd)) * args.weight[j];
    }
    const float mean = sum_lanes(sum) / (float)width;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        const float normal = x[j] * rstd;
        const float d = (dout[j] * args.weight[j] - normal * mean) * rstd;
        dx[j] = (args.keep ? dx[j] : 0.0f) + d;
    }
}

extern "C" void cuda_launch_rmsnorm_grad(const rank_rmsnorm_grad *args, cudaStream_t stream)
{
    const size_t count = rank_vector_count(&args->heads, args->rows);
    launch_column_sums(args->rows, rank_vector_count(&args->heads, 1) * args->width,
                       rms_weight_value{*args}, args->dweight, stream);
    LAUNCH(rmsnorm_grad_kernel, (unsigned)((count + ROWS - 1) / ROWS), THREADS, 0, stream, *args,
           count);
}

__global__ static void add_bias_kernel(rank_add_bias args, size_t columns)
{
    wait_for_previous();
    const size_t two = args.columns[0] + args.columns[1];
    for (size_t i = first_thing(); i < args.rows * columns; i += all_threads()) {
        const size_t column = i % columns;
        float *at = args.at + i / columns * args.at_row + column;
        const float bias = column < args.columns[0] ? args.bias[0][column]
                           : column < two           ? args.bias[1][column - args.columns[0]]
                                                    : args.bias[2][column - two];
        *at = *at + bias;
    }
}

extern "C" void cuda_launch_add_bias(const rank_add_bias *args, cudaStream_t stream)
{
    const size_t columns = rank_bias_columns(args);
    LAUNCH_OVERLAPPED(add_bias_kernel, blocks_for(args->rows * columns, THREADS), THREADS, 0,
                      stream, *args, columns);
}

__global__ static void rope_table_kernel(rank_rope_table args)
{
    wait_for_previous();
    const size_t count = args.rows * args.pairs;
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        const size_t row = i / args.pairs;
        const size_t pair = i % args.pairs;
        const float angle = (float)args.positions[row] * args.frequency[pair];
        const rank_turn turn = rank_turn_by((double)angle);
        float *cosines = args.table + row * 2 * args.pairs;
        cosines[pair] = (float)turn.cosine * args.scale;
        cosines[args.pairs + pair] = (float)turn.sine * args.scale;
    }
}

extern "C" void cuda_launch_rope_table(const rank_rope_table *args, cudaStream_t stream)
{
    LAUNCH_OVERLAPPED(rope_table_kernel, blocks_for(args->rows * args->pairs, THREADS), THREADS, 0,
                      stream, *args);
}

__global__ static void rope_kernel(rank_rope args)
{
    wait_for_previous();
    const size_t pairs = args.pairs;
    const size_t of_row = args.heads * pairs;
    for (size_t i = first_thing(); i < args.rows * of_row; i += all_threads()) {
        const size_t row = i / of_row;
        const size_t head = i % of_row / pairs;
        const size_t pair = i % pairs;
        const float cosine = args.table[row * 2 * pairs + pair];
        const float turn = args.table[row * 2 * pairs + pairs + pair];
        const float sine = args.back ? -turn : turn;
        float *first = args.at + row * args.at_row + head * args.head_width + pair;
        const float x = first[0];
        const float y = first[pairs];
        first[0] = x * cosine - y * sine;
        first[pairs] = y * cosine + x * sine;
    }
}

extern "C" void cuda_launch_rope(const rank_rope *args, cudaStream_t stream)
{
    LAUNCH_OVERLAPPED(rope_kernel, blocks_for(args->rows * args->heads * args->pairs, THREADS),
                      THREADS, 0, stream, *args);
}

// A thread has one element of all heads of a row, in an order in which nothing that is still needed
// is overwritten: see the CPU's.
__global__ static void copy_heads_kernel(rank_shared_heads args)
{
    const size_t width = args.head_width;
    const size_t shared = args.heads / args.kv_heads;
    for (size_t i = first_thing(); i < args.rows * width; i += all_threads()) {
        float *keys = args.at + (3 * (i / width) + 1) * args.heads * width + i % width;
        const float *values = keys + args.kv_heads * width;
        for (size_t head = args.heads; head-- > 0;) {
            keys[(args.heads + head) * width] = values[head / shared * width];
        }
        for (size_t head = args.heads; head-- > 1;) {
            keys[head * width] = keys[head / shared * width];
        }
    }
}

extern "C" void cuda_launch_copy_heads(const rank_shared_heads *args, cudaStream_t stream)
{
    LAUNCH(copy_heads_kernel, blocks_for(args->rows * args->head_width, THREADS), THREADS, 0,
           stream, *args);
}

__device__ static void sum_shared(const rank_shared_heads &args, const float *from, float *to)
{
    const size_t shared = args.heads / args.kv_heads;
    for (size_t head = 0; head < args.kv_heads; head++) {
        float sum = from[head * shared * args.head_width];
        for (size_t j = 1; j < shared; j++) {
            sum = sum + from[(head * shared + j) * args.head_width];
        }
        to[head * args.head_width] = sum;
    }
}

__global__ static void sum_heads_kernel(rank_shared_heads args)
{
    const size_t width = args.head_width;
    const size_t queries = args.heads * width;
    for (size_t i = first_thing(); i < args.rows * width; i += all_threads()) {
        float *keys = args.at + (3 * (i / width) + 1) * queries + i % width;
        sum_shared(args, keys, keys);
        sum_shared(args, keys + queries, keys + args.kv_heads * width);
    }
}

extern "C" void cuda_launch_sum_heads(const rank_shared_heads *args, cudaStream_t stream)
{
    LAUNCH(sum_heads_kernel, blocks_for(args->rows * args->head_width, THREADS), THREADS, 0, stream,
           *args);
}

__device__ static float sigmoid(float x)
{
    return 1.0f / (1.0f + exponential(-x));
}

__global__ static void swiglu_kernel(rank_swiglu args)
{
    wait_for_previous();
    for (size_t i = first_thing(); i < args.rows * args.width; i += all_threads()) {
        const size_t at = i / args.width * args.row + i % args.width;
        const float x = args.gate[at];
        args.out[i] = x * sigmoid(x) * args.up[at];
    }
}

extern "C" void cuda_launch_swiglu(const rank_swiglu *args, cudaStream_t stream)
{
    LAUNCH_OVERLAPPED(swiglu_kernel, blocks_for(args->rows * args->width, THREADS), THREADS, 0,
                      stream, *args);
}

__global__ static void swiglu_grad_kernel(rank_swiglu_grad args)
{
    for (size_t i = first_thing(); i < args.rows * args.width; i += all_threads()) {
        const size_t at = i / args.width * args.row + i % args.width;
        const float x = args.gate[at];
        const float up = args.up[at];
        const float dout = args.d[i];
        const float s = sigmoid(x);
        const float silu = x * s;
        args.gate[at] = dout * up * (s + silu * (1.0f - s));
        args.up[at] = dout * silu;
        args.d[i] = silu * up;
    }
}

extern "C" void cuda_launch_swiglu_grad(const rank_swiglu_grad *args, cudaStream_t stream)
{
    LAUNCH(swiglu_grad_kernel, blocks_for(args->rows * args->width, THREADS), THREADS, 0, stream,
           *args);
}
