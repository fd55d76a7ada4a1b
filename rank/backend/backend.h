/* A backend: the operations that a model is made of, and the memory they work on, as one table of
 * functions for each kind of device. The operations' arguments are in backend/operations.h.
 *
 * Addresses. Operations take plain pointers into the backend's own memory (alloc), or into memory
 * that it has adopted. All code may do arithmetic on them, but only the backend reads or writes
 * there. The exception is RANK_MEMORY_HOST: the host writes tables there before the operations that
 * read them, and reads results there after sync.
 *
 * Queues. Operations of one queue run in order. On the CPU a queue is a profile and an error, and
 * each operation has run when the call returns. On a GPU a queue is a stream, and a call only
 * enqueues. Marks order two queues. One thread at a time uses a queue; different queues may be used
 * at once.
 *
 * Errors. Operations return nothing and never allocate. The first error of a queue stays, the
 * operations after it do nothing, and sync reports it. */
#ifndef RANK_BACKEND_BACKEND_H
#define RANK_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/dropout.h"
#include "backend/experts.h"
#include "backend/operations.h"
#include "base/status.h"

enum {
    /* rises when the table or an argument struct changes: a plugin with another one is refused */
    RANK_BACKEND_ABI = 33,
};

typedef struct rank_queue rank_queue;
typedef struct rank_graph rank_graph;
typedef struct rank_signal rank_signal;   /* a mark that queues can use inside graphs */
typedef struct rank_profile rank_profile; /* backend/profile.h */

/* A point in a queue. When the mark is passed, everything before it has run. */
typedef struct rank_mark {
    uint64_t value;
} rank_mark;

/* The use of memory. A CPU backend may give huge pages to some, a GPU backend pinned or registered
 * memory. */
typedef enum rank_memory {
    RANK_MEMORY_WEIGHTS,     /* parameters */
    RANK_MEMORY_OPTIMIZER,   /* its state */
    RANK_MEMORY_ACTIVATIONS, /* what forward leaves for backward */
    RANK_MEMORY_WORK,        /* scratch, logits, gradients that stay on this rank */
    RANK_MEMORY_CACHE,       /* keys and values of decoded tokens */
    RANK_MEMORY_EXCHANGED,   /* what collectives send and receive */
    RANK_MEMORY_QUEUES,      /* what queues take for themselves; not for alloc */
    RANK_MEMORY_HOST,        /* tables and results, which the host uses too */
    RANK_MEMORY_KINDS,
} rank_memory;

/* Bytes of a device's memory by use (backend/memory_use.h). */
typedef struct rank_memory_use {
    uint64_t bytes[RANK_MEMORY_KINDS];
} rank_memory_use;

/* Waits until the queue's operations have ended, in place of the device's own wait, which has no
 * deadline. */
typedef base_status (*rank_waiter)(void *user, rank_queue *queue, base_error *reterr);

/* What the record has of a rank's arithmetic. Valid while the queue is. */
typedef struct rank_backend_info {
    const char *kernels; /* "avx512" */
    const char
        *products; /* a line for each shape that a library computes, with its algorithm; "" */
} rank_backend_info;

typedef struct rank_backend {
    const char *name; /* "cpu" */
    size_t
        rows_at_once; /* how many rows go through several operations together, so that they stay in
                       * the caches */

    bool attention_grad_reads_out; /* else attention_grad does not look at `out` */
    bool packs;                    /* products with many rows are faster if b was packed before */
    bool packs_narrow; /* packed matrices may be bfloat16, int8 or int4, beside arrays in float32 */
    /* Decoding keeps its matrices plain, as (columns, depth), and not packed: products of few rows
     * read them so. Sums of products then have an order of the backend's own. */
    bool plain_weights;
    bool product_gelu; /* products can end with GELU */

    base_status (*open)(rank_queue **queue, base_error *reterr);
    void (*close)(rank_queue *queue); /* after all its memory has been released; NULL is fine */
    void (*info)(rank_queue *queue, rank_backend_info *info);
    void (*set_profile)(rank_queue *queue, rank_profile *profile); /* NULL: none */

    /* Memory for operations. Its content is undefined. */
    base_status (*alloc)(rank_queue *queue, rank_memory kind, size_t size_bytes, void **memory,
                         base_error *reterr);
    void (*release)(rank_queue *queue, void *memory); /* NULL is fine */
    /* How much of the device's memory is free. NULL: the device's memory is the host's. */
    uint64_t (*free_bytes)(rank_queue *queue);
    /* The most that all queues of this process have had of each use so far. NULL: as above. */
    void (*memory_peak)(rank_queue *queue, rank_memory_use *peak);
    size_t queue_bytes; /* of the device's memory that each queue takes for itself */
    /* Makes foreign memory (a collective arena) usable for operations until it is disowned. */
    base_status (*adopt)(rank_queue *queue, void *memory, size_t size_bytes, base_error *reterr);
    void (*disown)(rank_queue *queue, void *memory);
    /* The content of `memory` for the host to read, or with `write` also to write. Waits for the
     * queue. A CPU gives the address itself, a GPU a copy that unmap writes back. */
    base_status (*map)(rank_queue *queue, void *memory, size_t size_bytes, bool write, void **host,
                       base_error *reterr);
    void (*unmap)(rank_queue *queue, void *host);
    void (*copy)(rank_queue *queue, void *to, const void *from, size_t size_bytes);
    void (*zero)(rank_queue *queue, void *memory, size_t size_bytes);

    /* Waits for all operations of the queue. Reports the first error and clears it. */
    base_status (*sync)(rank_queue *queue, base_error *reterr);
    /* From now on sync and map wait through the waiter first. If it fails they return its error, and
     * do not wait themselves. NULL: operations have run when they return. */
    void (*set_waiter)(rank_queue *queue, rank_waiter waiter, void *user);
    void *(*stream)(rank_queue *queue); /* what coll_op_desc.stream takes; NULL on the CPU */
    rank_mark (*mark)(rank_queue *queue);
    void (*after)(rank_queue *queue,
                  rank_mark mark); /* later operations wait for another queue's mark */
    /* Order between queues where graphs are: `set` may be in a graph, and `await` in another one. A
     * queue that awaits goes on when the last `set` before that call, or before its graph's replay,
     * has been passed. All of these are NULL if `capture` is. */
    base_status (*signal_open)(rank_queue *queue, bool timed, rank_signal **signal,
                               base_error *reterr);
    void (*signal_close)(rank_signal *signal); /* NULL is fine */
    void (*signal_set)(rank_queue *queue, rank_signal *signal);
    void (*signal_await)(rank_queue *queue, rank_signal *signal);
    /* From where `from` was passed last to where `to` was, by the device's clock; negative if that
     * was before. Both are timed, and may be of two queues, which have been waited for. -1 if one was
     * never passed. Does not wait. */
    int64_t (*signal_elapsed_ns)(const rank_signal *from, const rank_signal *to);
    /* NULL if a step cannot be captured. With it a GPU saves the launches of hundreds of
     * kernels. */
    base_status (*capture)(rank_queue *queue, rank_graph **graph, base_error *reterr);
    base_status (*capture_end)(rank_queue *queue, base_error *reterr);
    void (*replay)(rank_queue *queue, rank_graph *graph);
    void (*graph_destroy)(rank_queue *queue, rank_graph *graph); /* NULL is fine */

    void (*pack)(rank_queue *queue, const rank_pack *args);
    void (*product)(rank_queue *queue, const rank_product *args);
    void (*embed)(rank_queue *queue, const rank_embed *args);
    void (*embed_packed)(rank_queue *queue, const rank_embed_packed *args);
    void (*embed_grad)(rank_queue *queue, const rank_embed_grad *args);
    void (*layernorm)(rank_queue *queue, const rank_layernorm *args);
    void (*layernorm_grad)(rank_queue *queue, const rank_layernorm_grad *args);
    void (*rmsnorm)(rank_queue *queue, const rank_rmsnorm *args);
    void (*rmsnorm_grad)(rank_queue *queue, const rank_rmsnorm_grad *args);
    void (*add_bias)(rank_queue *queue, const rank_add_bias *args);
    void (*rope_table)(rank_queue *queue, const rank_rope_table *args);
    void (*rope)(rank_queue *queue, const rank_rope *args);
    void (*copy_heads)(rank_queue *queue, const rank_shared_heads *args);
    void (*sum_heads)(rank_queue *queue, const rank_shared_heads *args);
    void (*swiglu)(rank_queue *queue, const rank_swiglu *args);
    void (*swiglu_grad)(rank_queue *queue, const rank_swiglu_grad *args);
    /* Of experts. NULL, all of them, on a GPU: it has none. */
    void (*route)(rank_queue *queue, const rank_route *args);
    void (*route_grad)(rank_queue *queue, const rank_route_grad *args);
    void (*take_places)(rank_queue *queue, const rank_take_places *args);
    void (*add_places)(rank_queue *queue, const rank_add_places *args);
    void (*dot_places)(rank_queue *queue, const rank_dot_places *args);
    void (*weigh_places)(rank_queue *queue, const rank_weigh_places *args);
    void (*measure_loads)(rank_queue *queue, const rank_measure_loads *args);
    void (*router_loss)(rank_queue *queue, const rank_router_loss *args);
    void (*gelu)(rank_queue *queue, const rank_gelu *args);
    void (*gelu_grad)(rank_queue *queue, const rank_gelu_grad *args);
    /* Floats of scratch that attention and its gradient need. */
    size_t (*attention_scratch)(const rank_attention_shape *shape);
    void (*attention)(rank_queue *queue, const rank_attention *args);
    void (*attention_grad)(rank_queue *queue, const rank_attention *args);
    /* Floats of scratch that sequences of at most length_max tokens need. */
    size_t (*attention_cached_scratch)(size_t head_width, size_t length_max);
    void (*attention_cached)(rank_queue *queue, const rank_attention_cached *args);
    void (*cross_entropy)(rank_queue *queue, const rank_cross_entropy *args);
    void (*draw)(rank_queue *queue, const rank_draw *args); /* NULL: the host draws */
    void (*gather_rows)(rank_queue *queue, const rank_move_rows *args);
    void (*spread_rows)(rank_queue *queue, const rank_move_rows *args);
    void (*adamw)(rank_queue *queue, const rank_adamw *args);
    void (*sum_squares)(rank_queue *queue, const rank_sum_squares *args);
    /* The two parts of it, for values that ranks share. NULL on a GPU. */
    void (*largest)(rank_queue *queue, const rank_largest *args);
    void (*add_squares)(rank_queue *queue, const rank_add_squares *args);
    void (*grad_scale)(rank_queue *queue, const rank_grad_scale *args);
    void (*column_sums)(rank_queue *queue, const rank_column_sums *args);
    void (*dropout)(rank_queue *queue, const rank_dropout *args); /* NULL on a GPU: it has none */
    void (*add)(rank_queue *queue, const rank_add *args);
    void (*scale)(rank_queue *queue, const rank_scale *args); /* NULL on a GPU */
    void (*zero_parts)(rank_queue *queue, const rank_zero_parts *args);
    /* NULL: the backend has float32 only. */
    void (*cast)(rank_queue *queue, const rank_cast *args);
    void (*digest)(rank_queue *queue, const rank_digest *args);
    void (*difference)(rank_queue *queue, const rank_difference *args);
} rank_backend;

/* A backend and one of its queues. All code above a backend gets this. */
typedef struct rank_device {
    const rank_backend *backend;
    rank_queue *queue;
} rank_device;

/* Opens a queue of the backend called `name`. BASE_ERR_NOTFOUND if there is none. */
BASE_MUST_CHECK base_status rank_device_open(const char *name, rank_device *device,
                                             base_error *reterr);

/* The same, of backends that a plugin offers; NULL ends the table. */
BASE_MUST_CHECK base_status rank_device_open_of(const rank_backend *const *backends,
                                                const char *name, rank_device *device,
                                                base_error *reterr);

/* Closes the queue, after all its memory was released. A device of zeros is fine. */
void rank_device_close(rank_device *device);

#endif
