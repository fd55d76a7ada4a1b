/* The queue of the CPU backend. Private to the backend. */
#ifndef RANK_BACKEND_CPU_QUEUE_H
#define RANK_BACKEND_CPU_QUEUE_H

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "backend/profile.h"

struct rank_queue {
    const rank_kernels *kernels;
    rank_profile *profile; /* NULL: not measured */
};

/* Books the time since the last call under `part`. */
static inline void queue_book(const rank_queue *queue, rank_part part)
{
    if (queue->profile != NULL) {
        rank_profile_book(queue->profile, part);
    }
}

/* memory.c: the backend's functions of these names. */
base_status cpu_alloc(rank_queue *queue, rank_memory kind, size_t size_bytes, void **memory,
                      base_error *reterr);
base_status cpu_adopt(rank_queue *queue, void *memory, size_t size_bytes, base_error *reterr);
void cpu_release(rank_queue *queue, void *memory);
void cpu_disown(rank_queue *queue, void *memory);
base_status cpu_map(rank_queue *queue, void *memory, size_t size_bytes, bool write, void **host,
                    base_error *reterr);
void cpu_unmap(rank_queue *queue, void *host);
void cpu_copy(rank_queue *queue, void *to, const void *from, size_t size_bytes);
void cpu_zero(rank_queue *queue, void *memory, size_t size_bytes);

/* plain.c: operations without code for an instruction set of its own. */
void cpu_gather_rows(rank_queue *queue, const rank_move_rows *args);
void cpu_spread_rows(rank_queue *queue, const rank_move_rows *args);
void cpu_rope_table(rank_queue *queue, const rank_rope_table *args);
void cpu_add_bias(rank_queue *queue, const rank_add_bias *args);
void cpu_rope(rank_queue *queue, const rank_rope *args);
void cpu_copy_heads(rank_queue *queue, const rank_shared_heads *args);
void cpu_sum_heads(rank_queue *queue, const rank_shared_heads *args);
void cpu_sum_squares(rank_queue *queue, const rank_sum_squares *args);
void cpu_grad_scale(rank_queue *queue, const rank_grad_scale *args);
void cpu_column_sums(rank_queue *queue, const rank_column_sums *args);
void cpu_add(rank_queue *queue, const rank_add *args);
void cpu_scale(rank_queue *queue, const rank_scale *args);
void cpu_zero_parts(rank_queue *queue, const rank_zero_parts *args);
void cpu_measure_loads(rank_queue *queue, const rank_measure_loads *args);
void cpu_router_loss(rank_queue *queue, const rank_router_loss *args);
void cpu_digest(rank_queue *queue, const rank_digest *args);
void cpu_difference(rank_queue *queue, const rank_difference *args);

#endif
