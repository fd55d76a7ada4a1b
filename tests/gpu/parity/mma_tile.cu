// One warp makes products of tiles by each loader of kernels/mma.h, for mma_tile.c. Asynchronous copies
// bring the tiles.
#include "mma_tile.h"

#include "backend/cuda/kernels/async_copy.h"
#include "backend/cuda/kernels/mma.h"

enum { PITCH = MMA_TILE + 8 }; // as attention's tiles: so rows are not neighbours in memory

__device__ static void bring(__nv_bfloat16 *tile, const uint16_t *from)
{
    const int row = (int)threadIdx.x / 2;
    const int column = (int)threadIdx.x % 2 * 8;
    copy_async<16>(tile + row * PITCH + column, from + row * MMA_TILE + column, true);
}

__device__ static void write(float *to, const mma_c *c)
{
    for (int i = 0; i < 8; i++) {
        to[mma_row(i % 4) * MMA_TILE + i / 4 * MMA_COLUMNS + mma_column(i % 4)] =
            c[i / 4].at[i % 4];
    }
}

__global__ static void mma_tile_kernel(mma_tile_args args)
{
    SHARED(__nv_bfloat16, left);
    __nv_bfloat16 *right = left + MMA_TILE * PITCH;
    const mma_c zero = {{0.0f, 0.0f, 0.0f, 0.0f}};
    mma_c by_columns[2] = {zero, zero};
    mma_c by_rows[2] = {zero, zero};
    mma_c again[2] = {zero, zero};
    mma_a a;
    mma_b2 b;
    bring(left, args.a);
    bring(right, args.b);
    wait_for_copies();
    __syncthreads();
    load_a(a, left, PITCH);
    load_b_by_columns(b, right, PITCH);
    mma_two(by_columns, a, b);
    load_b_by_rows(b, right, PITCH);
    mma_two(by_rows, a, b);
    mma_two(again, rounded_tiles(by_rows[0], by_rows[1]), b);
    write(args.by_columns, by_columns);
    write(args.by_rows, by_rows);
    write(args.again, again);
}

extern "C" int launch_mma_tile(const mma_tile_args *args, void *stream)
{
    LAUNCH(mma_tile_kernel, 1, 32, 2 * MMA_TILE * PITCH * sizeof(__nv_bfloat16),
           static_cast<cudaStream_t>(stream), *args);
    return (int)cudaGetLastError();
}
