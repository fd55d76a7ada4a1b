/* The arguments of a backend's operations: one struct for each function of the table in backend/backend.h, and the
 * types in them.
 *
 * A value that stays the same from step to step (shapes, addresses) is an argument. A value that changes (learning
 * rate, step number) is read from an address, and results (losses, norms) are written to an address. So a GPU can
 * capture a step once and replay it.
 *
 * Arrays are row-major float32 without padding unless an argument says otherwise. T = tokens, C = width, V =
 * vocabulary, H = heads, D = width of one head. Sums run in a fixed order: same arguments, same bits.
 *
 * Types. Where an argument names the type of an array, its address is void, and zero is float32. Arithmetic and
 * sums are float32 whatever the arrays are. Only a backend with `cast` takes other types than float32, and one with
 * `packs_narrow` packed matrices in bfloat16, int8 or int4; whoever asks another one for them has made a mistake. */
#ifndef RANK_BACKEND_OPERATIONS_H
#define RANK_BACKEND_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/attention.h"
#include "backend/draw.h"
#include "backend/product.h"
#include "backend/squares.h"

#ifdef __CUDACC__
#define RANK_OPERATIONS_INLINE __host__ __device__ static inline
#else
#define RANK_OPERATIONS_INLINE static inline
#endif

enum {
    RANK_DIGEST_BYTES = 32,    /* BLAKE2b-256 */
    RANK_ROPE_PAIRS_MAX = 256, /* half of the widest head that is rotated */
    RANK_BIAS_PARTS = 3,       /* of one add_bias: queries, keys and values */
};

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
    const float *wpe; /* (context, C); NULL: none is added */
    float *out;       /* (T, C) */
    size_t wte_row;   /* 0: packed. Else wte is (columns, C), with so many floats from row to row */
    rank_type wte_type; /* bfloat16 with wte_row; or as with packs_narrow, but for int4 */
} rank_embed_packed;

/* out (T, C) = wte[ids] + wpe[positions]; wpe NULL: wte[ids]. */
typedef struct rank_embed {
    size_t tokens;
    size_t width;
    const int32_t *ids;       /* (T) */
    const int32_t *positions; /* (T) */
    const float *wte;         /* (V, C) */
    const float *wpe;         /* (context, C) or NULL */
    float *out;               /* (T, C) */
    int32_t first_id;         /* wte has only id_count ids from it on: out is zero for others */
    int32_t id_count;         /* 0: all; another number only on the CPU */
} rank_embed;

/* dwte[ids] += dx, dwpe[positions] += dx, in token order. dwpe NULL: dwte alone. */
typedef struct rank_embed_grad {
    size_t tokens;
    size_t width;
    const int32_t *ids;
    const int32_t *positions;
    const float *dx;  /* (T, C) */
    float *dwte;      /* (V, C), added to */
    float *dwpe;      /* (context, C), added to; or NULL */
    int32_t first_id; /* as in rank_embed: rows of other ids are added to dwpe alone */
    int32_t id_count;
} rank_embed_grad;

/* Whether a part of the embedding has this id. */
static inline bool rank_embed_has(int32_t id, int32_t first_id, int32_t id_count)
{
    return id_count == 0 || (id >= first_id && id - first_id < id_count);
}

/* Residual and layer norm in one pass: x += residual + residual_bias, then
 * out = (x - mean(x)) · rstd(x) · weight + bias, row by row, epsilon 1e-5. */
typedef struct rank_layernorm {
    size_t rows;
    size_t width;
    float *x;                     /* (rows, C); changed only with a residual */
    const float *residual;        /* (…, C) or NULL */
    const float *residual_bias;   /* (C), with residual; NULL, on the CPU: none */
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
    const float *dout;      /* (rows, C) */
    float *dx;              /* (rows, C) */
    float *dweight;         /* (C), added to; NULL, on the CPU: not wanted */
    float *dbias;           /* (C), added to; or NULL as well */
    float *dx_sum;          /* (C), the column sums of dx are added; or NULL */
    rank_bfloat16 *rounded; /* (rows, C): dx, rounded as by cast; NULL: not wanted */
} rank_layernorm_grad;

/* Vectors that stand side by side in a row of an array, each of which is normed by itself: heads. */
typedef struct rank_side_by_side {
    size_t count; /* 0: one, in rows without gaps */
    size_t row;   /* floats from one row to the next; not read if count is 0 */
} rank_side_by_side;

static inline size_t rank_vector_count(const rank_side_by_side *heads, size_t rows)
{
    return heads->count > 0 ? rows * heads->count : rows;
}

/* Where a vector begins. */
RANK_OPERATIONS_INLINE size_t rank_vector_at(const rank_side_by_side *heads, size_t vector,
                                             size_t width)
{
    return heads->count > 0 ? vector / heads->count * heads->row + vector % heads->count * width
                            : vector * width;
}

/* Residual and RMS norm in one pass (Zhang and Sennrich 2019): x += residual, then
 * out = x / sqrt(mean(x²) + epsilon) · weight, row by row; or · (1 + weight), as in Gemma. */
typedef struct rank_rmsnorm {
    size_t rows;
    size_t width;
    float epsilon;
    float *x;                     /* (rows, C); changed only with a residual */
    const float *residual;        /* (…, C) or NULL */
    const int32_t *residual_rows; /* (rows): the row of residual for each row; NULL: the same */
    const float *weight;          /* (C) */
    bool one_more;                /* · (1 + weight); only on the CPU */
    float *out;                   /* (rows, C), may be x; NULL: only x is made */
    float *rstd;                  /* (rows): 1 / sqrt(mean(x²) + epsilon); NULL: not wanted */
    rank_side_by_side heads; /* in rows of x and of out, without residual; rstd is (rows, heads) */
    float *before;           /* (rows, heads, C): x, for backward, if out is x; NULL: not wanted */
} rank_rmsnorm;

/* dx = (keep ? dx : 0) + the RMS norm's backward of dout. */
typedef struct rank_rmsnorm_grad {
    size_t rows;
    size_t width;
    bool keep;
    const float *x;    /* (rows, C) */
    const float *rstd; /* (rows) */
    const float *weight;
    bool one_more;     /* the norm multiplies by 1 + weight; only on the CPU */
    const float *dout; /* (rows, C) */
    float *dx;         /* (rows, C); may be dout, without keep */
    float *dweight; /* (C), added to; with heads (heads, C): each head's part; or NULL as above */
    rank_side_by_side heads; /* in rows of dout and dx; x is (rows, heads, C), rstd (rows, heads) */
} rank_rmsnorm_grad;

/* Adds vectors to the columns of rows, in place: bias[0] to the first columns[0], bias[1] behind them, and so on. */
typedef struct rank_add_bias {
    size_t rows;
    size_t columns[RANK_BIAS_PARTS]; /* 0: no such part */
    const float *bias[RANK_BIAS_PARTS];
    float *at;
    size_t at_row; /* floats from one row to the next */
} rank_add_bias;

static inline size_t rank_bias_columns(const rank_add_bias *args)
{
    return args->columns[0] + args->columns[1] + args->columns[2];
}

/* Cosines and sines of the angles by which rope turns pairs: of each row position · frequency, rounded, and then times scale. */
typedef struct rank_rope_table {
    size_t rows;
    const int32_t *positions;             /* (rows) */
    size_t pairs;                         /* at most RANK_ROPE_PAIRS_MAX */
    float frequency[RANK_ROPE_PAIRS_MAX]; /* (pairs), in radians for each position */
    float scale;
    float *table; /* (rows, 2, pairs): cosines, then sines */
} rank_rope_table;

/* Rotary position embedding (Su et al. 2021), in place: of each of the first `heads` heads of a row, elements i and
 * i + pairs are turned by the row's angle i. What is behind these stays. */
typedef struct rank_rope {
    size_t rows;
    size_t heads;
    size_t head_width;
    size_t pairs; /* at most half of head_width */
    const float *table;
    float *at;     /* (rows, …): heads side by side from a row's begin on */
    size_t at_row; /* floats from one row to the next */
    bool back;     /* turned by the negative angle: the gradient */
} rank_rope;

/* Rows of 3·heads·D floats, for attention whose query heads share heads of keys and values (Ainslie et al. 2023), in
 * place. copy_heads: a row has q (heads·D), k and v (kv_heads·D) side by side; each head of k and of v becomes
 * heads/kv_heads equal ones. sum_heads is its gradient: it adds those up, from the first one on. What is behind the
 * row's results is undefined. */
typedef struct rank_shared_heads {
    size_t rows;
    size_t heads; /* a multiple of kv_heads, and more than it */
    size_t kv_heads;
    size_t head_width; /* D */
    float *at;         /* (rows, 3·heads·D) */
} rank_shared_heads;

/* out = silu(gate) · up, silu(x) = x / (1 + exp(-x)), the gated linear unit (Shazeer 2020); or gelu(gate) · up. */
typedef struct rank_swiglu {
    size_t rows;
    size_t width;
    const float *gate; /* (rows, width) */
    const float *up;   /* (rows, width) */
    size_t row;        /* floats from one row of gate, or of up, to the next */
    float *out;        /* (rows, width) without gaps; may be gate if that has none */
    bool gelu;         /* in the tanh form; only on the CPU */
} rank_swiglu;

/* Its gradient, in place: gate and up become theirs, and d, which was that of out, becomes out. */
typedef struct rank_swiglu_grad {
    size_t rows;
    size_t width;
    float *gate;
    float *up;
    size_t row; /* as above */
    float *d;   /* (rows, width) */
    bool gelu;  /* as above */
} rank_swiglu_grad;

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
    float *dbias;   /* (width), added to; NULL, on the CPU: not wanted */
    rank_type type; /* of x and d */
} rank_gelu_grad;

/* What of a cross entropy is computed. Ranks that share the columns of the logits exchange something between the steps, in this order. */
typedef enum rank_loss_step {
    RANK_LOSS_WHOLE,
    RANK_LOSS_LARGEST, /* largest[row], of these columns; its maximum over the ranks comes next */
    RANK_LOSS_SUM, /* logits become exponentials; sum[row] and target[row], 0 if it is not here; both
                           are then added up over the ranks */
    RANK_LOSS_GRADIENT, /* the losses, and the gradient */
} rank_loss_step;

typedef struct rank_loss_shared {
    rank_loss_step step; /* all but the first only on the CPU */
    int32_t first_id;    /* of these columns; targets are ids of the whole vocabulary */
    float *largest;      /* (rows) */
    float *sum;          /* (rows) */
    float *target;       /* (rows) */
} rank_loss_shared;

/* Softmax and cross entropy. On the CPU the sum of a row's exponentials is a balanced tree over leaves, and the rows'
 * losses are added one after the other, however many rows come at once. */
typedef struct rank_cross_entropy {
    size_t rows;
    size_t vocab_size;
    const int32_t *targets; /* (rows); a row with target -1 has no loss, and its gradient is zero */
    float *logits;          /* (rows, V); becomes the gradient of the loss sum with want_gradient */
    bool want_gradient;
    double *loss;      /* the rows' losses are added, natural logarithm */
    size_t row_floats; /* from one row of logits to the next; what lies between is not touched. 0:
                          vocab_size */
    rank_bfloat16 *rounded; /* with want_gradient: it goes here, rounded as by cast, in rows as far
                             * apart with zeros in between, and logits stay. NULL: it does not */
    int leaves;             /* a power of two up to RANK_LEAVES_MAX; 0: one */
    size_t leaf_columns;    /* of each leaf but the last ones, which may be shorter or empty */
    rank_loss_shared shared;
} rank_cross_entropy;

static inline size_t rank_logit_row(const rank_cross_entropy *args)
{
    return args->row_floats > 0 ? args->row_floats : args->vocab_size;
}

/* Moves rows of an array together, or apart with zeros between them; in place. `rows` ascends. */
typedef struct rank_move_rows {
    size_t count; /* of rows listed */
    size_t total; /* rows of the array when they are apart */
    size_t width;
    const int32_t *rows; /* (count): their positions when they are apart */
    float *at;
} rank_move_rows;

/* The values that do not change from step to step. Doubles, as in PyTorch. A step's constants are rounded to float32 once. */
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
 * arithmetic is PyTorch's, element by element: results do not depend on how parameters are cut into ranges. */
typedef struct rank_adamw {
    const rank_adamw_config *config;
    const rank_adamw_step *step; /* address */
    bool decay;                  /* weight decay applies to the first part */
    size_t count;
    float *params;
    const float *grads;
    float *first; /* the moments, zero before step 1 */
    float *second;
    rank_bfloat16 *rounded; /* the new parameters, rounded as by cast; NULL: not wanted */
    const size_t *ends; /* (parts): where each part ends, rising up to count. Decay applies to the
                             * parts in turns. The host's; NULL: one part */
    size_t parts;
} rank_adamw;

/* to = from in bfloat16, rounded to nearest, ties to even. NaN stays NaN. */
typedef struct rank_cast {
    size_t count;
    const float *from;
    void *to;
} rank_cast;

/* *sum = the sum of squares of backend/squares.h, which has no order. The backends with fast kernels
 * have a sum of doubles in place of it, in an order that follows from count. */
typedef struct rank_sum_squares {
    const float *values;
    size_t count;
    double *sum;
} rank_sum_squares;

/* *largest = the larger one of it and of all |values|, as backend/squares.h has them; 0 at first. */
typedef struct rank_largest {
    const float *values;
    size_t count;
    int32_t *largest;
} rank_largest;

/* *sum += the squares, none of which is of more than *largest. Nothing if that is not finite. */
typedef struct rank_add_squares {
    const float *values;
    size_t count;
    const int32_t *largest;
    rank_squares *sum;
} rank_add_squares;

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
    size_t row; /* floats from one row of `from` to the next; 0: columns */
} rank_column_sums;

static inline size_t rank_sums_row(const rank_column_sums *args)
{
    return args->row > 0 ? args->row : args->columns;
}

enum { RANK_ZERO_PARTS_MAX = 128 };

/* Sets each part to zero. Parts may be empty. */
typedef struct rank_zero_parts {
    size_t count; /* at most RANK_ZERO_PARTS_MAX */
    struct {
        float *at;
        size_t count;
    } parts[RANK_ZERO_PARTS_MAX];
} rank_zero_parts;

/* to += from. */
typedef struct rank_add {
    size_t count;
    const float *from;
    float *to;
} rank_add;

/* at *= factor. */
typedef struct rank_scale {
    size_t count;
    float factor;
    float *at;
} rank_scale;

/* digest (RANK_DIGEST_BYTES) = BLAKE2b-256 of the bytes. */
typedef struct rank_digest {
    const void *at;
    size_t size_bytes;
    uint8_t *digest;
} rank_digest;

/* Whether two arrays are equal byte for byte; if not, the largest |a - b|. NaN counts as largest. */
typedef struct rank_difference {
    const float *a;
    const float *b;
    size_t count;
    bool *equal;
    double *largest;
} rank_difference;

#endif
