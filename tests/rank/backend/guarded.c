/* The CPU backend on memory that is protected between operations. Used by test_guarded.c to show
 * that models touch memory through the backend alone. */
#include "guarded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support.h"

enum { BLOCKS_MAX = 64, PAGE_BYTES = 4096 };

typedef struct guarded_block {
    void *memory;
    size_t size_bytes;
    bool is_open; /* host memory, or mapped */
} guarded_block;

struct rank_queue {
    rank_device cpu;
    guarded_block blocks[BLOCKS_MAX];
    guarded_counts counts;
};

static void protect(const rank_queue *queue, int how)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        const guarded_block *block = &queue->blocks[i];
        if (block->memory != NULL && !block->is_open) {
            assert_int_equal(mprotect(block->memory, block->size_bytes, how), 0);
        }
    }
}

static guarded_block *find(rank_queue *queue, const void *memory)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        if (queue->blocks[i].memory == memory) {
            return &queue->blocks[i];
        }
    }
    fail_msg("memory that this backend did not give");
    return NULL;
}

static base_status open_queue(rank_queue **queue, base_error *reterr)
{
    *queue = calloc(1, sizeof **queue);
    assert_non_null(*queue);
    return rank_device_open("cpu", &(*queue)->cpu, reterr);
}

static void close_queue(rank_queue *queue)
{
    if (queue != NULL) {
        assert_int_equal(queue->counts.allocs, 0);
        assert_int_equal(queue->counts.maps, 0);
        rank_device_close(&queue->cpu);
        free(queue);
    }
}

static void info(rank_queue *queue, rank_backend_info *found)
{
    (void)queue;
    *found = (rank_backend_info){.kernels = "guarded", .products = ""};
}

static base_status alloc(rank_queue *queue, rank_memory kind, size_t size_bytes, void **memory,
                         base_error *reterr)
{
    guarded_block *block = find(queue, NULL);
    (void)reterr;
    block->size_bytes = (size_bytes + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
    block->memory =
        mmap(NULL, block->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(block->memory != MAP_FAILED);
    memset(block->memory, 0xff, block->size_bytes); /* anything may be in it */
    block->is_open = kind == RANK_MEMORY_HOST;
    queue->counts.allocs++;
    *memory = block->memory;
    protect(queue, PROT_NONE);
    return BASE_OK;
}

static void release(rank_queue *queue, void *memory)
{
    if (memory == NULL) {
        return;
    }
    guarded_block *block = find(queue, memory);
    assert_int_equal(munmap(block->memory, block->size_bytes), 0);
    *block = (guarded_block){.memory = NULL};
    queue->counts.allocs--;
}

static base_status map(rank_queue *queue, void *memory, size_t size_bytes, bool write, void **host,
                       base_error *reterr)
{
    guarded_block *block = find(queue, memory);
    (void)reterr;
    assert_true(size_bytes <= block->size_bytes);
    assert_int_equal(
        mprotect(memory, block->size_bytes, write ? PROT_READ | PROT_WRITE : PROT_READ), 0);
    block->is_open = true;
    queue->counts.maps++;
    *host = memory;
    return BASE_OK;
}

static void unmap(rank_queue *queue, void *host)
{
    find(queue, host)->is_open = false;
    queue->counts.maps--;
    protect(queue, PROT_NONE);
}

static base_status sync_queue(rank_queue *queue, base_error *reterr)
{
    return queue->cpu.backend->sync(queue->cpu.queue, reterr);
}

static void *stream(rank_queue *queue)
{
    (void)queue;
    return NULL;
}

static rank_mark mark(rank_queue *queue)
{
    return queue->cpu.backend->mark(queue->cpu.queue);
}

static void after(rank_queue *queue, rank_mark passed)
{
    queue->cpu.backend->after(queue->cpu.queue, passed);
}

static void begin(rank_queue *queue)
{
    queue->counts.operations++;
    protect(queue, PROT_READ | PROT_WRITE);
}

static void end(rank_queue *queue)
{
    protect(queue, PROT_NONE);
}

#define OPERATION(name, type, counter)                                                             \
    static void do_##name(rank_queue *queue, const type *args)                                     \
    {                                                                                              \
        begin(queue);                                                                              \
        counter;                                                                                   \
        queue->cpu.backend->name(queue->cpu.queue, args);                                          \
        end(queue);                                                                                \
    }

OPERATION(pack, rank_pack, (void)0)
OPERATION(product, rank_product, queue->counts.products++)
OPERATION(embed, rank_embed, (void)0)
OPERATION(embed_packed, rank_embed_packed, (void)0)
OPERATION(embed_grad, rank_embed_grad, (void)0)
OPERATION(layernorm, rank_layernorm, (void)0)
OPERATION(layernorm_grad, rank_layernorm_grad, (void)0)
OPERATION(rmsnorm, rank_rmsnorm, (void)0)
OPERATION(add_bias, rank_add_bias, (void)0)
OPERATION(rope_table, rank_rope_table, (void)0)
OPERATION(rope, rank_rope, (void)0)
OPERATION(rmsnorm_grad, rank_rmsnorm_grad, (void)0)
OPERATION(copy_heads, rank_shared_heads, (void)0)
OPERATION(sum_heads, rank_shared_heads, (void)0)
OPERATION(swiglu, rank_swiglu, (void)0)
OPERATION(swiglu_grad, rank_swiglu_grad, (void)0)
OPERATION(gelu, rank_gelu, (void)0)
OPERATION(gelu_grad, rank_gelu_grad, (void)0)
OPERATION(attention, rank_attention, queue->counts.attentions++)
OPERATION(attention_grad, rank_attention, queue->counts.attentions++)
OPERATION(attention_cached, rank_attention_cached, queue->counts.attentions++)
OPERATION(cross_entropy, rank_cross_entropy, (void)0)
OPERATION(gather_rows, rank_move_rows, (void)0)
OPERATION(spread_rows, rank_move_rows, (void)0)
OPERATION(adamw, rank_adamw, queue->counts.adamws++)
OPERATION(sum_squares, rank_sum_squares, (void)0)
OPERATION(grad_scale, rank_grad_scale, (void)0)
OPERATION(column_sums, rank_column_sums, (void)0)
OPERATION(add, rank_add, (void)0)
OPERATION(zero_parts, rank_zero_parts, (void)0)
OPERATION(digest, rank_digest, (void)0)
OPERATION(difference, rank_difference, (void)0)

static void copy(rank_queue *queue, void *to, const void *from, size_t size_bytes)
{
    begin(queue);
    memcpy(to, from, size_bytes);
    end(queue);
}

static void zero(rank_queue *queue, void *memory, size_t size_bytes)
{
    begin(queue);
    memset(memory, 0, size_bytes);
    end(queue);
}

static size_t attention_scratch(const rank_attention_shape *shape)
{
    rank_device cpu;
    assert_int_equal(rank_device_open("cpu", &cpu, NULL), BASE_OK);
    const size_t floats = cpu.backend->attention_scratch(shape);
    rank_device_close(&cpu);
    return floats;
}

static size_t attention_cached_scratch(size_t head_width, size_t length_max)
{
    rank_device cpu;
    assert_int_equal(rank_device_open("cpu", &cpu, NULL), BASE_OK);
    const size_t floats = cpu.backend->attention_cached_scratch(head_width, length_max);
    rank_device_close(&cpu);
    return floats;
}

const rank_backend guarded_backend = {
    .name = "guarded",
    .rows_at_once = 48,
    .packs = true,
    .open = open_queue,
    .close = close_queue,
    .info = info,
    .alloc = alloc,
    .release = release,
    .map = map,
    .unmap = unmap,
    .copy = copy,
    .zero = zero,
    .sync = sync_queue,
    .stream = stream,
    .mark = mark,
    .after = after,
    .pack = do_pack,
    .product = do_product,
    .embed = do_embed,
    .embed_packed = do_embed_packed,
    .embed_grad = do_embed_grad,
    .layernorm = do_layernorm,
    .layernorm_grad = do_layernorm_grad,
    .rmsnorm = do_rmsnorm,
    .add_bias = do_add_bias,
    .rope_table = do_rope_table,
    .rope = do_rope,
    .rmsnorm_grad = do_rmsnorm_grad,
    .copy_heads = do_copy_heads,
    .sum_heads = do_sum_heads,
    .swiglu = do_swiglu,
    .swiglu_grad = do_swiglu_grad,
    .gelu = do_gelu,
    .gelu_grad = do_gelu_grad,
    .attention_scratch = attention_scratch,
    .attention = do_attention,
    .attention_grad = do_attention_grad,
    .attention_cached_scratch = attention_cached_scratch,
    .attention_cached = do_attention_cached,
    .cross_entropy = do_cross_entropy,
    .gather_rows = do_gather_rows,
    .spread_rows = do_spread_rows,
    .adamw = do_adamw,
    .sum_squares = do_sum_squares,
    .grad_scale = do_grad_scale,
    .column_sums = do_column_sums,
    .add = do_add,
    .zero_parts = do_zero_parts,
    .digest = do_digest,
    .difference = do_difference,
};

void guarded_open(rank_device *device)
{
    base_error error;
    device->backend = &guarded_backend;
    assert_ok(guarded_backend.open(&device->queue, &error), &error);
}

guarded_counts guarded_count(const rank_device *device)
{
    return device->queue->counts;
}
