// The token of each row of logits: the most probable one, or the one with the largest logit divided by
// the temperature plus noise. Launched by operations.c, so that the host need not read the logits.
//
// The noise is that of generate/noise.c, made by the same operations in double, so the token is the
// one that the host would have drawn. A block looks at PIECE columns of a row, and a second kernel
// puts the pieces together. The lowest index wins a tie, so no order changes a result.
#include "base/fixed_math.h"
#include "base/splitmix.h"
#include "device.h"
#include "kernels.h"

enum {
    THREADS = 256,
    PIECE = 8 * THREADS,
    NOISE_BITS = 52,
    ROWS_MAX = 65535, // of a grid
};

// What is drawn of some columns.
struct drawn {
    double value;
    float logit;
    int32_t index;   // -1: none, every logit is -infinity
    int32_t refused; // the lowest index of a logit that is no number or +infinity; -1: none
};

__device__ static double noise(uint64_t stream, uint64_t token)
{
    const uint64_t bits =
        base_splitmix_mix(stream + BASE_SPLITMIX_STEP * (token + 1)) >> (64 - NOISE_BITS);
    const double u = ((double)bits + 0.5) * 0x1p-52;
    return -base_fixed_log(-base_fixed_log(u));
}

__device__ static bool wins(const drawn &a, const drawn &b)
{
    if (a.index < 0 || b.index < 0) {
        return a.index >= 0;
    }
    return a.value > b.value || (a.value == b.value && a.index < b.index);
}

__device__ static drawn better(const drawn &a, const drawn &b)
{
    drawn both = wins(b, a) ? b : a;
    const bool first = a.refused >= 0 && (b.refused < 0 || a.refused < b.refused);
    both.refused = first ? a.refused : b.refused;
    return both;
}

__device__ static drawn none(void)
{
    drawn nothing;
    nothing.value = 0.0;
    nothing.logit = 0.0f;
    nothing.index = -1;
    nothing.refused = -1;
    return nothing;
}

// Of all threads' results, to the first thread.
__device__ static void put_together(drawn *shared)
{
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] = better(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
    }
}

// blockIdx: the piece, the row.
__global__ static void draw_pieces_kernel(rank_draw args, drawn *pieces)
{
    SHARED(drawn, shared);
    wait_for_previous();
    const float *row = args.values + blockIdx.y * args.row_floats;
    const rank_draw_row of = args.of[blockIdx.y];
    const size_t first = (size_t)blockIdx.x * PIECE;
    drawn best = none();
    for (size_t i = first + threadIdx.x; i < first + PIECE && i < args.columns; i += THREADS) {
        drawn at = none();
        at.logit = row[i];
        if (!(at.logit <= 0x1.fffffep127f)) { // not a number, or infinite
            at.refused = (int32_t)i;
        } else if (at.logit >= -0x1.fffffep127f) {
            at.index = (int32_t)i;
            at.value = (double)at.logit;
            if (of.inverse != 0.0 && of.kept == 0) {
                at.value = (double)at.logit * of.inverse +
                           noise(of.stream, (uint64_t)args.first_token + i);
            }
        }
        best = better(best, at);
    }
    shared[threadIdx.x] = best;
    put_together(shared);
    if (threadIdx.x == 0) {
        pieces[(size_t)blockIdx.y * gridDim.x + blockIdx.x] = shared[0];
    }
}

// blockIdx.x: the row.
__global__ static void draw_rows_kernel(rank_draw args, const drawn *pieces, unsigned count)
{
    SHARED(drawn, shared);
    drawn best = none();
    wait_for_previous();
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        best = better(best, pieces[(size_t)blockIdx.x * count + i]);
    }
    shared[threadIdx.x] = best;
    put_together(shared);
    if (threadIdx.x == 0) {
        rank_drawn *to = args.drawn + blockIdx.x;
        to->logit = shared[0].logit;
        to->index = shared[0].index;
        to->refused = shared[0].refused;
    }
}

extern "C" void cuda_launch_draw(const rank_draw *args, double *partials, size_t partials_count,
                                 cudaStream_t stream)
{
    drawn *pieces = reinterpret_cast<drawn *>(partials);
    const unsigned count = (unsigned)((args->columns + PIECE - 1) / PIECE);
    const size_t room = partials_count * sizeof(double) / sizeof(drawn) / count;
    const size_t at_once = room < ROWS_MAX ? room : (size_t)ROWS_MAX;
    for (size_t row = 0; row < args->rows; row += at_once) {
        rank_draw some = *args;
        some.rows = args->rows - row < at_once ? args->rows - row : at_once;
        some.values = args->values + row * args->row_floats;
        some.of = args->of + row;
        some.drawn = args->drawn + row;
        const dim3 grid(count, (unsigned)some.rows);
        LAUNCH_OVERLAPPED(draw_pieces_kernel, grid, THREADS, THREADS * sizeof(drawn), stream, some,
                          pieces);
        LAUNCH_OVERLAPPED(draw_rows_kernel, (unsigned)some.rows, THREADS, THREADS * sizeof(drawn),
                          stream, some, pieces, count);
    }
    if (args->kept != NULL) {
        cuda_launch_keep(args, stream);
    }
}
