/* The CPU backend's table: queues, and each operation as a call of the kernels. backend.c lists
 * it. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>

#include "backend/cpu/queue.h"
#include "base/clock.h"

enum { ROWS_AT_ONCE = 128 };

static base_status cpu_open(rank_queue **queue, base_error *reterr)
{
    *queue = NULL;
    const base_status status = rank_kernels_check(reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_queue *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a queue");
    }
    made->kernels = rank_kernels_get();
    *queue = made;
    return BASE_OK;
}

static void cpu_close(rank_queue *queue)
{
    free(queue);
}

static void cpu_info(rank_queue *queue, rank_backend_info *info)
{
    *info = (rank_backend_info){.kernels = queue->kernels->name, .products = ""};
}

static void cpu_set_profile(rank_queue *queue, rank_profile *profile)
{
    queue->profile = profile;
    if (profile != NULL) {
        profile->last_ns = base_now_ns();
    }
}

/* Every operation has run, and none can fail. */
static base_status cpu_sync(rank_queue *queue, base_error *reterr)
{
    (void)queue;
    (void)reterr;
    return BASE_OK;
}

static void *cpu_stream(rank_queue *queue)
{
    (void)queue;
    return NULL;
}

static rank_mark cpu_mark(rank_queue *queue)
{
    (void)queue;
    return (rank_mark){0};
}

static void cpu_after(rank_queue *queue, rank_mark mark)
{
    (void)queue;
    (void)mark;
}

/* Makes an operation of a kernel, and books its time. */
#define OPERATION(name, part)                                                                      \
    static void cpu_##name(rank_queue *queue, const rank_##name *args)                             \
    {                                                                                              \
        queue->kernels->name(args);                                                                \
        queue_book(queue, RANK_PART_##part);                                                       \
    }

RANK_KERNELS(OPERATION)

static void cpu_product(rank_queue *queue, const rank_product *args)
{
    queue->kernels->product(args);
    queue_book(queue, args->a_row == 1 ? RANK_PART_PRODUCT_DW : RANK_PART_PRODUCT);
}

static void cpu_attention_grad(rank_queue *queue, const rank_attention *args)
{
    queue->kernels->attention_grad(args);
    queue_book(queue, RANK_PART_ATTENTION_GRAD);
}

/* For one head of one segment at a time. */
static size_t cpu_attention_scratch(const rank_attention_shape *shape)
{
    return rank_kernels_get()->attention_scratch(shape->head_width, shape->segment_max);
}

static size_t cpu_attention_cached_scratch(size_t head_width, size_t length_max)
{
    return rank_kernels_get()->attention_cached_scratch(head_width, length_max);
}

#define AND(name, part) , .name = cpu_##name

const rank_backend rank_cpu_backend = {
    .name = "cpu" RANK_KERNELS(AND),
    .rows_at_once = ROWS_AT_ONCE,
    .packs = true,
    .packs_narrow = true,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .set_profile = cpu_set_profile,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .adopt = cpu_adopt,
    .disown = cpu_disown,
    .map = cpu_map,
    .unmap = cpu_unmap,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .sync = cpu_sync,
    .stream = cpu_stream,
    .mark = cpu_mark,
    .after = cpu_after,
    .product = cpu_product,
    .rope_table = cpu_rope_table,
    .rope = cpu_rope,
    .add_bias = cpu_add_bias,
    .copy_heads = cpu_copy_heads,
    .sum_heads = cpu_sum_heads,
    .measure_loads = cpu_measure_loads,
    .router_loss = cpu_router_loss,
    .attention_scratch = cpu_attention_scratch,
    .attention_grad = cpu_attention_grad,
    .attention_cached_scratch = cpu_attention_cached_scratch,
    .gather_rows = cpu_gather_rows,
    .spread_rows = cpu_spread_rows,
    .sum_squares = cpu_sum_squares,
    .grad_scale = cpu_grad_scale,
    .column_sums = cpu_column_sums,
    .add = cpu_add,
    .scale = cpu_scale,
    .zero_parts = cpu_zero_parts,
    .digest = cpu_digest,
    .difference = cpu_difference,
};
