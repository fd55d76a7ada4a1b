// Sums of token and position embeddings, and their gradient. Launched by operations.c.
#include "device.h"
#include "element.h"
#include "kernels.h"

enum {
    THREADS = 128,
    KEYS = 256, // tokens whose ids are looked at together
};

// Zero plus the sum: so that -0 becomes 0, as it does where ranks add their zeros to it.
__global__ static void embed_kernel(rank_embed args)
{
    const size_t count = args.tokens * args.width;
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        const size_t token = i / args.width;
        const size_t j = i % args.width;
        float sum = args.wte[(size_t)args.ids[token] * args.width + j];
        if (args.wpe != NULL) {
            sum = sum + args.wpe[(size_t)args.positions[token] * args.width + j];
        }
        args.out[i] = 0.0f + sum;
    }
}

extern "C" void cuda_launch_embed(const rank_embed *args, cudaStream_t stream)
{
    LAUNCH(embed_kernel, blocks_for(args->tokens * args->width, THREADS), THREADS, 0, stream,
           *args);
}

template <typename Element> __global__ static void embed_packed_kernel(rank_embed_packed args)
{
    const Element *wte = static_cast<const Element *>(args.wte);
    wait_for_previous();
    const size_t count = args.tokens * args.width;
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        const size_t token = i / args.width;
        const size_t j = i % args.width;
        const int32_t column = args.ids[token] - args.first_id;
        if (column < 0 || column >= args.columns) {
            args.out[i] = 0.0f;
            continue;
        }
        const size_t panel = (size_t)column / RANK_PANEL * RANK_PANEL * args.width;
        const size_t at = args.wte_row > 0 ? (size_t)column * args.wte_row + j
                                           : panel + j * RANK_PANEL + (size_t)column % RANK_PANEL;
        float sum = get(wte[at]);
        if (args.wpe != NULL) {
            sum = sum + args.wpe[(size_t)args.positions[token] * args.width + j];
        }
        args.out[i] = 0.0f + sum;
    }
}

extern "C" void cuda_launch_embed_packed(const rank_embed_packed *args, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(args->tokens * args->width, THREADS);
    WITH_ELEMENT(args->wte_type, LAUNCH_OVERLAPPED(embed_packed_kernel<Element>, blocks, THREADS, 0,
                                                   stream, *args));
}

// table[keys[t]] += dx[t] in token order, without a sort and without atomics: the block of a token
// does all tokens with the same key if its own is the first of them, and else nothing.
__global__ static void add_by_key_kernel(size_t tokens, size_t width, const int32_t *keys,
                                         const float *dx, float *table)
{
    SHARED(int32_t, shared); // the flag, then KEYS keys
    int32_t *seen = shared + 1;
    const size_t token = blockIdx.x;
    const int32_t key = keys[token];
    const size_t j = (size_t)blockIdx.y * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        shared[0] = 0;
    }
    __syncthreads();
    for (size_t t = threadIdx.x; t < token; t += blockDim.x) {
        if (keys[t] == key) {
            shared[0] = 1; // whoever writes, writes this
        }
    }
    __syncthreads();
    if (shared[0] != 0) {
        return;
    }
    float sum = j < width ? table[(size_t)key * width + j] : 0.0f;
    for (size_t first = token; first < tokens; first += KEYS) {
        const size_t count = tokens - first < KEYS ? tokens - first : (size_t)KEYS;
        for (size_t t = threadIdx.x; t < count; t += blockDim.x) {
            seen[t] = keys[first + t];
        }
        __syncthreads();
        for (size_t t = 0; j < width && t < count; t++) {
            if (seen[t] == key) {
                sum = sum + dx[(first + t) * width + j];
            }
        }
        __syncthreads();
    }
    if (j < width) {
        table[(size_t)key * width + j] = sum;
    }
}

static void add_by_key(const rank_embed_grad *args, const int32_t *keys, float *table,
                       cudaStream_t stream)
{
    const dim3 grid((unsigned)args->tokens, (unsigned)((args->width + THREADS - 1) / THREADS));
    LAUNCH(add_by_key_kernel, grid, THREADS, (1 + KEYS) * sizeof(int32_t), stream, args->tokens,
           args->width, keys, args->dx, table);
}

extern "C" void cuda_launch_embed_grad(const rank_embed_grad *args, cudaStream_t stream)
{
    add_by_key(args, args->ids, args->dwte, stream);
    if (args->dwpe != NULL) {
        add_by_key(args, args->positions, args->dwpe, stream);
    }
}
