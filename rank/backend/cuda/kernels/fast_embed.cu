// For the backend `cuda`: embeddings and their gradient. Launched by fast.c.
//
// The gradient puts the tokens in the order of their keys (ids or positions) first: a token's place
// is the number of tokens before it, which each thread counts for its own token. Tokens with the same
// key keep their order, so sums have a fixed one. Counting costs T² comparisons, which is little for
// the few ten thousand tokens of a step. Then a block adds up the rows of each key.
#include "fast.h"

enum {
    EMBED_THREADS = 256,
    EMBED_WARPS = EMBED_THREADS / WARP,
    ORDER_THREADS = 64, // few, so that a step's tokens make blocks for many multiprocessors
    ORDER_KEYS = 1024,  // in shared memory at a time
    RUN_THREADS = 256,
    RUN_WARPS = RUN_THREADS / WARP,
    RUN_SHORT = 32,  // tokens with one key that a warp adds up alone
    KEY_ARRAYS = 2,  // ids and positions
    ORDER_ARRAYS = 2 // of each: its keys, and its tokens in order
};

// Zero plus the sum: see embed.cu. A warp has a token.
template <bool VEC> __global__ static void fast_embed_kernel(rank_embed args)
{
    SHARED(int32_t, keys);
    const size_t first = (size_t)blockIdx.x * EMBED_WARPS;
    if (threadIdx.x < EMBED_WARPS && first + threadIdx.x < args.tokens) {
        keys[threadIdx.x] = args.ids[first + threadIdx.x];
        keys[EMBED_WARPS + threadIdx.x] = args.positions[first + threadIdx.x];
    }
    __syncthreads();
    const size_t token = first + threadIdx.x / WARP;
    if (token >= args.tokens) {
        return;
    }
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float *wte = args.wte + (size_t)keys[token - first] * args.width;
    const float *wpe =
        args.wpe != NULL ? args.wpe + (size_t)keys[EMBED_WARPS + token - first] * args.width : NULL;
#pragma unroll 4
    for (size_t c = threadIdx.x % WARP * FOUR; c < args.width; c += WARP_COLUMNS) {
        float4 sum = load_four<VEC>(wte, c, args.width);
        if (wpe != NULL) {
            sum = plus(sum, load_four<VEC>(wpe, c, args.width));
        }
        store_four<VEC>(args.out + token * args.width, c, args.width, plus(zero, sum));
    }
}

extern "C" void cuda_launch_fast_embed(const rank_embed *args, cudaStream_t stream)
{
    const bool vec = in_fours(args->width, address_of(args->wte) | address_of(args->wpe) |
                                               address_of(args->out));
    LAUNCH((vec ? fast_embed_kernel<true> : fast_embed_kernel<false>),
           (unsigned)((args->tokens + EMBED_WARPS - 1) / EMBED_WARPS), EMBED_THREADS,
           2 * EMBED_WARPS * sizeof(int32_t), stream, *args);
}

// Where the orders stand in scratch memory: (KEY_ARRAYS, ORDER_ARRAYS, T).
struct orders {
    int32_t *at;
    size_t tokens;
    __device__ int32_t *keys(unsigned which) const // in the order
    {
        return at + which * ORDER_ARRAYS * tokens;
    }
    __device__ int32_t *rows(unsigned which) const // the tokens
    {
        return keys(which) + tokens;
    }
};

// blockIdx.y: ids or positions. Keys may lie in the host's memory: each block reads them once.
__global__ static void order_kernel(rank_embed_grad args, orders to)
{
    SHARED(int32_t, tile);
    const int32_t *keys = blockIdx.y == 0 ? args.ids : args.positions;
    const size_t token = first_thing();
    const int32_t key = token < args.tokens ? keys[token] : 0;
    size_t before = 0;
    for (size_t first = 0; first < args.tokens; first += ORDER_KEYS) {
        const size_t left = args.tokens - first;
        const size_t count = left < ORDER_KEYS ? left : (size_t)ORDER_KEYS;
        for (size_t t = threadIdx.x; t < count; t += ORDER_THREADS) {
            tile[t] = keys[first + t];
        }
        __syncthreads();
        const size_t earlier = token <= first ? 0 : token - first < count ? token - first : count;
#pragma unroll 8
        for (size_t t = 0; t < count; t++) {
            before += tile[t] < key || (t < earlier && tile[t] == key);
        }
        __syncthreads();
    }
    if (token < args.tokens) {
        to.keys(blockIdx.y)[before] = key;
        to.rows(blockIdx.y)[before] = (int32_t)token;
    }
}

// The sum of dx's rows of places first, first + step, … of the order, four columns of it.
template <bool VEC>
__device__ static float4 sum_places(const rank_embed_grad &args, const int32_t *rows, size_t first,
                                    size_t end, size_t step, size_t column)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (size_t i = first; i < end; i += step) {
        sum = plus(sum, load_four<VEC>(args.dx + (size_t)rows[i] * args.width, column, args.width));
    }
    return sum;
}

template <bool VEC>
__device__ static void add_four(float *row, size_t column, size_t width, float4 sum)
{
    store_four<VEC>(row, column, width, plus(load_four<VEC>(row, column, width), sum));
}

// The block of the first place of a key adds up all its rows; the others have nothing to do. A warp
// of a short run has columns of its own. In a long run warps have tokens of their own.
template <bool VEC>
__global__ static void __launch_bounds__(RUN_THREADS)
    add_runs_kernel(rank_embed_grad args, orders from)
{
    SHARED(float4, tile);
    const size_t place = blockIdx.x;
    const int32_t *keys = from.keys(blockIdx.y);
    const int32_t *rows = from.rows(blockIdx.y);
    const int32_t key = keys[place];
    if (place > 0 && keys[place - 1] == key) {
        return;
    }
    size_t end = place + 1;
    while (end < args.tokens && end < place + RUN_SHORT && keys[end] == key) {
        end++;
    }
    float *table = (blockIdx.y == 0 ? args.dwte : args.dwpe) + (size_t)key * args.width;
    const size_t lane = threadIdx.x % WARP;
    const size_t warp = threadIdx.x / WARP;
    if (end < place + RUN_SHORT) {
        for (size_t c = threadIdx.x * FOUR; c < args.width; c += RUN_THREADS * FOUR) {
            add_four<VEC>(table, c, args.width, sum_places<VEC>(args, rows, place, end, 1, c));
        }
        return;
    }
    size_t beyond = args.tokens; // keys[beyond] is above the key; between end and here
    while (end < beyond) {
        const size_t middle = end + (beyond - end) / 2;
        if (keys[middle] == key) {
            end = middle + 1;
        } else {
            beyond = middle;
        }
    }
    for (size_t first = 0; first < args.width; first += WARP_COLUMNS) {
        const size_t c = first + lane * FOUR;
        tile[threadIdx.x] = sum_places<VEC>(args, rows, place + warp, end, RUN_WARPS, c);
        __syncthreads();
        if (warp == 0 && c < args.width) {
            float4 sum = tile[lane];
            for (int w = 1; w < RUN_WARPS; w++) {
                sum = plus(sum, tile[w * WARP + lane]);
            }
            add_four<VEC>(table, c, args.width, sum);
        }
        __syncthreads();
    }
}

extern "C" void cuda_launch_fast_embed_grad(const rank_embed_grad *args, double *partials,
                                            cudaStream_t stream)
{
    const orders order = {(int32_t *)partials, args->tokens};
    const bool vec = in_fours(args->width, address_of(args->dx) | address_of(args->dwte) |
                                               address_of(args->dwpe));
    const unsigned tables = args->dwpe != NULL ? KEY_ARRAYS : 1;
    if (args->tokens * KEY_ARRAYS * ORDER_ARRAYS > PART_FLOATS) {
        cuda_launch_embed_grad(args, stream); // no room for the orders
        return;
    }
    LAUNCH(order_kernel,
           dim3((unsigned)((args->tokens + ORDER_THREADS - 1) / ORDER_THREADS), tables),
           ORDER_THREADS, ORDER_KEYS * sizeof(int32_t), stream, *args, order);
    LAUNCH((vec ? add_runs_kernel<true> : add_runs_kernel<false>),
           dim3((unsigned)args->tokens, tables), RUN_THREADS, RUN_THREADS * sizeof(float4), stream,
           *args, order);
}
