/* The operations that a model is made of, and the memory they work on: one table of functions for
 * each kind of device.
 *
 * Addresses. Operations take plain pointers into the backend's own memory (alloc), or into memory
 * that it has adopted. All code may do arithmetic on them, but only the backend reads or writes
 * there. The exception is RANK_MEMORY_HOST: the host writes tables there before the operations that
 * read them, and reads results there after sync.
 *
 * Queues. Operations of one queue run in order. On the CPU a queue is a profile and an error, and
 * each operation has run when the call returns. On a GPU a queue is a stream, and a call only
 * enqueues. Marks order two queues.
 *
 * Arguments. A value that stays the same from step to step (shapes, addresses) is an argument. A
 * value that changes (learning rate, step number) is read from an address, and results (losses,
 * norms) are written to an address. So a GPU can capture a step once and replay it.
 *
 * Errors. Operations return nothing and never allocate. The first error of a queue stays, the
 * operations after it do nothing, and sync reports it.
 *
 * Arrays are row-major float32 without padding unless an argument says otherwise. T = tokens, C =
 * width, V = vocabulary, H = heads, D = width of one head. Sums run in a fixed order: same
 * arguments, same bits. One thread at a time uses a queue; different queues may be used at once.
 *
 * Types. Where an argument names the type of an array, its address is void, and zero is float32.
 * Arithmetic and sums are float32 whatever the arrays are. Only a backend with `cast` takes other
 * types than float32; whoever asks another one for them has made a mistake. */
#ifndef RANK_BACKEND_BACKEND_H
#define RANK_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    RANK_BACKEND_ABI = 13,  /* rises when the table or an argument struct changes */
    RANK_NORM_BLOCK = 1024, /* elements in one partial sum of sum_squares */
    RANK_DIGEST_BYTES = 32, /* BLAKE2b-256 */
};

typedef struct rank_queue rank_queue;
typedef struct rank_graph rank_graph;
typedef struct rank_signal rank_signal;   /* a mark that queues can use inside graphs */
typedef struct rank_profile rank_profile; /* backend/profile.h */

/* The type of an array's elements. */
typedef enum rank_type {
    RANK_FLOAT32,
    RANK_BFLOAT16, /* a float32 without the lower half of its bits */
} rank_type;

typedef uint16_t rank_bfloat16; /* the upper half of a float32's bits */

static inline size_t rank_type_bytes(rank_type type)
{
    return type == RANK_BFLOAT16 ? 2 : 4;
}

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

enum {
    RANK_PANEL = 32,      /* columns of a packed matrix that are stored together */
    RANK_LEAVES_MAX = 16, /* of a product's sum */
};

/* A matrix (depth, columns) is packed as panels of RANK_PANEL columns, one after the other, each
 * (depth, RANK_PANEL), with zeros behind the last column. So many floats: */
static inline size_t rank_pack_count(size_t depth, size_t columns)
{
    return (columns + RANK_PANEL - 1) / RANK_PANEL * RANK_PANEL * depth;
}

/* Packs rows of a matrix, or its columns from a multiple of RANK_PANEL on. */
typedef struct rank_pack {
    size_t depth; /* rows that are packed now */
    size_t columns;
    const float *from;
    size_t from_row; /* floats from one row of `from` to the next */
    bool transposed; /* from is (columns, depth) */
    void *to;        /* the first of these rows, in the first of these panels */
    size_t to_panel; /* floats from one panel to the next: the matrix's depth × RANK_PANEL */
    size_t
        to_row; /* 0: panels. Else there are none: `to` is (columns, depth), with so many elements
                      from one column to the next */
    rank_type to_type; /* bfloat16 with to_row only: elements are rounded as cast rounds them */
} rank_pack;

/* c (rows, columns) = a (rows, depth) · b; or, with accumulate, c += it.
 *
 * Each element of c is one chain of fused multiply-adds in the order of depth, from 0 or from what
 * stands in c. With more leaves than one (accumulate is not set then), depth is cut into so many
 * equal parts; each has a chain of its own, and they are added up as a balanced binary tree. So the
 * bits depend on the row of a, the column of b and the leaves alone: not on the other rows and
 * columns, and on the CPU not on the instruction set, but for the baseline's, which has no fused
 * multiply-add.
 *
 * With a library's products (backend `cuda`) the order is the library's, whatever the leaves. a and b
 * are of one type, and bfloat16 only where b is not packed. With plain_weights a may be float32 and b bfloat16, if b is transposed and
 * nothing is accumulated: few rows keep float32, many are rounded to bfloat16 in the scratch, which
 * then has room for rows · depth of them. */
typedef struct rank_product {
    size_t rows;
    size_t columns;
    size_t depth;
    const void *a; /* element (row, k) at row·a_row + k·a_depth; one of the two is 1 */
    rank_type a_type;
    size_t a_row;
    size_t a_depth;
    const void *b;
    rank_type b_type;
    size_t b_row;      /* 0: b is packed. Else it is (depth, columns), with so many floats from one
                          row to the next, and leaves is 1 if the backend packs */
    bool b_transposed; /* with b_row: it is (columns, depth) */
    float *scratch;    /* rank_pack_count(depth, columns) floats to pack b in, or NULL: with them, a
                          large b that is not packed is faster */
    void *c;           /* element (row, column) at row·c_row + column */
    rank_type c_type;
    size_t c_row;
    int leaves; /* a power of two up to RANK_LEAVES_MAX that divides depth */
    bool accumulate;
} rank_product;

/* out (T, C) = wte[ids] + wpe[positions] for ids in [first_id, first_id + columns), zeros for
 * others. wte is the output matrix, so that it is held once: packed, as (C, columns), or plain. */
typedef struct rank_embed_packed {
    size_t tokens;
    size_t width;
    const int32_t *ids;       /* (T) */
    const int32_t *positions; /* (T) */
    int32_t first_id;
    int32_t columns;
    const void *wte;
    const float *wpe; /* (context, C) */
    float *out;       /* (T, C) */
    size_t wte_row;   /* 0: wte is packed. Else it is (columns, C), with so many floats from one row
                         to the next */
    rank_type wte_type; /* bfloat16 with wte_row only */
} rank_embed_packed;

/* out (T, C) = wte[ids] + wpe[positions] */
typedef struct rank_embed {
    size_t tokens;
    size_t width;
    const int32_t *ids;       /* (T) */
    const int32_t *positions; /* (T) */
    const float *wte;         /* (V, C) */
    const float *wpe;         /* (context, C) */
    float *out;               /* (T, C) */
} rank_embed;

/* dwte[ids] += dx, dwpe[positions] += dx, in token order. */
typedef struct rank_embed_grad {
    size_t tokens;
    size_t width;
    const int32_t *ids;
    const int32_t *positions;
    const float *dx; /* (T, C) */
    float *dwte;     /* (V, C), added to */
    float *dwpe;     /* (context, C), added to */
} rank_embed_grad;

/* Residual and layer norm in one pass: x += residual + residual_bias, then
 * out = (x - mean(x)) · rstd(x) · weight + bias, row by row, epsilon 1e-5. */
typedef struct rank_layernorm {
    size_t rows;
    size_t width;
    float *x;                     /* (rows, C); changed only with a residual */
    const float *residual;        /* (…, C) or NULL */
    const float *residual_bias;   /* (C), with residual */
    const int32_t *residual_rows; /* (rows): the row of residual for each row; NULL: the same */
    const float *weight;          /* (C) */
    const float *bias;            /* (C) */
    void *out;                    /* (rows, C); NULL: only x is made */
    float *mean;                  /* (rows) */
    float *rstd;                  /* (rows) */
    rank_type type;               /* of out */
} rank_layernorm;

/* dx = (keep ? dx : 0) + the layer norm's backward of dout. */
typedef struct rank_layernorm_grad {
    size_t rows;
    size_t width;
    bool keep;
    const float *x;    /* (rows, C) */
    const float *mean; /* (rows) */
    const float *rstd; /* (rows) */
    const float *weight;
    const float *dout; /* (rows, C) */
    float *dx;         /* (rows, C) */
    float *dweight;    /* (C), added to */
    float *dbias;      /* (C), added to */
    float *dx_sum;     /* (C), the column sums of dx are added; or NULL */
} rank_layernorm_grad;

/* x += bias; out = gelu(x), the tanh form. */
typedef struct rank_gelu {
    size_t rows;
    size_t width;
    const float *bias; /* (width) */
    void *x;           /* (rows, width) */
    void *out;         /* (rows, width) */
    rank_type type;    /* of x and out */
} rank_gelu;

/* d *= gelu'(x), x = gelu(x), dbias += the column sums of d. */
typedef struct rank_gelu_grad {
    size_t rows;
    size_t width;
    void *x;        /* (rows, width) */
    void *d;        /* (rows, width) */
    float *dbias;   /* (width), added to */
    rank_type type; /* of x and d */
} rank_gelu_grad;

/* The largest call of attention that scratch is made for. */
typedef struct rank_attention_shape {
    size_t tokens; /* of all segments of a call */
    size_t heads;
    size_t head_width;
    size_t segment_max; /* no segment is longer */
} rank_attention_shape;

/* Causal attention of flat tokens that are cut into segments. A segment may be empty. */
typedef struct rank_attention {
    size_t width;
    size_t heads;
    size_t segment_count;
    const int32_t *segment_start; /* (segment_count + 1) */
    size_t rows;                  /* of all segments: what the last of segment_start is after the
                                   * first */
    size_t segment_max;           /* no segment is longer; the scratch is made for it */
    rank_type type;               /* of qkv, out and dqkv */
    const void *qkv;              /* (T, 3C): q, k and v, without bias */
    const float *bias;            /* (3C) */
    void *out;                    /* (T, C), written by forward, read by backward; rows
                                   * whose dout is zero may be anything finite by then */
    float *row_max;               /* (T, H), written by forward, read by backward */
    float *row_scale;             /* (T, H), the same: 1 / the sum of the exponentials */
    const float *dout;            /* (T, C), for backward */
    void *dqkv;                   /* (…, 3C), written by backward */
    size_t dqkv_first;            /* the token of dqkv's first row */
    float *dbias;                 /* (3C), added to by backward */
    float *scratch;               /* attention_scratch floats */
} rank_attention;

/* Causal attention of new tokens over a cache in blocks. Sequence s has lengths[s] tokens in the
 * cache, and the rows row_start[s] … row_start[s+1] are its next ones: their keys and values are
 * put into the cache, behind what is there, and each row attends to all of its sequence up to
 * itself. A sequence of length -1 is padding: its rows become zero, and the cache is not touched. A row's result depends on its sequence alone: not on the other sequences, nor on how many
 * rows come at once.
 *
 * D = head_width. heads is a multiple of kv_heads; query heads h·heads/kv_heads … share the keys
 * and values of head h. */
typedef struct rank_attention_cached {
    size_t heads;
    size_t kv_heads;
    size_t head_width;
    size_t sequence_count;
    const int32_t *row_start;   /* (sequence_count + 1) */
    const int32_t *lengths;     /* (sequence_count) */
    const int32_t *block_table; /* (sequence_count, table_width): its blocks, in order */
    size_t table_width;
    size_t block_tokens;
    size_t length_max;    /* no sequence becomes longer; the scratch is made for it */
    const float *qkv;     /* (rows, heads·D + 2·kv_heads·D): q, k and v, without bias */
    const float *bias;    /* (heads·D + 2·kv_heads·D); NULL: none */
    void *keys;           /* (blocks, kv_heads, D, block_tokens): a block's tokens side by side */
    void *values;         /* (blocks, kv_heads, block_tokens, D) */
    rank_type cache_type; /* of keys and values, which are rounded when they are put there */
    float *out;           /* (rows, heads·D) */
    float *scratch;       /* attention_cached_scratch floats */
    size_t rows;          /* row_start[sequence_count], which the host may not be able to read */
    bool one_row_each;    /* every sequence has one row */
} rank_attention_cached;

/* Softmax and cross entropy. */
typedef struct rank_cross_entropy {
    size_t rows;
    size_t vocab_size;
    const int32_t *targets; /* (rows); a row with target -1 has no loss, and its gradient is zero */
    float *logits;          /* (rows, V); becomes the gradient of the loss sum with want_gradient */
    bool want_gradient;
    double *loss; /* the rows' losses are added, natural logarithm */
} rank_cross_entropy;

/* The k largest of each row, falling; the lowest index wins a tie. */
typedef struct rank_best {
    size_t rows;
    size_t columns;
    size_t k; /* 1 … columns */
    const float *values;
    int32_t *index; /* (rows, k) */
    float *value;   /* (rows, k); NULL: not wanted */
} rank_best;

/* How a token is drawn of one row of logits. */
typedef struct rank_draw_row {
    double inverse;  /* 1 / temperature; 0: the largest logit wins, without noise */
    uint64_t stream; /* of the noise (generate/noise.h) */
} rank_draw_row;

/* What was drawn. */
typedef struct rank_drawn {
    float logit;
    int32_t index;   /* -1: none, every logit is -infinity */
    int32_t refused; /* the lowest index of a logit that is no number or +infinity; -1: none */
} rank_drawn;

/* Of each row of logits the one with the largest logit · inverse + noise, the lowest index of
 * equals. The bits are those of generate/sample.c. */
typedef struct rank_draw {
    size_t rows;
    size_t columns;    /* >= 1: of a row, without padding */
    size_t row_floats; /* floats from one row to the next */
    const float *values;
    int32_t first_token;     /* the id of column 0, for the noise */
    const rank_draw_row *of; /* (rows), in RANK_MEMORY_HOST */
    rank_drawn *drawn;       /* (rows), in RANK_MEMORY_HOST */
} rank_draw;

/* Moves rows of an array together, or apart with zeros between them; in place. `rows` ascends. */
typedef struct rank_move_rows {
    size_t count; /* of rows listed */
    size_t total; /* rows of the array when they are apart */
    size_t width;
    const int32_t *rows; /* (count): their positions when they are apart */
    float *at;
} rank_move_rows;

/* The values that do not change from step to step. Doubles, as in PyTorch. A step's constants are
 * rounded to float32 once. */
typedef struct rank_adamw_config {
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
} rank_adamw_config;

/* The values that change. */
typedef struct rank_adamw_step {
    int64_t step; /* from 1 */
    double learning_rate;
    float grad_scale; /* 1/tokens and the clipping factor, multiplied */
} rank_adamw_step;

/* AdamW with decoupled weight decay (Loshchilov and Hutter 2019) on a range of the parameters. The
 * arithmetic is PyTorch's, element by element: results do not depend on how parameters are cut into
 * ranges. */
typedef struct rank_adamw {
    const rank_adamw_config *config;
    const rank_adamw_step *step; /* address */
    bool decay;                  /* weight decay applies to this range */
    size_t count;
    float *params;
    const float *grads;
    float *first; /* the moments, zero before step 1 */
    float *second;
    rank_bfloat16 *rounded; /* the new parameters, rounded as by cast; NULL: not wanted */
} rank_adamw;

/* to = from in bfloat16, rounded to nearest, ties to even. NaN stays NaN. */
typedef struct rank_cast {
    size_t count;
    const float *from;
    void *to;
} rank_cast;

/* *sum = the sum of squares in double, over fixed blocks of RANK_NORM_BLOCK elements in order. */
typedef struct rank_sum_squares {
    const float *values;
    size_t count;
    double *sum;
} rank_sum_squares;

/* *norm = the norm of the mean gradient, sqrt(*sum_squares) / *tokens. *scale = the factor for
 * summed gradients: 1 / *tokens, and less if the norm is above norm_max (0: never). */
typedef struct rank_grad_scale {
    const double *sum_squares;
    const double *tokens;
    double norm_max;
    double *norm;
    float *scale;
} rank_grad_scale;

/* sums (columns) += the column sums of from, row by row. */
typedef struct rank_column_sums {
    size_t rows;
    size_t columns;
    const float *from;
    float *sums;
} rank_column_sums;

/* to += from. */
typedef struct rank_add {
    size_t count;
    const float *from;
    float *to;
} rank_add;

/* digest (RANK_DIGEST_BYTES) = BLAKE2b-256 of the bytes. */
typedef struct rank_digest {
    const void *at;
    size_t size_bytes;
    uint8_t *digest;
} rank_digest;

/* Whether two arrays are equal byte for byte, and if not the largest |a - b|. NaN counts as
 * largest. */
typedef struct rank_difference {
    const float *a;
    const float *b;
    size_t count;
    bool *equal;
    double *largest;
} rank_difference;

typedef struct rank_backend {
    uint32_t abi;        /* RANK_BACKEND_ABI: a plugin of another one is refused */
    uint32_t size_bytes; /* of this table */
    const char *name;    /* "cpu" */
    size_t
        rows_at_once; /* how many rows go through several operations together, so that they stay in
                       * the caches */

    bool packs; /* products with many rows are faster if b was packed before */
    /* Decoding keeps its matrices plain, as (columns, depth), and not packed: products of few rows
     * read them so. Sums of products then have an order of the backend's own. */
    bool plain_weights;

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
     * has been passed. All four are NULL if `capture` is. */
    base_status (*signal_open)(rank_queue *queue, rank_signal **signal, base_error *reterr);
    void (*signal_close)(rank_signal *signal); /* NULL is fine */
    void (*signal_set)(rank_queue *queue, rank_signal *signal);
    void (*signal_await)(rank_queue *queue, rank_signal *signal);
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
    void (*best)(rank_queue *queue, const rank_best *args);
    void (*draw)(rank_queue *queue, const rank_draw *args); /* NULL: the host draws */
    void (*gather_rows)(rank_queue *queue, const rank_move_rows *args);
    void (*spread_rows)(rank_queue *queue, const rank_move_rows *args);
    void (*adamw)(rank_queue *queue, const rank_adamw *args);
    void (*sum_squares)(rank_queue *queue, const rank_sum_squares *args);
    void (*grad_scale)(rank_queue *queue, const rank_grad_scale *args);
    void (*column_sums)(rank_queue *queue, const rank_column_sums *args);
    void (*add)(rank_queue *queue, const rank_add *args);
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
