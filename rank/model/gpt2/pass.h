/* What the files of this directory share: the offset of each parameter, and the state of a pass.
 *
 * The last block works on all T rows up to its attention. From its output projection on it works
 * only on the A active rows, which are gathered without gaps, because no other row's result is
 * used. Earlier blocks need all rows. */
#ifndef RANK_MODEL_GPT2_PASS_H
#define RANK_MODEL_GPT2_PASS_H

#include "model/decoder.h"
#include "model/gpt2/gpt2.h"

/* A block's tensors, in the order of the parameter array. */
enum {
    LN1_WEIGHT,
    LN1_BIAS,
    QKV_WEIGHT, /* (C, 3C) */
    QKV_BIAS,
    PROJ_WEIGHT, /* (C, C) */
    PROJ_BIAS,
    LN2_WEIGHT,
    LN2_BIAS,
    UP_WEIGHT, /* (C, 4C) */
    UP_BIAS,
    DOWN_WEIGHT, /* (4C, C) */
    DOWN_BIAS,
    BLOCK_TENSORS,
};

enum {
    WIDENING = 4, /* F = 4C */
};

/* Where tensors begin in the parameter array, in elements. */
typedef struct gpt2_layout {
    size_t wte;
    size_t wpe;
    size_t block;                       /* the first block */
    size_t in_block[BLOCK_TENSORS + 1]; /* from the block's own begin; the last: its length */
    size_t final_weight;
    size_t final_bias;
    size_t total;
} gpt2_layout;

void gpt2_layout_make(const rank_model_config *config, gpt2_layout *layout);

/* One layer norm's activations: its input, its output, and the rows' statistics. */
typedef struct norm_state {
    float *x;    /* (T, C): the residual stream */
    void *out;   /* (T, C), of the pass's type */
    float *mean; /* (T) */
    float *rstd; /* (T) */
} norm_state;

typedef struct block_state {
    norm_state norm1;
    void *qkv;        /* (T, 3C), of the pass's type */
    float *row_max;   /* (T, H) */
    float *row_scale; /* (T, H) */
    void *attention;  /* (T, C), of the pass's type; of the last block (A, C) in the end */
    norm_state norm2; /* of the last block A rows */
    void *up; /* (T, F), of the pass's type, before GELU; backward puts GELU's result here */
} block_state;

/* Rows first … first + rows of the batch. */
typedef struct row_chunk {
    size_t first;
    size_t rows;
} row_chunk;

/* One pass of one micro-batch over the layers of a run. */
typedef struct gpt2_pass {
    const rank_run *run;
    const rank_backend *backend;
    rank_queue *queue;
    const rank_rows *rows;
    gpt2_layout layout;
    size_t width;
    size_t layers;  /* of the model */
    rank_type type; /* of what only products read, and of qkv and up */
    /* saved */
    float *blocks;         /* layer by layer; where nothing is kept for backward, one for all */
    norm_state norm_final; /* (A, C), in the last stage */
    /* work. For a chunk of rows, of the pass's type: GELU's result and gradient (rows, F); dqkv
     * (rows, 3C). And logits (rows, V), which are float32; behind them their gradient as products
     * read it. */
    void *wide;
    size_t logit_row;          /* floats from one row of these logits to the next */
    size_t logit_rows_at_once; /* rows of logits that are made together, and fit in wide */
    float *dx;                 /* (T, C): the gradient of the residual stream */
    rank_bfloat16 *narrow_dx;  /* (T, C): dx as products read it; NULL: they read dx */
    float *dbranch;            /* (T, C): the gradient of a layer norm's output or attention's */
    /* where the backend packs; else NULL */
    float *operands;    /* a block's weights made ready for products: those of (C, F), (F, C) and
                           (C, C), or that of (C, 3C); turned round in backward */
    float *output;      /* the same of the output embedding */
    float *packed_rows; /* for a chunk of rows: a gradient of up to F columns, packed */
    float *attention_scratch;
    /* the current layer */
    int layer;
    block_state block;
    const float *weights[BLOCK_TENSORS];
    /* in backward */
    float *grads; /* else NULL */
    const rank_held *held;
} gpt2_pass;

/* memory.c */
size_t gpt2_saved_floats(const rank_shape *shape);
size_t gpt2_work_floats(const rank_shape *shape);
void gpt2_pass_begin(const rank_run *run, const rank_saved *saved, gpt2_pass *pass);
block_state gpt2_block(const gpt2_pass *pass, int layer);

/* Element `index` of an array of the pass's type. */
static inline void *gpt2_at(const gpt2_pass *pass, void *array, size_t index)
{
    return (char *)array + index * rank_type_bytes(pass->type);
}

/* Where packed operands stand from that offset on; NULL: the backend does not pack. */
static inline float *gpt2_packed(const gpt2_pass *pass, size_t offset)
{
    return pass->operands != NULL ? pass->operands + offset : NULL;
}

/* Begins to use a layer's activations and weights, and ends that use. */
void gpt2_enter_layer(gpt2_pass *pass, int layer);
void gpt2_leave_layer(const gpt2_pass *pass);

/* The offset of a block's tensor in the parameters and in the gradients. */
static inline size_t gpt2_offset(const gpt2_pass *pass, int layer, int tensor)
{
    return pass->layout.block + (size_t)layer * pass->layout.in_block[BLOCK_TENSORS] +
           pass->layout.in_block[tensor];
}

/* The gradients of the parameters from that offset on. */
static inline float *gpt2_grad(const gpt2_pass *pass, size_t offset)
{
    return pass->grads + rank_held_place(pass->held, offset);
}

static inline const float *gpt2_need(const gpt2_pass *pass, size_t offset, size_t count)
{
    return pass->run->hooks->need(pass->run->hooks->weights, offset, count);
}

/* The same for products, in the pass's type. */
static inline const void *gpt2_need_factor(const gpt2_pass *pass, size_t offset, size_t count)
{
    const float *at = gpt2_need(pass, offset, count);
    return pass->type == RANK_BFLOAT16 ? (const void *)(pass->run->hooks->rounded + offset) : at;
}

static inline void gpt2_done(const gpt2_pass *pass, size_t offset, size_t count)
{
    if (pass->run->hooks->done != NULL) {
        pass->run->hooks->done(pass->run->hooks->weights, offset, count);
    }
}

/* A weight of the current layer for products. */
static inline const void *gpt2_layer_factor(const gpt2_pass *pass, int tensor)
{
    return pass->type == RANK_BFLOAT16
               ? (const void *)(pass->run->hooks->rounded + gpt2_offset(pass, pass->layer, tensor))
               : pass->weights[tensor];
}

static inline bool gpt2_is_first_stage(const gpt2_pass *pass)
{
    return pass->run->shape.first_layer == 0;
}

static inline bool gpt2_is_last_stage(const gpt2_pass *pass)
{
    return (size_t)pass->run->shape.end_layer == pass->layers;
}

/* The rows after a layer's attention: all, or in the model's last layer the active ones. */
static inline size_t gpt2_rows_behind(const gpt2_pass *pass, int layer)
{
    return (size_t)layer + 1 == pass->layers ? pass->rows->active_count : pass->rows->count;
}

/* Leaves of the sums of the row-parallel products: so decoding has the same bits on several ranks.
 */
static inline int gpt2_attention_leaves(const rank_model_config *config, int ranks)
{
    return rank_tp_leaves((size_t)config->heads, ranks);
}

static inline int gpt2_hidden_leaves(const rank_model_config *config, int ranks)
{
    return rank_decoder_hidden_leaves(WIDENING * (size_t)config->width, ranks);
}

/* products.c. Factors are of the pass's type. A weight (depth, columns) that several chunks of rows are multiplied with. */
typedef struct gpt2_matrix {
    const void *at;
    size_t depth;
    size_t columns;
    bool transposed; /* at is (columns, depth) */
} gpt2_matrix;

typedef struct gpt2_operand {
    const void *at;
    size_t row; /* 0: packed. Else floats from one row to the next */
    bool transposed;
    size_t depth;
    size_t columns;
} gpt2_operand;

/* The other factor, and the product: c (rows, columns) = a (rows, depth) · operand. */
typedef struct gpt2_factor {
    size_t rows;
    const void *a;
    void *c;
    rank_type c_type;
    size_t c_row; /* 0: columns */
    int leaves;   /* 0: one */
} gpt2_factor;

/* `to` has rank_pack_count(depth, columns) floats, for a backend that packs. */
gpt2_operand gpt2_operand_make(const gpt2_pass *pass, const gpt2_matrix *matrix, float *to);
void gpt2_multiply(const gpt2_pass *pass, const gpt2_operand *operand, gpt2_factor by);
/* c (rows, columns) = a (depth, rows)ᵀ · b (depth, columns), or += it. a_depth is 0 for rows. */
void gpt2_multiply_transposed(const gpt2_pass *pass, rank_product product);

/* What attention and its gradient have in common, for some whole segments. */
rank_attention gpt2_attention(const gpt2_pass *pass, const rank_segments *segments);

/* Gathering and spreading of active rows (C) of that type. */
rank_move_rows gpt2_active_rows(const gpt2_pass *pass, void *at, rank_type type);

/* tensors.c */
base_status gpt2_check(const rank_model_config *config, base_error *reterr);
int gpt2_tensor_count(const rank_model_config *config);
void gpt2_tensor(const rank_model_config *config, int index, rank_tensor *tensor);
void gpt2_init(const rank_model_config *config, uint64_t seed, float *params);
void gpt2_held(const rank_shape *shape, rank_held *held);

/* config_json.c */
base_status gpt2_configure(const struct json_t *object, rank_model_config *config,
                           base_error *reterr);
struct json_t *gpt2_describe(const rank_model_config *config);

/* forward.c: embeddings or `in`, the layers, and the final norm of the active rows, or `out`. */
void gpt2_layers(gpt2_pass *pass, const float *in, float *out);
void gpt2_forward(const rank_run *run, const rank_forward_args *args);

/* decode.c */
size_t gpt2_step_floats(const rank_shape *shape);
size_t gpt2_exchanged_floats(const rank_shape *shape);
size_t gpt2_head_width(const rank_model_config *config);
size_t gpt2_cache_floats(const rank_shape *shape);
void gpt2_decode(const rank_run *run, const rank_decode_args *args);

/* loss.c: logits of some active rows, from the final norm. */
void gpt2_logits(const gpt2_pass *pass, const int32_t *rows, size_t count, float *logits);
/* Adds the loss of all active rows to *loss. With grads, also writes the gradients of the output
 * embedding and of the final norm, and the stream's in dx. */
void gpt2_loss(const gpt2_pass *pass, double *loss);

/* backward.c */
void gpt2_backward(const rank_run *run, const rank_backward_args *args);

#endif
