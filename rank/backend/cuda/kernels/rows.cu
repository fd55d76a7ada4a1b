// The best of each row, and rows moved together or apart. Launched by operations.c.
#include "device.h"
#include "kernels.h"

enum {
    THREADS = 256,
    MOVE_THREADS = 64,
    MOVE_AT_ONCE = 8, // rows that a thread has in registers
};

// A column's place among those of its row: by value, falling, then by index. A value that is not a
// number comes after all others.
struct entry {
    float value;
    int32_t index; // -1: none
};

__device__ static bool goes_before(const entry &a, const entry &b)
{
    if (a.index < 0 || b.index < 0) {
        return b.index < 0 && a.index >= 0;
    }
    const bool a_number = a.value == a.value;
    const bool b_number = b.value == b.value;
    if (a_number != b_number) {
        return a_number;
    }
    if (a_number && a.value != b.value) {
        return a.value > b.value;
    }
    return a.index < b.index;
}

// One block for a row. In each of k rounds it finds the first entry behind the one found before.
__global__ static void best_kernel(rank_best args)
{
    SHARED(entry, found);
    const float *row = args.values + (size_t)blockIdx.x * args.columns;
    entry last = {0.0f, -1};
    for (size_t round = 0; round < args.k; round++) {
        entry best = {0.0f, -1};
        for (size_t j = threadIdx.x; j < args.columns; j += THREADS) {
            const entry at = {row[j], (int32_t)j};
            if ((round == 0 || goes_before(last, at)) && goes_before(at, best)) {
                best = at;
            }
        }
        found[threadIdx.x] = best;
        __syncthreads();
        for (unsigned half = THREADS / 2; half > 0; half /= 2) {
            if (threadIdx.x < half && goes_before(found[threadIdx.x + half], found[threadIdx.x])) {
                found[threadIdx.x] = found[threadIdx.x + half];
            }
            __syncthreads();
        }
        last = found[0];
        if (threadIdx.x == 0) {
            args.index[(size_t)blockIdx.x * args.k + round] = last.index;
            if (args.value != NULL) {
                args.value[(size_t)blockIdx.x * args.k + round] = last.value;
            }
        }
        __syncthreads();
    }
}

extern "C" void cuda_launch_best(const rank_best *args, cudaStream_t stream)
{
    LAUNCH(best_kernel, (unsigned)args->rows, THREADS, THREADS * sizeof(entry), stream, *args);
}

// In place: a thread has one column, and no other thread touches that. In rising order each row
// moves down or stays, and no row that is still to be read lies where one is written.
__global__ static void gather_rows_kernel(rank_move_rows args)
{
    const size_t j = first_thing();
    float value[MOVE_AT_ONCE];
    if (j >= args.width) {
        return;
    }
    for (size_t first = 0; first < args.count; first += MOVE_AT_ONCE) {
        for (size_t i = 0; i < MOVE_AT_ONCE && first + i < args.count; i++) {
            value[i] = args.at[(size_t)args.rows[first + i] * args.width + j];
        }
        for (size_t i = 0; i < MOVE_AT_ONCE && first + i < args.count; i++) {
            args.at[(first + i) * args.width + j] = value[i];
        }
    }
}

extern "C" void cuda_launch_gather_rows(const rank_move_rows *args, cudaStream_t stream)
{
    LAUNCH(gather_rows_kernel, (unsigned)((args->width + MOVE_THREADS - 1) / MOVE_THREADS),
           MOVE_THREADS, 0, stream, *args);
}

// From the last row on, so that each moves up or stays; zeros between them.
__global__ static void spread_rows_kernel(rank_move_rows args)
{
    const size_t j = first_thing();
    if (j >= args.width) {
        return;
    }
    size_t end = args.total;
    for (size_t i = args.count; i-- > 0;) {
        const size_t to = (size_t)args.rows[i];
        const float value = args.at[i * args.width + j];
        for (size_t row = to + 1; row < end; row++) {
            args.at[row * args.width + j] = 0.0f;
        }
        args.at[to * args.width + j] = value;
        end = to;
    }
    for (size_t row = 0; row < end; row++) {
        args.at[row * args.width + j] = 0.0f;
    }
}

extern "C" void cuda_launch_spread_rows(const rank_move_rows *args, cudaStream_t stream)
{
    LAUNCH(spread_rows_kernel, (unsigned)((args->width + MOVE_THREADS - 1) / MOVE_THREADS),
           MOVE_THREADS, 0, stream, *args);
}
