/* Memory of the CUDA backend: device memory, pinned host memory, and memory of others. Called
 * through cuda.c's table. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/queue.h"
#include "backend/memory_use.h"
#include "base/status.h"

enum { KERNEL_ZERO_BYTES = 256 << 10 };

/* What all queues of this process have, and have had at most, of each use. */
static _Atomic int64_t held_bytes[RANK_MEMORY_KINDS];
static _Atomic int64_t peak_bytes[RANK_MEMORY_KINDS];

void cuda_count_memory(rank_memory kind, int64_t bytes)
{
    const int64_t now = atomic_fetch_add(&held_bytes[kind], bytes) + bytes;
    int64_t peak = atomic_load(&peak_bytes[kind]);
    while (now > peak && !atomic_compare_exchange_weak(&peak_bytes[kind], &peak, now)) {
    }
}

void cuda_memory_peak(rank_queue *queue, rank_memory_use *peak)
{
    (void)queue;
    for (int kind = 0; kind < RANK_MEMORY_KINDS; kind++) {
        peak->bytes[kind] = (uint64_t)atomic_load(&peak_bytes[kind]);
    }
}

/* The block's memory was given, or, with -1, goes back. Pinned memory of the host is not counted. */
static void count_block(const cuda_block *block, int sign)
{
    if (!block->host) {
        cuda_count_memory(block->kind, sign * (int64_t)block->size_bytes);
    }
}

const cuda_block *cuda_find_block(const rank_queue *queue, const void *memory)
{
    const char *at = memory;
    for (const cuda_block *block = queue->blocks; block != NULL; block = block->next) {
        if (at >= block->memory && at < block->memory + block->size_bytes) {
            return block;
        }
    }
    return NULL;
}

static base_status new_block(rank_queue *queue, const cuda_block *values, base_error *reterr)
{
    cuda_block *block = malloc(sizeof *block);
    if (block == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a list of memory");
    }
    *block = *values;
    block->next = queue->blocks;
    queue->blocks = block;
    count_block(block, 1);
    return BASE_OK;
}

/* Takes the block that begins at the address off the list; the caller frees it. */
static cuda_block *take_block(rank_queue *queue, const void *memory)
{
    for (cuda_block **at = &queue->blocks; *at != NULL; at = &(*at)->next) {
        if ((*at)->memory == memory) {
            cuda_block *found = *at;
            *at = found->next;
            count_block(found, -1);
            return found;
        }
    }
    return NULL;
}

/* Says what has the memory, by use. */
static base_status out_of_memory(rank_memory kind, size_t size_bytes, base_error *reterr)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    char text[RANK_MEMORY_TEXT_BYTES];
    int length = 0;
    (void)cudaGetLastError(); /* the refusal is reported here, not by the next operation */
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    for (int i = 0; i < RANK_MEMORY_HOST && length < RANK_MEMORY_TEXT_BYTES; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%s %" PRId64,
                           i > 0 ? ", " : "", rank_memory_name((rank_memory)i),
                           atomic_load(&held_bytes[i]));
    }
    return base_fail(reterr, BASE_ERR_MEMORY,
                     "the GPU has no memory for %zu bytes of %s: %zu of %zu are free; this rank "
                     "has %s",
                     size_bytes, rank_memory_name(kind), free_bytes, total_bytes, text);
}

base_status cuda_alloc(rank_queue *queue, rank_memory kind, size_t size_bytes, void **memory,
                       base_error *reterr)
{
    const bool host = kind == RANK_MEMORY_HOST;
    const size_t wanted = size_bytes > 0 ? size_bytes : 1;
    *memory = NULL;
    const cudaError_t error =
        host ? cudaHostAlloc(memory, wanted, cudaHostAllocMapped | cudaHostAllocPortable)
             : cudaMalloc(memory, wanted);
    if (error == cudaErrorMemoryAllocation) {
        *memory = NULL;
        return out_of_memory(kind, size_bytes, reterr);
    }
    if (error != cudaSuccess) {
        *memory = NULL;
        return cuda_explain(error, "allocating memory", reterr);
    }
    const base_status status = new_block(
        queue, &(cuda_block){.memory = *memory, .size_bytes = wanted, .kind = kind, .host = host},
        reterr);
    if (status != BASE_OK) {
        (void)(host ? cudaFreeHost(*memory) : cudaFree(*memory));
        *memory = NULL;
    }
    return status;
}

/* Operations that use the memory may still be under way: cudaFree waits for them. */
void cuda_release(rank_queue *queue, void *memory)
{
    if (memory == NULL) {
        return;
    }
    cuda_block *block = take_block(queue, memory);
    if (block == NULL) {
        cuda_fail(queue, BASE_ERR_STATE, "released memory that this queue did not give");
        return;
    }
    if (block->host) {
        (void)cudaStreamSynchronize(queue->stream); /* its error comes again in sync */
        (void)cudaFreeHost(memory);
    } else {
        (void)cudaFree(memory);
    }
    free(block);
}

uint64_t cuda_free_bytes(rank_queue *queue)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    (void)cuda_check(queue, cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
    return free_bytes;
}

/* A collective arena is host memory, which the device reaches once it is pinned. Memory that NCCL
 * gave is the device's already. */
base_status cuda_adopt(rank_queue *queue, void *memory, size_t size_bytes, base_error *reterr)
{
    struct cudaPointerAttributes found = {.type = cudaMemoryTypeUnregistered};
    cudaError_t error = cudaPointerGetAttributes(&found, memory);
    if (error != cudaSuccess) {
        return cuda_explain(error, "looking at foreign memory", reterr);
    }
    cuda_block block = {.memory = memory,
                        .size_bytes = size_bytes,
                        .kind = RANK_MEMORY_EXCHANGED,
                        .host = found.type != cudaMemoryTypeDevice};
    if (found.type == cudaMemoryTypeUnregistered) {
        error = cudaHostRegister(memory, size_bytes, cudaHostRegisterPortable);
        if (error != cudaSuccess) {
            (void)cudaGetLastError();
            return cuda_explain(error, "pinning foreign memory", reterr);
        }
        block.registered = true;
    }
    const base_status status = new_block(queue, &block, reterr);
    if (status != BASE_OK && block.registered) {
        (void)cudaHostUnregister(memory);
    }
    return status;
}

void cuda_disown(rank_queue *queue, void *memory)
{
    cuda_block *block = take_block(queue, memory);
    if (block == NULL) {
        return;
    }
    (void)cudaStreamSynchronize(queue->stream); /* its error comes again in sync */
    if (block->registered) {
        (void)cudaHostUnregister(memory);
    }
    free(block);
}

void cuda_copy(rank_queue *queue, void *to, const void *from, size_t size_bytes)
{
    if (queue->failed == BASE_OK && size_bytes > 0) {
        (void)cuda_check(
            queue, cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, queue->stream), "copy");
    }
}

/* Small arrays by a kernel: in a graph a kernel begins sooner behind another one than a memset does. */
void cuda_zero(rank_queue *queue, void *memory, size_t size_bytes)
{
    if (size_bytes <= KERNEL_ZERO_BYTES && size_bytes % sizeof(float) == 0 &&
        (uintptr_t)memory % sizeof(float) == 0) {
        cuda_zero_parts(queue, &(rank_zero_parts){.count = size_bytes > 0 ? 1 : 0,
                                                  .parts = {{memory, size_bytes / sizeof(float)}}});
    } else if (queue->failed == BASE_OK && size_bytes > 0) {
        (void)cuda_check(queue, cudaMemsetAsync(memory, 0, size_bytes, queue->stream), "zero");
    }
}
