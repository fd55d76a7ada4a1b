// For the backend `cuda`: rows moved together or apart, in place. Launched by fast.c.
//
// A block has MOVE_COLUMNS columns of all rows, and no other block touches these. It reads MOVE_ROWS
// rows into registers, waits, and writes them. Rows ascend, so what it reads later lies where it has
// not written: behind it when rows move down, before it when they move up.
#include "fast.h"

enum {
    MOVE_THREADS = 1024,
    MOVE_FOURS = 2, // 32 bytes of each row: what the memory moves at least
    MOVE_COLUMNS = MOVE_FOURS * FOUR,
    MOVE_ROWS = MOVE_THREADS / MOVE_FOURS,
};

template <bool VEC>
__global__ static void __launch_bounds__(MOVE_THREADS) fast_gather_kernel(rank_move_rows args)
{
    const size_t column = ((size_t)blockIdx.x * MOVE_FOURS + threadIdx.x % MOVE_FOURS) * FOUR;
    for (size_t first = 0; first < args.count; first += MOVE_ROWS) {
        const size_t i = first + threadIdx.x / MOVE_FOURS;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < args.count) {
            value = load_four<VEC>(args.at + (size_t)args.rows[i] * args.width, column, args.width);
        }
        __syncthreads();
        if (i < args.count) {
            store_four<VEC>(args.at + i * args.width, column, args.width, value);
        }
    }
}

static unsigned slabs_of(const rank_move_rows *args)
{
    return (unsigned)((args->width + MOVE_COLUMNS - 1) / MOVE_COLUMNS);
}

extern "C" void cuda_launch_fast_gather_rows(const rank_move_rows *args, cudaStream_t stream)
{
    const bool vec = in_fours(args->width, address_of(args->at));
    LAUNCH((vec ? fast_gather_kernel<true> : fast_gather_kernel<false>), slabs_of(args),
           MOVE_THREADS, 0, stream, *args);
}

// Zeros in rows first … end, four columns of them.
template <bool VEC>
__device__ static void clear_rows(const rank_move_rows &args, size_t first, size_t end,
                                  size_t column)
{
    for (size_t row = first; row < end; row++) {
        store_four<VEC>(args.at + row * args.width, column, args.width,
                        make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    }
}

// From the last rows on. Who moves a row also clears those between it and the next one.
template <bool VEC>
__global__ static void __launch_bounds__(MOVE_THREADS) fast_spread_kernel(rank_move_rows args)
{
    const size_t column = ((size_t)blockIdx.x * MOVE_FOURS + threadIdx.x % MOVE_FOURS) * FOUR;
    const size_t mine = threadIdx.x / MOVE_FOURS;
    for (size_t end = args.count; end > 0;) {
        const size_t here = end < MOVE_ROWS ? end : (size_t)MOVE_ROWS;
        const size_t i = end - here + mine;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (mine < here) {
            value = load_four<VEC>(args.at + i * args.width, column, args.width);
        }
        __syncthreads();
        if (mine < here) {
            const size_t to = (size_t)args.rows[i];
            const size_t next = i + 1 < args.count ? (size_t)args.rows[i + 1] : to + 1;
            store_four<VEC>(args.at + to * args.width, column, args.width, value);
            clear_rows<VEC>(args, to + 1, next, column);
        }
        end -= here;
    }
    // what is before the first and behind the last
    const size_t begin = args.count > 0 ? (size_t)args.rows[0] : args.total;
    const size_t last = args.count > 0 ? (size_t)args.rows[args.count - 1] : args.total;
    for (size_t row = mine; row < args.total; row += MOVE_ROWS) {
        if (row < begin || row > last) {
            clear_rows<VEC>(args, row, row + 1, column);
        }
    }
}

extern "C" void cuda_launch_fast_spread_rows(const rank_move_rows *args, cudaStream_t stream)
{
    const bool vec = in_fours(args->width, address_of(args->at));
    LAUNCH((vec ? fast_spread_kernel<true> : fast_spread_kernel<false>), slabs_of(args),
           MOVE_THREADS, 0, stream, *args);
}
