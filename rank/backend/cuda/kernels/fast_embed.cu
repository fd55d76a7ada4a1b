// For the backend `cuda`: embeddings and their gradient. Launched by fast.c.
//
// The gradient puts the tokens in the order of their keys (ids or positions) first. Tokens with the
// same key keep their order, so sums have a fixed one. Chunks of tokens are ordered alone: a team
// of threads counts the tokens of the chunk that are before its own. Then each token looks up how
// many tokens of every other chunk are before it. Then a warp adds up the rows of each key, or a
// block, where they are many.
#include "fast.h"

enum {
    EMBED_THREADS = 256,
    EMBED_WARPS = EMBED_THREADS / WARP,
    CHUNK = 1024, // tokens that are ordered alone; also what is in shared memory at a time
    TEAM = 16,    // threads that have a token together
    ORDER_THREADS = 256,
    ORDER_TOKENS = ORDER_THREADS / TEAM,
    ORDER_EACH = CHUNK / ORDER_THREADS, // keys that a thread brings
    GROUP_EACH = 8,                     // keys that a thread compares at once
    GROUP = TEAM * GROUP_EACH,
    RUN_THREADS = 256,
    RUN_WARPS = RUN_THREADS / WARP,
    SUM_EACH = 8,    // rows that a thread reads at once
    KEY_ARRAYS = 2,  // ids and positions
    ORDER_ARRAYS = 2 // of each: its keys, and its tokens in order
};
static_assert(CHUNK % GROUP == 0 && GROUP % ORDER_TOKENS == 0, "a block's tokens are of one group");

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

// Where the orders stand in memory: (KEY_ARRAYS, ORDER_ARRAYS, T).
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

// Over the threads of a team: neighbouring lanes.
__device__ static unsigned sum_team(unsigned count)
{
#pragma unroll
    for (int half = TEAM / 2; half > 0; half /= 2) {
        count = count + __shfl_xor_sync(0xffffffffu, count, half);
    }
    return count;
}

// Keys first … first + count into shared memory; behind them none that is below another.
__device__ static void bring_keys(int32_t *tile, const int32_t *keys, unsigned first,
                                  unsigned count)
{
    int32_t each[ORDER_EACH];
#pragma unroll
    for (int i = 0; i < ORDER_EACH; i++) {
        const unsigned t = threadIdx.x + i * ORDER_THREADS;
        each[i] = t < count ? keys[first + t] : 0x7fffffff;
    }
#pragma unroll
    for (int i = 0; i < ORDER_EACH; i++) {
        tile[threadIdx.x + i * ORDER_THREADS] = each[i];
    }
}

// How many of this thread's keys of a group are before a token. `left`: the token's distance from
// the group's first one.
__device__ static unsigned count_before(const int32_t *group, int32_t key, int left)
{
    unsigned before = 0;
    if (left < 0 || left >= GROUP) { // equal keys of earlier groups are before it
        const int32_t bound = key + (left < 0 ? 0 : 1);
#pragma unroll
        for (int i = 0; i < GROUP_EACH; i++) {
            before += group[threadIdx.x % TEAM + i * TEAM] < bound ? 1 : 0;
        }
        return before;
    }
#pragma unroll
    for (int i = 0; i < GROUP_EACH; i++) {
        const int t = (int)threadIdx.x % TEAM + i * TEAM;
        before += group[t] < key + (t < left ? 1 : 0) ? 1 : 0;
    }
    return before;
}

// Orders each `span` tokens alone: CHUNK of them, or all. blockIdx.y: ids or positions. Keys may be
// in the host's memory: each block reads those of its span once.
__global__ static void __launch_bounds__(ORDER_THREADS)
    order_kernel(rank_embed_grad args, unsigned span, orders to)
{
    SHARED(int32_t, tile);
    const int32_t *keys = blockIdx.y == 0 ? args.ids : args.positions;
    const unsigned tokens = (unsigned)args.tokens;
    const unsigned token = blockIdx.x * ORDER_TOKENS + threadIdx.x / TEAM;
    const unsigned begin = blockIdx.x * ORDER_TOKENS / span * span;
    const unsigned end = tokens - begin < span ? tokens : begin + span;
    const int32_t key = token < tokens ? keys[token] : 0;
    unsigned before = 0;
    for (unsigned first = begin; first < end; first += CHUNK) {
        bring_keys(tile, keys, first, end - first);
        __syncthreads();
#pragma unroll 1
        for (unsigned g = 0; g < CHUNK; g += GROUP) {
            before += count_before(tile + g, key, (int)token - (int)(first + g));
        }
        __syncthreads();
    }
    before = sum_team(before);
    if (token < tokens && threadIdx.x % TEAM == 0) {
        to.keys(blockIdx.y)[begin + before] = key;
        to.rows(blockIdx.y)[begin + before] = (int32_t)token;
    }
}

// How many of `count` ascending keys are below the bound.
__device__ static unsigned keys_below(const int32_t *keys, unsigned count, int32_t bound)
{
    unsigned first = 0;
    while (first < count) {
        const unsigned middle = first + (count - first) / 2;
        if (keys[middle] < bound) {
            first = middle + 1;
        } else {
            count = middle;
        }
    }
    return first;
}

// Puts ordered chunks together. A team has a token, and looks up its place in the other chunks.
__global__ static void __launch_bounds__(ORDER_THREADS) join_chunks_kernel(orders from, orders to)
{
    const unsigned tokens = (unsigned)from.tokens;
    const unsigned place = blockIdx.x * ORDER_TOKENS + threadIdx.x / TEAM;
    const unsigned mine = place / CHUNK;
    const int32_t *keys = from.keys(blockIdx.y);
    const int32_t key = place < tokens ? keys[place] : 0;
    unsigned before = 0;
    for (unsigned chunk = threadIdx.x % TEAM; chunk * CHUNK < tokens; chunk += TEAM) {
        const unsigned first = chunk * CHUNK;
        const unsigned count = tokens - first < CHUNK ? tokens - first : (unsigned)CHUNK;
        // equal keys of earlier chunks are before it
        before += chunk == mine ? place - first
                                : keys_below(keys + first, count, key + (chunk < mine ? 1 : 0));
    }
    before = sum_team(before);
    if (place < tokens && threadIdx.x % TEAM == 0) {
        to.keys(blockIdx.y)[before] = key;
        to.rows(blockIdx.y)[before] = from.rows(blockIdx.y)[place];
    }
}

// What a block of add_runs_kernel has in shared memory. A run is the tokens of one key, neighbours
// in the order. A block has those that begin at its WARP places, and sees WARP places more.
struct run_tile {
    float4 sums[RUN_THREADS];
    int32_t shares[RUN_THREADS]; // rows of a long run, of each warp
    int32_t keys[1 + 2 * WARP];  // the first one is of the place before; -1: no such place
    int32_t rows[2 * WARP];
    int32_t begins[WARP]; // places, from the block's first one
    unsigned count;       // of begins
    __device__ int32_t key(int place) const
    {
        return keys[1 + place];
    }
    // Of the run that begins at a place; WARP: so many or more. For all lanes.
    __device__ unsigned length(int begin) const
    {
        return sum_warp(key(begin + (int)(threadIdx.x % WARP)) == key(begin) ? 1u : 0u);
    }
};

// For all threads of the block.
__device__ static void find_runs(run_tile &tile, const orders &from)
{
    const int32_t *keys = from.keys(blockIdx.y);
    const size_t first = (size_t)blockIdx.x * WARP;
    const int mine = (int)threadIdx.x;
    if (mine < 2 * WARP) {
        const bool there = first + mine < from.tokens;
        tile.keys[1 + mine] = there ? keys[first + mine] : -1;
        tile.rows[mine] = there ? from.rows(blockIdx.y)[first + mine] : 0;
    } else if (mine == 2 * WARP) {
        tile.keys[0] = first > 0 ? keys[first - 1] : -1;
    }
    __syncthreads();
    if (mine < WARP) {
        const bool begins = tile.key(mine) != -1 && tile.key(mine) != tile.key(mine - 1);
        int before = 0;
#pragma unroll
        for (int place = 0; place < WARP; place++) {
            before += place < mine && tile.key(place) != tile.key(place - 1) ? 1 : 0;
        }
        if (begins) {
            tile.begins[before] = mine;
        }
        const unsigned count = sum_warp(begins ? 1u : 0u);
        if (mine == 0) {
            tile.count = count;
        }
    }
    __syncthreads();
}

// The end of a run that begins at a place and has WARP tokens or more. Each lane tries a place at a
// time. For all lanes.
__device__ static unsigned end_of_run(const orders &from, unsigned begin, int32_t key)
{
    const int32_t *keys = from.keys(blockIdx.y);
    unsigned end = begin + WARP;             // places before it are the run's
    unsigned beyond = (unsigned)from.tokens; // the run's end, or behind it
    while (end < beyond) {
        const unsigned step = (beyond - end + WARP - 1) / WARP;
        const unsigned tried = end + threadIdx.x % WARP * step;
        const unsigned inside = sum_warp(tried < beyond && keys[tried] == key ? 1u : 0u);
        const unsigned last = end + inside * step; // the first place that is not the run's
        beyond = last < beyond ? last : beyond;
        end = inside > 0 ? last - step + 1 : beyond;
    }
    return beyond;
}

// The sum of `count` rows of dx, whose numbers are in shared memory, four columns of it. SUM_EACH
// rows are under way at once: behind the end the first one again, since a load in a branch of its
// own would wait for the one before it.
template <bool VEC>
__device__ static float4 sum_rows(const rank_embed_grad &args, const int32_t *rows, unsigned count,
                                  size_t column)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (unsigned i = 0; i < count; i += SUM_EACH) {
        float4 each[SUM_EACH];
#pragma unroll
        for (unsigned e = 0; e < SUM_EACH; e++) {
            const size_t row = (size_t)rows[i + e < count ? i + e : i];
            each[e] = load_four<VEC>(args.dx + row * args.width, column, args.width);
        }
#pragma unroll
        for (unsigned e = 0; e < SUM_EACH; e++) {
            sum = i + e < count ? plus(sum, each[e]) : sum;
        }
    }
    return sum;
}

// A warp's share of places begin … end: each RUN_WARPS-th WARP of them. `rows` is the warp's.
template <bool VEC>
__device__ static float4 sum_share(const rank_embed_grad &args, const orders &from, unsigned begin,
                                   unsigned end, int32_t *rows, size_t column)
{
    const unsigned lane = threadIdx.x % WARP;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (unsigned first = begin + threadIdx.x / WARP * WARP; first < end; first += RUN_THREADS) {
        const unsigned count = end - first < WARP ? end - first : (unsigned)WARP;
        __syncwarp(); // all have read the rows before
        rows[lane] = from.rows(blockIdx.y)[lane < count ? first + lane : first];
        __syncwarp();
        sum = plus(sum, sum_rows<VEC>(args, rows, count, column));
    }
    return sum;
}

// The whole block adds up a run of WARP tokens or more: each warp its share, then the first warp
// the shares, in the order of warps.
template <bool VEC>
__device__ static void add_long_run(const rank_embed_grad &args, const orders &from, run_tile &tile,
                                    int begin, float *to, size_t column)
{
    const unsigned lane = threadIdx.x % WARP;
    const unsigned place = blockIdx.x * WARP + (unsigned)begin;
    const unsigned end = end_of_run(from, place, tile.key(begin));
    int32_t *rows = tile.shares + threadIdx.x / WARP * WARP;
    tile.sums[threadIdx.x] = sum_share<VEC>(args, from, place, end, rows, column);
    __syncthreads();
    if (threadIdx.x < WARP) {
        float4 sum = tile.sums[lane];
        for (int warp = 1; warp < RUN_WARPS; warp++) {
            sum = plus(sum, tile.sums[warp * WARP + lane]);
        }
        store_four<VEC>(to, column, args.width, plus(load_four<VEC>(to, column, args.width), sum));
    }
}

// A block has the runs that begin at its places, and columns: WARP_COLUMNS from those of blockIdx.z
// on. A warp adds up a run of fewer than WARP tokens. Only the last run can be longer, as there are
// WARP places.
template <bool VEC>
__global__ static void __launch_bounds__(RUN_THREADS, 4)
    add_runs_kernel(rank_embed_grad args, orders from)
{
    SHARED(run_tile, tile);
    const size_t column = (size_t)blockIdx.z * WARP_COLUMNS + threadIdx.x % WARP * FOUR;
    float *table = blockIdx.y == 0 ? args.dwte : args.dwpe;
    find_runs(*tile, from);
    for (unsigned i = threadIdx.x / WARP; i < tile->count; i += RUN_WARPS) {
        const int begin = tile->begins[i];
        const unsigned length = tile->length(begin);
        if (length < WARP) {
            float *to = table + (size_t)tile->key(begin) * args.width;
            const float4 before = load_four<VEC>(to, column, args.width);
            const float4 sum = sum_rows<VEC>(args, tile->rows + begin, length, column);
            store_four<VEC>(to, column, args.width, plus(before, sum));
        }
    }
    if (tile->count > 0) {
        const int begin = tile->begins[tile->count - 1];
        if (tile->length(begin) == WARP) { // for all threads of the block
            float *to = table + (size_t)tile->key(begin) * args.width;
            add_long_run<VEC>(args, from, *tile, begin, to, column);
        }
    }
}

// Leaves the orders in `to`. Behind it there is room for as many again where T is not very large;
// else each token is compared with all others.
static void launch_order(const rank_embed_grad *args, unsigned tables, const orders &to,
                         cudaStream_t stream)
{
    const size_t ints = args->tokens * KEY_ARRAYS * ORDER_ARRAYS;
    const dim3 grid((unsigned)((args->tokens + ORDER_TOKENS - 1) / ORDER_TOKENS), tables);
    const orders chunks = {to.at + ints, args->tokens};
    if (args->tokens > CHUNK && 2 * ints <= PART_FLOATS) {
        LAUNCH(order_kernel, grid, ORDER_THREADS, CHUNK * sizeof(int32_t), stream, *args,
               (unsigned)CHUNK, chunks);
        LAUNCH(join_chunks_kernel, grid, ORDER_THREADS, 0, stream, chunks, to);
    } else {
        const size_t span = (args->tokens + CHUNK - 1) / CHUNK * CHUNK;
        LAUNCH(order_kernel, grid, ORDER_THREADS, CHUNK * sizeof(int32_t), stream, *args,
               (unsigned)span, to);
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
    launch_order(args, tables, order, stream);
    LAUNCH((vec ? add_runs_kernel<true> : add_runs_kernel<false>),
           dim3((unsigned)((args->tokens + WARP - 1) / WARP), tables, tiles_of(args->width)),
           RUN_THREADS, sizeof(run_tile), stream, *args, order);
}
