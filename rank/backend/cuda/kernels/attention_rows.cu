// For the backend `cuda`: which rows the segment of each row has, for attention in tiles. Launched by
// fast_attention.cu, before its own kernels and before those of mma_attention.cu.
#include "attention_rows.h"

enum { BOUNDS_THREADS = 256, BOUNDS_WARPS = BOUNDS_THREADS / WARP };

// A warp has a segment. Only here the table is read, which may lie in the host's memory.
__global__ static void row_bounds_kernel(rank_attention args)
{
    const attention_scratch scratch = scratch_of(args);
    const size_t segment = (size_t)blockIdx.x * BOUNDS_WARPS + threadIdx.x / WARP;
    if (segment >= args.segment_count) {
        return;
    }
    const int32_t first = args.segment_start[0];
    const int32_t begin = args.segment_start[segment] - first;
    const int32_t end = args.segment_start[segment + 1] - first;
    for (int32_t row = begin + (int32_t)(threadIdx.x % WARP); row < end; row += WARP) {
        scratch.bounds[row] = {begin, end};
    }
    if (segment == 0 && threadIdx.x == 0) {
        *scratch.first = first;
    }
}

extern "C" void cuda_launch_row_bounds(const rank_attention *args, cudaStream_t stream)
{
    if (args->same_segments) {
        return; // the table is there
    }
    LAUNCH(row_bounds_kernel, (unsigned)((args->segment_count + BOUNDS_WARPS - 1) / BOUNDS_WARPS),
           BOUNDS_THREADS, 0, stream, *args);
}
