/* The queue of the CUDA backend: a stream, its memory and its first error. Private to the plugin. */
#ifndef RANK_BACKEND_CUDA_QUEUE_H
#define RANK_BACKEND_CUDA_QUEUE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "backend/backend.h"

enum {
    CUDA_EVENTS = 64,             /* marks that are told apart; older ones mean later points */
    CUDA_STAGING_BYTES = 4 << 20, /* pinned memory through which maps are copied */
    CUDA_LT_WORKSPACE_BYTES = 32 << 20, /* cublasLt's own, on each queue */
    CUDA_LT_PLANS = 128,                /* shapes of products whose algorithm is kept */
    CUDA_NAME_BYTES = 128,
    CUDA_PRODUCTS_BYTES = 8192, /* more lines are left out */
};

/* Memory that this queue gave or adopted. */
typedef struct cuda_block {
    struct cuda_block *next;
    char *memory;
    size_t size_bytes;
    rank_memory kind;
    bool registered; /* host memory that was pinned when it was adopted */
    bool host;       /* the host may touch it */
} cuda_block;

/* A copy of device memory that the host has. */
typedef struct cuda_mapping {
    struct cuda_mapping *next;
    void *host; /* a block of host memory itself, or a copy to free */
    void *device;
    size_t size_bytes;
    bool write;
    bool copied;
} cuda_mapping;

/* The algorithm of cublasLt for one shape: the first that its heuristic named. Never timed, so a
 * shape has one algorithm on one card with one version of the library. */
typedef struct cuda_lt_plan {
    rank_product shape; /* without addresses */
    uint32_t alignment; /* of a, b and c, bytes */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a;
    cublasLtMatrixLayout_t b;
    cublasLtMatrixLayout_t c;
    cublasLtMatmulAlgo_t algorithm;
} cuda_lt_plan;

/* How far the host is ahead: see pace.c. */
typedef struct cuda_pace {
    cudaEvent_t events[2]; /* recorded in turns */
    unsigned recorded;
    int operations; /* since the last one */
} cuda_pace;

struct rank_queue {
    int device;
    cudaStream_t stream;
    char kernels[CUDA_NAME_BYTES];
    cuda_block *blocks;
    cuda_mapping *mappings;
    void *staging;    /* pinned, CUDA_STAGING_BYTES */
    double *partials; /* CUDA_PARTIALS doubles on the device, and behind them: */
    unsigned *counts; /* CUDA_COUNTS */
    cudaEvent_t events[CUDA_EVENTS];
    unsigned next_event;
    cuda_pace pace;
    rank_graph *capturing; /* NULL: nothing */
    rank_waiter waiter;    /* NULL: none */
    void *waiter_user;
    /* cublasLt; NULL where all products are our own */
    cublasLtHandle_t lt;
    bool tf32; /* float32 operands are rounded to TF32 */
    void *lt_workspace;
    cuda_lt_plan *plans;
    size_t plan_count;
    size_t plan_oldest;                 /* of a full table, modulo its size */
    char products[CUDA_PRODUCTS_BYTES]; /* a line for each plan, as they were made */
    size_t products_bytes;
    /* the first error */
    base_status failed;
    base_error error;
};

/* ---- queue.c ---- */

/* Keeps the first error of CUDA; `what` was being done. Returns whether there is none. Each
 * operation is followed by it, so it also keeps the queue's pace. */
bool cuda_check(rank_queue *queue, cudaError_t error, const char *what);
/* The same for an error of another kind. */
void cuda_fail(rank_queue *queue, base_status status, const char *message);
/* Waits for the stream, through the waiter if there is one. Returns whether there is no error. */
bool cuda_await(rank_queue *queue);
/* An error of CUDA as ours. Returns the status. */
base_status cuda_explain(cudaError_t error, const char *what, base_error *reterr);

base_status cuda_open_exact(rank_queue **queue, base_error *reterr);
base_status cuda_open_fast(rank_queue **queue, base_error *reterr);
base_status cuda_open_tf32(rank_queue **queue, base_error *reterr);
void cuda_close(rank_queue *queue);
void cuda_info(rank_queue *queue, rank_backend_info *info);
base_status cuda_sync(rank_queue *queue, base_error *reterr);
void cuda_set_waiter(rank_queue *queue, rank_waiter waiter, void *user);
void *cuda_stream(rank_queue *queue);
rank_mark cuda_mark(rank_queue *queue);
void cuda_after(rank_queue *queue, rank_mark mark);

/* ---- pace.c ---- */

cudaError_t cuda_pace_open(rank_queue *queue);
void cuda_pace_close(rank_queue *queue);
/* Behind an operation: waits, through the waiter, if the host is too far ahead. */
void cuda_pace_keep(rank_queue *queue);

/* ---- memory.c ---- */

base_status cuda_alloc(rank_queue *queue, rank_memory kind, size_t size_bytes, void **memory,
                       base_error *reterr);
void cuda_release(rank_queue *queue, void *memory);
uint64_t cuda_free_bytes(rank_queue *queue);
/* Counts memory of this use, which was allocated (or, negative, freed). Any thread. */
void cuda_count_memory(rank_memory kind, int64_t bytes);
void cuda_memory_peak(rank_queue *queue, rank_memory_use *peak);
base_status cuda_adopt(rank_queue *queue, void *memory, size_t size_bytes, base_error *reterr);
void cuda_disown(rank_queue *queue, void *memory);
void cuda_copy(rank_queue *queue, void *to, const void *from, size_t size_bytes);
void cuda_zero(rank_queue *queue, void *memory, size_t size_bytes);
/* The block that has the address, or NULL. */
const cuda_block *cuda_find_block(const rank_queue *queue, const void *memory);

/* ---- map.c ---- */

base_status cuda_map(rank_queue *queue, void *memory, size_t size_bytes, bool write, void **host,
                     base_error *reterr);
void cuda_unmap(rank_queue *queue, void *host);
void cuda_digest(rank_queue *queue, const rank_digest *args);

/* ---- graph.c ---- */

base_status cuda_capture(rank_queue *queue, rank_graph **graph, base_error *reterr);
base_status cuda_capture_end(rank_queue *queue, base_error *reterr);
void cuda_replay(rank_queue *queue, rank_graph *graph);
void cuda_graph_destroy(rank_queue *queue, rank_graph *graph);
base_status cuda_signal_open(rank_queue *queue, bool timed, rank_signal **signal,
                             base_error *reterr);
void cuda_signal_close(rank_signal *signal);
void cuda_signal_set(rank_queue *queue, rank_signal *signal);
void cuda_signal_await(rank_queue *queue, rank_signal *signal);
int64_t cuda_signal_elapsed_ns(const rank_signal *from, const rank_signal *to);

/* ---- product.c ---- */

base_status cuda_lt_open(rank_queue *queue, base_error *reterr);
void cuda_lt_close(rank_queue *queue);
void cuda_product(rank_queue *queue, const rank_product *args);

/* ---- operations.c: one function for each operation of the table ---- */

void cuda_pack(rank_queue *queue, const rank_pack *args);
void cuda_embed(rank_queue *queue, const rank_embed *args);
void cuda_embed_packed(rank_queue *queue, const rank_embed_packed *args);
void cuda_embed_grad(rank_queue *queue, const rank_embed_grad *args);
void cuda_rmsnorm(rank_queue *queue, const rank_rmsnorm *args);
void cuda_add_bias(rank_queue *queue, const rank_add_bias *args);
void cuda_rope_table(rank_queue *queue, const rank_rope_table *args);
void cuda_rope(rank_queue *queue, const rank_rope *args);
void cuda_swiglu(rank_queue *queue, const rank_swiglu *args);
void cuda_rmsnorm_grad(rank_queue *queue, const rank_rmsnorm_grad *args);
void cuda_copy_heads(rank_queue *queue, const rank_shared_heads *args);
void cuda_sum_heads(rank_queue *queue, const rank_shared_heads *args);
void cuda_swiglu_grad(rank_queue *queue, const rank_swiglu_grad *args);
void cuda_layernorm(rank_queue *queue, const rank_layernorm *args);
void cuda_layernorm_grad(rank_queue *queue, const rank_layernorm_grad *args);
void cuda_gelu(rank_queue *queue, const rank_gelu *args);
void cuda_gelu_grad(rank_queue *queue, const rank_gelu_grad *args);
size_t cuda_attention_scratch(const rank_attention_shape *shape);
/* Fails the queue if heads are too wide. False: it has failed. */
bool cuda_heads_fit(rank_queue *queue, size_t head_width);
void cuda_attention(rank_queue *queue, const rank_attention *args);
void cuda_attention_grad(rank_queue *queue, const rank_attention *args);
size_t cuda_attention_cached_scratch(size_t head_width, size_t length_max);
void cuda_attention_cached(rank_queue *queue, const rank_attention_cached *args);
void cuda_cross_entropy(rank_queue *queue, const rank_cross_entropy *args);
void cuda_draw(rank_queue *queue, const rank_draw *args);
void cuda_gather_rows(rank_queue *queue, const rank_move_rows *args);
void cuda_spread_rows(rank_queue *queue, const rank_move_rows *args);
void cuda_adamw(rank_queue *queue, const rank_adamw *args);
void cuda_sum_squares(rank_queue *queue, const rank_sum_squares *args);
void cuda_grad_scale(rank_queue *queue, const rank_grad_scale *args);
void cuda_column_sums(rank_queue *queue, const rank_column_sums *args);
void cuda_add(rank_queue *queue, const rank_add *args);
void cuda_zero_parts(rank_queue *queue, const rank_zero_parts *args);
void cuda_cast(rank_queue *queue, const rank_cast *args);
void cuda_difference(rank_queue *queue, const rank_difference *args);

/* ---- fast.c: those that the backend `cuda` computes in an order of its own ---- */

void cuda_fast_embed(rank_queue *queue, const rank_embed *args);
void cuda_fast_embed_grad(rank_queue *queue, const rank_embed_grad *args);
void cuda_fast_layernorm(rank_queue *queue, const rank_layernorm *args);
void cuda_fast_layernorm_grad(rank_queue *queue, const rank_layernorm_grad *args);
void cuda_fast_gelu(rank_queue *queue, const rank_gelu *args);
void cuda_fast_gelu_grad(rank_queue *queue, const rank_gelu_grad *args);
size_t cuda_fast_attention_scratch(const rank_attention_shape *shape);
void cuda_fast_attention(rank_queue *queue, const rank_attention *args);
void cuda_fast_attention_grad(rank_queue *queue, const rank_attention *args);
void cuda_fast_cross_entropy(rank_queue *queue, const rank_cross_entropy *args);
void cuda_fast_gather_rows(rank_queue *queue, const rank_move_rows *args);
void cuda_fast_spread_rows(rank_queue *queue, const rank_move_rows *args);
void cuda_fast_sum_squares(rank_queue *queue, const rank_sum_squares *args);
void cuda_fast_column_sums(rank_queue *queue, const rank_column_sums *args);

#endif
