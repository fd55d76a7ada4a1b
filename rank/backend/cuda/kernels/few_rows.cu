// Products of a few rows with a matrix (columns, depth): the time is that of reading the matrix, so
// each of its elements is read once, in vectors of 16 bytes. Launched by product.c.
//
// A warp has one part of the depth of COLUMNS columns, and all rows. Its lanes take vectors in turns,
// so that a warp reads 512 bytes that lie side by side. A column of a long depth is cut into parts,
// which are warps of one block: they are added up in their order. The first vectors are read while
// the kernel before this one still runs: no kernel of the last ones writes weights.
//
// The order of a sum depends on the depth and the length of a vector alone: not on the rows and
// columns beside it, nor on how many of them a block has.
//
// The sizes are the best of those that were tried on an H200, with the products of GPT-2 (768 wide),
// GPT-2 XL (1600) and a model of 8 billion parameters (4096): 1.8, 3.0 and 4.1 TB/s.
#include "gelu.h"
#include "kernels.h"
#include "vectors.h"

enum {
    WARP = 32,
    WARPS = 4,
    THREADS = WARPS * WARP,
    PART_DEPTH = 512,         // elements: a part is at most so long, unless there are PARTS_MAX
    PARTS_MAX = WARPS,        // of a column
    AHEAD = 2,                // vectors of a column that a lane reads ahead
    SOME_COLUMNS = 2,         // of a warp
    MANY_COLUMNS = 4,         // where there are enough for all multiprocessors
    BLOCKS_ENOUGH = 16 * 132, // of MANY_COLUMNS columns
};

// A column has 1 << part_bits parts: the device shifts where it would have to divide.
static unsigned part_bits_of(size_t depth)
{
    unsigned bits = 0;
    while (1u << bits < PARTS_MAX && depth > (size_t)PART_DEPTH << bits) {
        bits++;
    }
    return bits;
}

// sum[r][c] += vector i of row r · that of column c, which is w[c].
template <int VECTOR, int ROWS, int COLUMNS>
__device__ static void add_vectors(const float *const (&rows)[ROWS], size_t i,
                                   const vector<VECTOR> (&w)[COLUMNS], float (&sum)[ROWS][COLUMNS])
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const vector<VECTOR> x =
            bring(rows[r] + i * VECTOR, static_cast<const vector<VECTOR> *>(NULL));
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
#pragma unroll
            for (int e = 0; e < VECTOR; e++) {
                sum[r][c] = fmaf(x.at[e], w[c].at[e], sum[r][c]);
            }
        }
    }
}

// sum[r][c] += the warp's part of row r · column c, of this lane.
template <typename WEIGHT, int VECTOR, int ROWS, int COLUMNS>
__device__ static void add_part(const rank_product &args, size_t column, unsigned part,
                                unsigned part_bits, float (&sum)[ROWS][COLUMNS])
{
    const size_t vectors = args.depth / VECTOR;
    const size_t each = (vectors + (1u << part_bits) - 1) >> part_bits;
    const size_t end = (part + 1) * each < vectors ? (part + 1) * each : vectors;
    const size_t first = part * each + threadIdx.x % WARP;
    const WEIGHT *weights[COLUMNS];
    const float *rows[ROWS];
    uint4 ahead[AHEAD][COLUMNS];
    vector<VECTOR> w[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) { // a column that is not there goes along with the last one
        const size_t mine = column + c < args.columns ? column + c : args.columns - 1;
        weights[c] = static_cast<const WEIGHT *>(args.b) + mine * args.b_row;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        rows[r] = static_cast<const float *>(args.a) +
                  ((size_t)r < args.rows ? (size_t)r : args.rows - 1) * args.a_row;
    }
    begin_reading_ahead();
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t i = first + (size_t)k * WARP;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            if (i < end) {
                ahead[k][c] = load_vector(weights[c] + i * VECTOR);
            }
        }
    }
    end_reading_ahead();
    wait_for_previous();
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const size_t i = first + (size_t)k * WARP;
        if (i < end) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                w[c] = widen(ahead[k][c], static_cast<const vector<VECTOR> *>(NULL));
            }
            add_vectors<VECTOR>(rows, i, w, sum);
        }
    }
#pragma unroll 4
    for (size_t i = first + (size_t)AHEAD * WARP; i < end; i += WARP) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            w[c] = bring_once(weights[c] + i * VECTOR, static_cast<const vector<VECTOR> *>(NULL));
        }
        add_vectors<VECTOR>(rows, i, w, sum);
    }
}

// The same where there are no vectors: element by element, and only one column.
template <typename WEIGHT, int ROWS>
__device__ static void add_elements(const rank_product &args, size_t column, unsigned part,
                                    unsigned part_bits, float (&sum)[ROWS][1])
{
    const size_t each = (args.depth + (1u << part_bits) - 1) >> part_bits;
    const size_t end = (part + 1) * each < args.depth ? (part + 1) * each : args.depth;
    const size_t mine = column < args.columns ? column : args.columns - 1;
    const WEIGHT *weights = static_cast<const WEIGHT *>(args.b) + mine * args.b_row;
    wait_for_previous();
    for (size_t i = part * each + threadIdx.x % WARP; i < end; i += WARP) {
        const float w = get(weights[i]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const size_t row = (size_t)r < args.rows ? (size_t)r : args.rows - 1;
            sum[r][0] =
                fmaf(static_cast<const float *>(args.a)[row * args.a_row + i], w, sum[r][0]);
        }
    }
}

template <typename WEIGHT, int VECTOR, int ROWS, int COLUMNS>
__global__ static void few_rows_kernel(rank_product args, unsigned part_bits)
{
    SHARED(float, shared); // (WARPS, ROWS, COLUMNS)
    const unsigned parts = 1u << part_bits;
    const unsigned groups = WARPS >> part_bits; // of the block, each with COLUMNS columns
    const unsigned warp = threadIdx.x / WARP;
    const size_t column = ((size_t)blockIdx.x * groups + (warp >> part_bits)) * COLUMNS;
    float sum[ROWS][COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        sum[i / COLUMNS][i % COLUMNS] = 0.0f;
    }
    if (args.gelu_bias != NULL && (threadIdx.x & (WARP * parts - 1)) == 0 &&
        column < args.columns) {
        prefetch(args.gelu_bias + column);
    }
    if constexpr (VECTOR > 1) {
        add_part<WEIGHT, VECTOR, ROWS, COLUMNS>(args, column, warp & (parts - 1), part_bits, sum);
    } else {
        add_elements<WEIGHT, ROWS>(args, column, warp & (parts - 1), part_bits, sum);
    }
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const float whole = sum_warp(sum[i / COLUMNS][i % COLUMNS]);
        if (threadIdx.x % WARP == 0) {
            shared[warp * ROWS * COLUMNS + i] = whole;
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < groups * ROWS * COLUMNS; i += THREADS) {
        const unsigned r = i / COLUMNS % ROWS;
        const unsigned first = i / (ROWS * COLUMNS) * parts; // warp
        const size_t to =
            ((size_t)blockIdx.x * groups + i / (ROWS * COLUMNS)) * COLUMNS + i % COLUMNS;
        float whole = shared[first * ROWS * COLUMNS + i % (ROWS * COLUMNS)];
        for (unsigned part = 1; part < parts; part++) {
            whole = whole + shared[(first + part) * ROWS * COLUMNS + i % (ROWS * COLUMNS)];
        }
        if ((size_t)r < args.rows && to < args.columns) {
            if (args.gelu_bias != NULL) {
                whole = whole + args.gelu_bias[to];
                whole = whole * gate(whole);
            }
            static_cast<float *>(args.c)[r * args.c_row + to] = whole;
        }
    }
}

template <typename WEIGHT, int VECTOR, int ROWS, int COLUMNS>
static void launch(const rank_product *args, cudaStream_t stream)
{
    const auto kernel = few_rows_kernel<WEIGHT, VECTOR, ROWS, COLUMNS>;
    const unsigned part_bits = part_bits_of(args->depth);
    const size_t each = (size_t)(WARPS >> part_bits) * COLUMNS;
    LAUNCH_OVERLAPPED(kernel, (unsigned)((args->columns + each - 1) / each), THREADS,
                      WARPS * ROWS * COLUMNS * sizeof(float), stream, *args, part_bits);
}

template <typename WEIGHT, int VECTOR, int ROWS>
static void launch_rows(const rank_product *args, cudaStream_t stream)
{
    const size_t each = (size_t)(WARPS >> part_bits_of(args->depth)) * MANY_COLUMNS;
    if (args->columns >= BLOCKS_ENOUGH * each) {
        launch<WEIGHT, VECTOR, ROWS, MANY_COLUMNS>(args, stream);
    } else {
        launch<WEIGHT, VECTOR, ROWS, SOME_COLUMNS>(args, stream);
    }
}

template <typename WEIGHT, int VECTOR>
static void launch_vectors(const rank_product *args, cudaStream_t stream)
{
    if (args->rows == 1) {
        launch_rows<WEIGHT, VECTOR, 1>(args, stream);
    } else if (args->rows == 2) {
        launch_rows<WEIGHT, VECTOR, 2>(args, stream);
    } else if (args->rows <= 4) {
        launch_rows<WEIGHT, VECTOR, 4>(args, stream);
    } else {
        launch_rows<WEIGHT, VECTOR, CUDA_FEW_ROWS>(args, stream);
    }
}

// Whether all rows begin at a multiple of 16 bytes, and end with a whole vector.
static bool in_vectors(const rank_product *args, size_t elements)
{
    const uintptr_t both =
        reinterpret_cast<uintptr_t>(args->a) | reinterpret_cast<uintptr_t>(args->b);
    return both % 16 == 0 && args->depth % elements == 0 && args->b_row % elements == 0 &&
           args->a_row % 4 == 0;
}

extern "C" void cuda_launch_few_rows(const rank_product *args, cudaStream_t stream)
{
    if (args->b_type == RANK_BFLOAT16) {
        if (in_vectors(args, 8)) {
            launch_vectors<__nv_bfloat16, 8>(args, stream);
        } else {
            launch<__nv_bfloat16, 1, CUDA_FEW_ROWS, 1>(args, stream);
        }
    } else if (in_vectors(args, 4)) {
        launch_vectors<float, 4>(args, stream);
    } else {
        launch<float, 1, CUDA_FEW_ROWS, 1>(args, stream);
    }
}
