// Rows moved together or apart. Launched by operations.c.
#include "device.h"
#include "kernels.h"

enum {
    MOVE_THREADS = 64,
    MOVE_AT_ONCE = 8, // rows that a thread has in registers
};

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
