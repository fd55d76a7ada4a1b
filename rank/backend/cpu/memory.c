/* Memory of the CPU backend: the heap, with huge pages for activations, caches and large weights,
 * so that fewer addresses must be translated. Called through cpu.c's table. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/queue.h"

enum { HUGE_PAGE_BYTES = 2 << 20, CACHE_LINE_BYTES = 64 };

base_status cpu_alloc(rank_queue *queue, rank_memory kind, size_t size_bytes, void **memory,
                      base_error *reterr)
{
    /* A small tensor would take a whole page. */
    const bool huge = kind == RANK_MEMORY_WORK || kind == RANK_MEMORY_ACTIVATIONS ||
                      kind == RANK_MEMORY_CACHE ||
                      ((kind == RANK_MEMORY_WEIGHTS || kind == RANK_MEMORY_OPTIMIZER) &&
                       size_bytes >= HUGE_PAGE_BYTES);
    const size_t align = huge ? HUGE_PAGE_BYTES : CACHE_LINE_BYTES;
    (void)queue;
    *memory = NULL;
    if (posix_memalign(memory, align, size_bytes > 0 ? size_bytes : align) != 0) {
        *memory = NULL;
    }
    if (*memory == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu bytes", size_bytes);
    }
    if (huge) { /* if the system refuses, nothing else changes */
        (void)madvise(*memory, size_bytes, MADV_HUGEPAGE);
    }
    return BASE_OK;
}

void cpu_release(rank_queue *queue, void *memory)
{
    (void)queue;
    free(memory);
}

/* The processor reads and writes every address, so there is nothing to do. */
base_status cpu_adopt(rank_queue *queue, void *memory, size_t size_bytes, base_error *reterr)
{
    (void)queue;
    (void)memory;
    (void)size_bytes;
    (void)reterr;
    return BASE_OK;
}

void cpu_disown(rank_queue *queue, void *memory)
{
    (void)queue;
    (void)memory;
}

base_status cpu_map(rank_queue *queue, void *memory, size_t size_bytes, bool write, void **host,
                    base_error *reterr)
{
    (void)queue;
    (void)size_bytes;
    (void)write;
    (void)reterr;
    *host = memory;
    return BASE_OK;
}

void cpu_unmap(rank_queue *queue, void *host)
{
    (void)queue;
    (void)host;
}

void cpu_copy(rank_queue *queue, void *to, const void *from, size_t size_bytes)
{
    if (size_bytes > 0) { /* of a matrix that nobody shares, say, there is no memory */
        memcpy(to, from, size_bytes);
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_zero(rank_queue *queue, void *memory, size_t size_bytes)
{
    memset(memory, 0, size_bytes);
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_zero_parts(rank_queue *queue, const rank_zero_parts *args)
{
    for (size_t i = 0; i < args->count; i++) {
        memset(args->parts[i].at, 0, args->parts[i].count * sizeof *args->parts[i].at);
    }
    queue_book(queue, RANK_PART_OTHER);
}
