// What Llama's blocks have beside products and attention: RMS norm, rotary positions, SwiGLU. Launched
// by operations.c. `cuda` and `cuda-exact` have the same ones, with the CPU's bits.
#include "backend/turn.h"
#include "device.h"
#include "kernels.h"
#include "row_place.h"

enum { THREADS = 128, ROWS = THREADS / ROW_LANES };

// ROW_LANES threads work on a row.
__global__ static void rmsnorm_kernel(rank_rmsnorm args)
{
    wait_for_previous();
    const row_place at = my_row(args.rows, ROWS);
    const size_t width = args.width;
    float *x = args.x + at.row * width;
    float squares = 0.0f;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        if (args.residual != NULL) {
            x[j] = x[j] + args.residual[at.row * width + j];
        }
        squares = squares + x[j] * x[j];
    }
    if (args.out == NULL) {
        return;
    }
    const float scale = 1.0f / sqrtf(sum_lanes(squares) / (float)width + args.epsilon);
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        args.out[at.row * width + j] = (x[j] * scale) * args.weight[j];
    }
}

extern "C" void cuda_launch_rmsnorm(const rank_rmsnorm *args, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((args->rows + ROWS - 1) / ROWS);
    LAUNCH_OVERLAPPED(rmsnorm_kernel, blocks, THREADS, 0, stream, *args);
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
        cosines[pair] = (float)turn.cosine;
        cosines[args.pairs + pair] = (float)turn.sine;
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
        const float sine = args.table[row * 2 * pairs + pairs + pair];
        float *first = args.at + row * args.at_row + head * 2 * pairs + pair;
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

__global__ static void swiglu_kernel(rank_swiglu args)
{
    wait_for_previous();
    for (size_t i = first_thing(); i < args.count; i += all_threads()) {
        const float x = args.gate[i];
        const float silu = x * (1.0f / (1.0f + exponential(-x)));
        args.gate[i] = silu * args.up[i];
    }
}

extern "C" void cuda_launch_swiglu(const rank_swiglu *args, cudaStream_t stream)
{
    LAUNCH_OVERLAPPED(swiglu_kernel, blocks_for(args->count, THREADS), THREADS, 0, stream, *args);
}
