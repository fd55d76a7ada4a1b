// Matrix products in the canonical order (backend.h): each element one chain of fused multiply-adds
// over the depth, or one for each leaf and a balanced tree over them. And packing. Launched by
// product.c.
//
// A block makes TILE × TILE elements of c, a thread EACH × EACH of them in registers. Tiles of a
// and b go through shared memory, DEPTH of the depth at a time.
#include "device.h"
#include "element.h"
#include "kernels.h"

enum {
    TILE = 64,
    EACH = 4,
    SIDE = TILE / EACH, // threads along each side of a tile
    THREADS = SIDE * SIDE,
    DEPTH = 16,
    PITCH = TILE + 1, // floats of a row in shared memory, so that writers use different banks
    LEVELS = 4,       // of the tree over RANK_LEAVES_MAX leaves
    PACK_THREADS = 256,
    TURN = 32, // side of a tile that is turned
};

__device__ static float element_of_a(const rank_product &args, size_t row, size_t k)
{
    const float *a = static_cast<const float *>(args.a);
    return row < args.rows ? a[row * args.a_row + k * args.a_depth] : 0.0f;
}

__device__ static float element_of_b(const rank_product &args, size_t k, size_t column)
{
    if (column >= args.columns) {
        return 0.0f;
    }
    const float *b = static_cast<const float *>(args.b);
    if (args.b_row == 0) { // in panels
        const size_t panel = column / RANK_PANEL * RANK_PANEL * args.depth;
        return b[panel + k * RANK_PANEL + column % RANK_PANEL];
    }
    return args.b_transposed ? b[column * args.b_row + k] : b[k * args.b_row + column];
}

// The block's tiles of a and b, from k on. Neighbouring threads read neighbouring addresses.
__device__ static void bring_tiles(const rank_product &args, size_t k, size_t depth, float *a,
                                   float *b)
{
    const size_t row = (size_t)blockIdx.y * TILE;
    const size_t column = (size_t)blockIdx.x * TILE;
    const bool a_by_depth = args.a_depth == 1;
    const bool b_by_depth = args.b_row > 0 && args.b_transposed;
    for (size_t i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
        const size_t ak = a_by_depth ? i % DEPTH : i / TILE;
        const size_t ar = a_by_depth ? i / DEPTH : i % TILE;
        const size_t bk = b_by_depth ? i % DEPTH : i / TILE;
        const size_t bc = b_by_depth ? i / DEPTH : i % TILE;
        a[ak * PITCH + ar] = ak < depth ? element_of_a(args, row + ar, k + ak) : 0.0f;
        b[bk * PITCH + bc] = bk < depth ? element_of_b(args, k + bk, column + bc) : 0.0f;
    }
}

typedef float sums[EACH][EACH];

// sum += a·b over the depth from `begin` to `end`, in its order.
__device__ static void add_chain(const rank_product &args, size_t begin, size_t end, float *shared,
                                 sums &sum)
{
    float *a = shared;
    float *b = shared + DEPTH * PITCH;
    const unsigned row = threadIdx.x / SIDE * EACH;
    const unsigned column = threadIdx.x % SIDE;
    for (size_t k = begin; k < end; k += DEPTH) {
        const size_t depth = end - k < DEPTH ? end - k : (size_t)DEPTH;
        bring_tiles(args, k, depth, a, b);
        __syncthreads();
        for (size_t d = 0; d < depth; d++) {
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                const float element = a[d * PITCH + row + r];
#pragma unroll
                for (int c = 0; c < EACH; c++) {
                    sum[r][c] = fmaf(element, b[d * PITCH + column + c * SIDE], sum[r][c]);
                }
            }
        }
        __syncthreads();
    }
}

__device__ static void set_zero(sums &sum)
{
#pragma unroll
    for (int i = 0; i < EACH * EACH; i++) {
        sum[i / EACH][i % EACH] = 0.0f;
    }
}

// sum = a leaf's chain, over its share of each part of the depth.
__device__ static void add_leaf(const rank_product &args, int leaf, float *shared, sums &sum)
{
    size_t first = 0;
    set_zero(sum);
    if (args.parts[0] == 0) {
        const size_t most =
            args.leaf_depth > 0 ? args.leaf_depth : args.depth / (size_t)args.leaves;
        const size_t begin = (size_t)leaf * most;
        const size_t end = begin + most < args.depth ? begin + most : args.depth;
        add_chain(args, begin, end, shared, sum);
        return;
    }
    for (int part = 0; part < RANK_DEPTH_PARTS; part++) {
        const size_t depth = args.parts[part] / (size_t)args.leaves;
        const size_t begin = first + (size_t)leaf * depth;
        add_chain(args, begin, begin + depth, shared, sum);
        first += args.parts[part];
    }
}

// Each leaf's sum is added to those that wait for it, as a binary counter carries: see the CPU's
// product.c.
__device__ static void add_leaves(const rank_product &args, float *shared, sums &sum)
{
    sums waiting[LEVELS];
    for (int leaf = 0;; leaf++) {
        int level = 0;
        add_leaf(args, leaf, shared, sum);
        for (int carry = leaf; carry % 2 == 1; carry /= 2, level++) {
            for (int i = 0; i < EACH * EACH; i++) {
                sum[i / EACH][i % EACH] =
                    waiting[level][i / EACH][i % EACH] + sum[i / EACH][i % EACH];
            }
        }
        if (leaf + 1 == args.leaves) {
            return;
        }
        for (int i = 0; i < EACH * EACH; i++) {
            waiting[level][i / EACH][i % EACH] = sum[i / EACH][i % EACH];
        }
    }
}

template <bool has_leaves> __global__ static void product_kernel(rank_product args)
{
    SHARED(float, shared);
    float *to = static_cast<float *>(args.c);
    const size_t row = (size_t)blockIdx.y * TILE + threadIdx.x / SIDE * EACH;
    const size_t column = (size_t)blockIdx.x * TILE + threadIdx.x % SIDE;
    sums sum;
    if (has_leaves) {
        add_leaves(args, shared, sum);
    } else {
        set_zero(sum);
        for (int i = 0; args.accumulate && i < EACH * EACH; i++) {
            const size_t r = row + i / EACH;
            const size_t c = column + i % EACH * SIDE;
            if (r < args.rows && c < args.columns) {
                sum[i / EACH][i % EACH] = to[r * args.c_row + c];
            }
        }
        add_chain(args, 0, args.depth, shared, sum);
    }
    for (int i = 0; i < EACH * EACH; i++) {
        const size_t r = row + i / EACH;
        const size_t c = column + i % EACH * SIDE;
        if (r < args.rows && c < args.columns) {
            to[r * args.c_row + c] = sum[i / EACH][i % EACH];
        }
    }
}

extern "C" void cuda_launch_product(const rank_product *args, cudaStream_t stream)
{
    const dim3 grid((unsigned)((args->columns + TILE - 1) / TILE),
                    (unsigned)((args->rows + TILE - 1) / TILE));
    const size_t shared_bytes = 2 * DEPTH * PITCH * sizeof(float);
    if (args->leaves > 1) {
        LAUNCH(product_kernel<true>, grid, THREADS, shared_bytes, stream, *args);
    } else {
        LAUNCH(product_kernel<false>, grid, THREADS, shared_bytes, stream, *args);
    }
}

// To (columns, depth), a tile at a time, so that both sides are read and written side by side.
template <typename Element> __global__ static void turn_kernel(rank_pack args)
{
    Element *to = static_cast<Element *>(args.to);
    SHARED(float, tile); // (TURN, TURN + 1)
    const size_t k = (size_t)blockIdx.y * TURN;
    const size_t column = (size_t)blockIdx.x * TURN;
    for (size_t i = threadIdx.x; i < TURN * TURN; i += PACK_THREADS) {
        const size_t tile_k = args.transposed ? i % TURN : i / TURN;
        const size_t tile_column = args.transposed ? i / TURN : i % TURN;
        if (k + tile_k < args.depth && column + tile_column < args.columns) {
            tile[tile_k * (TURN + 1) + tile_column] =
                args.transposed ? args.from[(column + tile_column) * args.from_row + k + tile_k]
                                : args.from[(k + tile_k) * args.from_row + column + tile_column];
        }
    }
    __syncthreads();
    for (size_t i = threadIdx.x; i < TURN * TURN; i += PACK_THREADS) {
        const size_t tile_k = i % TURN;
        const size_t tile_column = i / TURN;
        if (k + tile_k < args.depth && column + tile_column < args.columns) {
            put(to + (column + tile_column) * args.to_row + k + tile_k,
                tile[tile_k * (TURN + 1) + tile_column]);
        }
    }
}

__global__ static void pack_kernel(rank_pack args)
{
    const size_t panels = (args.columns + RANK_PANEL - 1) / RANK_PANEL;
    const size_t panel_floats = args.depth * RANK_PANEL;
    for (size_t i = first_thing(); i < panels * panel_floats; i += all_threads()) {
        const size_t panel = i / panel_floats;
        const size_t k = i % panel_floats / RANK_PANEL;
        const size_t column = panel * RANK_PANEL + i % RANK_PANEL;
        const size_t from =
            args.transposed ? column * args.from_row + k : k * args.from_row + column;
        static_cast<float *>(args.to)[panel * args.to_panel + i % panel_floats] =
            column < args.columns ? args.from[from] : 0.0f;
    }
}

extern "C" void cuda_launch_pack(const rank_pack *args, cudaStream_t stream)
{
    if (args->to_row > 0) {
        const dim3 grid((unsigned)((args->columns + TURN - 1) / TURN),
                        (unsigned)((args->depth + TURN - 1) / TURN));
        WITH_ELEMENT(args->to_type, LAUNCH(turn_kernel<Element>, grid, PACK_THREADS,
                                           TURN * (TURN + 1) * sizeof(float), stream, *args));
        return;
    }
    LAUNCH(pack_kernel, blocks_for(rank_pack_count(args->depth, args->columns), PACK_THREADS),
           PACK_THREADS, 0, stream, *args);
}
