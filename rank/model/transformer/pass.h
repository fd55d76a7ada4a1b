/* What the files of this directory share: the sizes of a model, and the state of a pass.
 *
 * The last block works on all T rows up to its attention. From its output projection on it works
 * only on the A active rows, which are gathered without gaps, because no other row's result is
 * used. Earlier blocks need all rows.
 *
 * Ranks may share the model (rank_model_config.tensor_ranks). Each has the whole residual stream, norms and biases
 * of sums; and some heads, some columns of the MLP, some ids of the vocabulary. Sizes and layouts are those of its own
 * part. Forward adds up the ranks' parts of the embedding, and of what attention and MLP add to the
 * stream, before its norm if it has one; backward their parts of the norms' gradients, also of the norms of heads.
 *
 * Or ranks share the micro-batch (rank_shape.cp): T, A and all arrays below are of this rank's tokens then, but
 * for what attention reads and writes, which is of all tokens and of this rank's heads (context.c).
 *
 * Or ranks share out the experts (rank_shape.ep). Each has a micro-batch of its own then, and some experts whole:
 * these take the rows of all ranks that chose them (experts_exchange.c). A rank whose micro-batch has no target
 * still goes through the layers for the others' rows. */
#ifndef RANK_MODEL_TRANSFORMER_PASS_H
#define RANK_MODEL_TRANSFORMER_PASS_H

#include "model/routing.h"
#include "model/transformer/transformer.h"
#include "parallel/context/cp.h"
#include "parallel/expert/ep.h"
#include "rank/adapters.h"

/* The sizes of arrays that a shape's passes use. C = width, Q = the heads of queries together, N =
 * columns of q, k and v, D = width of a head, F = columns of the MLP, U = columns of its first product: F, or 2F if it
 * is gated. */
typedef struct transformer_sizes {
    size_t tokens; /* T at most */
    size_t width;
    size_t vocab_size;
    size_t heads;
    size_t kv_heads;
    size_t head_width;
    size_t queries;
    size_t qkv;
    size_t qkv_row; /* 3Q: from one row of q, k and v to the next. Attention has as many heads of k
                     * and v there as of q */
    size_t hidden;  /* with experts, of one */
    size_t up;
    size_t experts;  /* 0: the MLP is one */
    size_t own;      /* experts that are here: all, but where ranks share them out */
    size_t places;   /* rows that MLPs take: T, or with experts those of all of them */
    size_t received; /* those that may come to the experts here; places, if all are here */
    bool layer_norm; /* else RMS norm, which has no mean */
    bool head_norms;
    bool after_norms;
    size_t rotated; /* elements of a head that rope turns */
    bool local;     /* some layers have a rope of their own */
    bool biased;
    rank_type type;
    size_t kept_hidden; /* with split (rank_shape) columns of the MLP that are kept, */
    size_t vectors;     /* and elements of a block's biases and norms; else 0, both */
} transformer_sizes;

/* One norm's activations: its input, its output, and the rows' statistics. */
typedef struct norm_state {
    float *x;    /* (T, C): the residual stream */
    void *out;   /* (T, C), of the pass's type */
    float *mean; /* (T); NULL: RMS norm */
    float *rstd; /* (T) */
} norm_state;

/* Heads, or what is added to the stream, before their norm, for backward. */
typedef struct normed_state {
    float *x;    /* (T, heads, D), or (T, C) */
    float *rstd; /* (T, heads), or (T) */
} normed_state;

typedef struct block_state {
    norm_state norm1;
    rank_routing routing;   /* with experts. Like norm1.x it is not computed again */
    normed_state normed[2]; /* queries' and keys', if they have norms */
    normed_state after[2];  /* what attention adds, and the MLP; of the last block A rows */
    void *qkv;              /* (T, 3Q), of the pass's type */
    float *row_max;         /* (T, H) */
    float *row_scale;       /* (T, H) */
    void *attention;        /* (T, Q), of the pass's type; of the last block (A, Q) in the end */
    norm_state norm2;       /* of the last block A rows */
    /* Where ranks share out the experts; else NULL. The table of the rows that have come here, and they:
     * (received, C), of the norm's output. The table is not computed again either. */
    int32_t *received;
    float *rows;
    /* (T, U), with experts (received, U), of the pass's type, before GELU or SwiGLU. Backward puts GELU's
     * result here, or the gradient of SwiGLU's arguments. */
    void *up;
    void *active; /* (T, F), of that type: with split, what backward has in `wide` of the MLP */
} block_state;

/* Rows first … first + rows of the batch. */
typedef struct row_chunk {
    size_t first;
    size_t rows;
} row_chunk;

/* Scratch of the experts (experts.c). `taken` and `active` are of a chunk of one expert's rows. */
typedef struct experts_work {
    float *taken;   /* (rows, C): of the norm's output */
    float *results; /* (places, C): what experts make of their rows, or the gradient of these */
    /* in backward */
    const float *dout; /* (rows, C): the gradient of the block's output, */
    float *dtaken;     /* (rows, C): and what is taken of it */
    float *active;     /* (rows, F): SwiGLU's result */
    float *dweights;   /* (T, chosen): the gradient of the routing's weights, */
    float *dlogits;    /* (T, experts): of the router's logits, */
    float *dscores;    /* (experts): and what the router's loss adds to that of each row's scores */
    /* where ranks share out the experts (experts_exchange.c); else NULL */
    float *own; /* (received, C): what experts make of the rows that have come, or the gradient
                          * of the block's output and then of these rows */
    float *own_weights;  /* (received): the routing's weights of these rows, */
    float *own_dweights; /* (received): and their gradient */
    float *sorted;       /* (places): the same of this rank's rows, in the order of places */
    int32_t *counted;    /* (rows): 0, 1, 2 … */
    float *leaves;       /* one expert's gradients, for each rank that waits for the next one */
} experts_work;

/* Dropout of this micro-batch (dropout.c). */
typedef struct transformer_dropout {
    bool on;
    uint32_t below; /* as in backend/dropout.h */
    float scale;
} transformer_dropout;

/* One pass of one micro-batch over the layers of a run. */
typedef struct transformer_pass {
    const rank_run *run;
    const rank_backend *backend;
    rank_queue *queue;
    const rank_rows *rows;
    rank_decoder of;
    transformer_sizes sizes;
    transformer_layout layout;
    size_t width;   /* of sizes */
    size_t layers;  /* of the model */
    rank_type type; /* of what only products read, and of qkv and up */
    /* saved */
    float *blocks;         /* layer by layer; where nothing is kept for backward, one for all; with
                            * recompute only norm1.x of each */
    norm_state norm_final; /* (A, C), in the last stage */
    /* (T, rotated), in room for (T, head width): rope's table, and that of layers that are local; NULL: none */
    float *turns[2];
    float *vectors;   /* (layers, sizes.vectors): with split, the gradients of biases and norms */
    rank_load *loads; /* of rank_saved */
    /* work. For a chunk of rows, of the pass's type: the activation's result or its gradient
     * (rows, F); dqkv (rows, 3Q). And logits (rows, V), which are float32; behind them their
     * gradient as products read it. */
    void *wide;
    size_t logit_row;          /* floats from one row of these logits to the next */
    size_t logit_columns;      /* that products make and read of a row: V, or all of it */
    size_t logit_rows_at_once; /* rows of logits that are made together, and fit in wide */
    float *dx;                 /* (T, C): the gradient of the residual stream */
    rank_bfloat16 *narrow_dx;  /* (T, C): dx as products read it; NULL: they read dx */
    float *dbranch;            /* (T, C): the gradient of a norm's output */
    float *dadded;             /* of what attention or MLP adds to the stream, if that is dropped or
                                * normed: of a chunk's rows, or with experts of all, (rows, C) */
    float *dattention;         /* (T, Q): the gradient of attention's; dbranch if Q is C */
    float *shared_block;       /* with recompute: what all blocks but norm1.x share; else NULL */
    float *shared_loss;  /* (3, logit_rows_at_once): what ranks that share the logits exchange */
    float *head_sums;    /* (heads of queries and of keys, D): parts of the gradient of norms of
                          * heads; NULL: there are none */
    float *no_bias;      /* (3Q): zeros, for attention without a bias; else NULL */
    float *no_bias_grad; /* (3Q): what its gradient gives for that; not used. Also where a bias has
                          * no gradient */
    experts_work experts;
    transformer_dropout dropout;
    float *low;  /* (rows of a chunk, rank of the adapters): x · Aᵀ; NULL: there are none */
    float *dlow; /* its gradient, in training */
    /* where the backend packs; else NULL */
    float *operands;    /* half of a block's weights made ready for products; turned round in
                           backward */
    float *output;      /* the same of the output's matrix */
    float *packed_rows; /* for a chunk of rows: the second factor of a weight's gradient, packed */
    float *attention_scratch;
    float *sent;      /* where ranks share the micro-batch: what they exchange before attention and
                            * behind it, or its gradient: (3, Q) for each of T, */
    float *received;  /* and what comes from them */
    float *head_bias; /* (3, Q / ranks): the bias of this rank's heads; */
    float *head_bias_grad; /* the same; NULL, both: attention has no bias */
    /* the current layer */
    int layer;
    int64_t layer_ns; /* when the pass came to it, for a trace */
    bool
        again; /* forward is computed again, for backward: norm1.x is there, and no output is needed */
    block_state block;
    const float *weights[BLOCK_TENSORS];
    const float *adapters; /* all of them; NULL: the pass is without */
    rank_adapters_block adapted;
    /* in backward */
    float *grads; /* of the adapters, if there are some; else NULL but in backward */
    const rank_held *held;
    float *dout; /* of rank_backward_args */
} transformer_pass;

/* layout.c: of the model, or where ranks share it of this rank's part. */
void transformer_layout_of(const rank_model_config *config, transformer_layout *layout);

/* memory.c */
void transformer_pass_begin(const rank_run *run, const rank_saved *saved, transformer_pass *pass);
block_state transformer_block(const transformer_pass *pass, int layer);

/* Element `index` of an array of the pass's type. */
static inline void *transformer_at(const transformer_pass *pass, void *array, size_t index)
{
    return (char *)array + index * rank_type_bytes(pass->type);
}

/* Where packed operands stand from that offset on; NULL: the backend does not pack. */
static inline float *transformer_packed(const transformer_pass *pass, size_t offset)
{
    return pass->operands != NULL ? pass->operands + offset : NULL;
}

/* Begins to use a layer's activations and weights, and ends that use. */
void transformer_enter_layer(transformer_pass *pass, int layer);
void transformer_leave_layer(const transformer_pass *pass);

/* How many elements a block's tensor has. 0: the family has no such tensor. */
static inline size_t transformer_count(const transformer_pass *pass, int tensor)
{
    return pass->layout.in_block[tensor + 1] - pass->layout.in_block[tensor];
}

/* The offset of a block's tensor in the parameters and in the gradients. */
static inline size_t transformer_offset(const transformer_pass *pass, int layer, int tensor)
{
    return pass->layout.block + (size_t)layer * pass->layout.in_block[BLOCK_TENSORS] +
           pass->layout.in_block[tensor];
}

/* The gradients of the parameters from that offset on; NULL: only adapters have some. */
static inline float *transformer_grad(const transformer_pass *pass, size_t offset)
{
    return pass->adapters == NULL ? pass->grads + rank_held_place(pass->held, offset) : NULL;
}

/* weight_grads.c: the gradient of a block's tensor; NULL: the family has no such tensor, or as above. */
float *transformer_block_grad(const transformer_pass *pass, int layer, int tensor);

static inline const float *transformer_need(const transformer_pass *pass, size_t offset,
                                            size_t count)
{
    return rank_decoder_shard(pass->run, offset, count);
}

/* The same for products, in the pass's type. */
static inline const void *transformer_need_factor(const transformer_pass *pass, size_t offset,
                                                  size_t count)
{
    const float *at = transformer_need(pass, offset, count);
    return pass->type == RANK_BFLOAT16 ? (const void *)(pass->run->hooks->rounded + offset) : at;
}

static inline void transformer_done(const transformer_pass *pass, size_t offset, size_t count)
{
    if (pass->run->hooks->done != NULL) {
        pass->run->hooks->done(pass->run->hooks->weights, offset, count);
    }
}

/* A weight of the current layer for products. */
static inline const void *transformer_layer_factor(const transformer_pass *pass, int tensor)
{
    return pass->type == RANK_BFLOAT16
               ? (const void *)(pass->run->hooks->rounded +
                                transformer_offset(pass, pass->layer, tensor))
               : pass->weights[tensor];
}

static inline bool transformer_is_first_stage(const transformer_pass *pass)
{
    return pass->run->shape.first_layer == 0;
}

static inline bool transformer_is_last_stage(const transformer_pass *pass)
{
    return (size_t)pass->run->shape.end_layer == pass->layers;
}

static inline bool transformer_is_tied(const transformer_layout *layout)
{
    return layout->output == layout->wte;
}

/* The rows after a layer's attention: all, or in the model's last layer the active ones. */
static inline size_t transformer_rows_behind(const transformer_pass *pass, int layer)
{
    return (size_t)layer + 1 == pass->layers ? pass->rows->active_count : pass->rows->count;
}

/* products.c. Factors are of the pass's type. A weight (depth, columns) that several chunks of rows
 * are multiplied with. */
typedef struct transformer_matrix {
    const void *at;
    size_t depth;
    size_t columns;
    bool transposed; /* at is (columns, depth) */
} transformer_matrix;

typedef struct transformer_operand {
    const void *at;
    size_t row; /* 0: packed. Else floats from one row to the next */
    bool transposed;
    size_t depth;
    size_t columns;
} transformer_operand;

/* The other factor, and the product: c (rows, columns) = a (rows, depth) · operand. */
typedef struct transformer_factor {
    size_t rows;
    const void *a;
    size_t a_row; /* 0: depth */
    void *c;
    rank_type c_type;
    size_t c_row; /* 0: columns */
    int leaves;   /* 0: one */
    size_t parts[RANK_DEPTH_PARTS];
} transformer_factor;

/* `to` has rank_pack_count(depth, columns) floats, for a backend that packs. */
transformer_operand transformer_operand_make(const transformer_pass *pass,
                                             const transformer_matrix *matrix, float *to);
void transformer_multiply(const transformer_pass *pass, const transformer_operand *operand,
                          transformer_factor by);
/* c (rows, columns) = a (depth, rows)ᵀ · b (depth, columns), or += it. a_depth is 0 for rows, b_row
 * 0 for columns. */
void transformer_multiply_transposed(const transformer_pass *pass, rank_product product);

/* adapters.c: what adapters add to a product with the current layer's tensor, and to its gradients. Rows of x and dy are of so many floats; y
 * and dx are as far apart as the other factor says. Nothing if the pass or the tensor has none. */
typedef struct transformer_rows {
    const float *at;
    size_t row;
} transformer_rows;

/* y (rows, out) += scale · (x · Aᵀ) · Bᵀ */
void transformer_adapt(const transformer_pass *pass, int tensor, size_t rows, transformer_rows x,
                       float *y, size_t y_row);
/* dx (rows, in) += scale · (dy · B) · A */
void transformer_adapt_dx(const transformer_pass *pass, int tensor, size_t rows,
                          transformer_rows dy, float *dx);
/* dA = or, from the second chunk on, += scale · (dy · B)ᵀ · x, and dB scale · dyᵀ · (x · Aᵀ). */
void transformer_adapt_grads(const transformer_pass *pass, int tensor, row_chunk chunk,
                             transformer_rows x, transformer_rows dy);

/* How many leaves backward gives a sum over what ranks share. A library's products, with which weights
 * are plain, have an order of their own. */
static inline int transformer_grad_leaves(const transformer_pass *pass, int leaves)
{
    return pass->backend->plain_weights ? 1 : leaves;
}

/* at (count) becomes its sum over the ranks that share the model. */
static inline void transformer_sum_over_ranks(const transformer_pass *pass, float *at, size_t count)
{
    const rank_tp *tp = pass->run->shape.tp;
    if (tp != NULL && tp->ranks > 1) {
        tp->all_reduce(tp->group, at, count);
    }
}

/* What attention and its gradient have in common, for some whole segments. first_layer: the layer that
 * the pass begins with. */
rank_attention transformer_attention(const transformer_pass *pass, const rank_segments *segments,
                                     int first_layer);

/* Gathering and spreading of active rows of so many columns of that type. */
rank_move_rows transformer_active_rows(const transformer_pass *pass, void *at, size_t columns,
                                       rank_type type);

/* rotary.c: what some rows of q, k and v (3Q to a row) need before attention, and what their
 * gradient needs behind its own: a bias, norms of heads, positions, and as many heads of k and v as of
 * q. */
void transformer_prepare_heads(const transformer_pass *pass, row_chunk chunk, float *qkv);
void transformer_prepare_heads_grad(const transformer_pass *pass, row_chunk chunk, float *dqkv);
/* Rope's table of all rows. */
void transformer_make_turns(const transformer_pass *pass);

/* head_norms.c: the same for the norms of heads. The gradients of their weights are begun before a layer's rows
 * of dqkv, and complete behind them, when `end` has run. */
void transformer_norm_heads(const transformer_pass *pass, row_chunk chunk, float *qkv);
void transformer_norm_heads_grad(const transformer_pass *pass, row_chunk chunk, float *dqkv);
void transformer_begin_head_norms_grad(const transformer_pass *pass);
void transformer_end_head_norms_grad(const transformer_pass *pass);

/* Whether ranks that share the micro-batch exchange a head of k and v once for all heads of q that share it: each
 * rank has whole groups of them. */
static inline bool transformer_exchanges_groups(const transformer_pass *pass)
{
    const rank_cp *cp = pass->run->shape.cp;
    return cp != NULL && pass->sizes.kv_heads < pass->sizes.heads &&
           pass->sizes.kv_heads % (size_t)cp->ranks == 0;
}

/* context.c: attention, where ranks share the micro-batch. From block.qkv of this rank's rows, which becomes
 * that of its heads for all rows, to block.attention. */
void transformer_attend_together(const transformer_pass *pass);
/* From dattention to the gradient of q, k and v, which comes in `received`; and those rows of it. */
void transformer_attend_together_grad(const transformer_pass *pass);
void transformer_take_dqkv(const transformer_pass *pass, row_chunk chunk, float *to);

/* dropout.c: what is dropped. A kind's number is a part of what masks depend on. */
typedef enum transformer_site_kind {
    DROP_EMBEDDING = 0, /* of layer 0 */
    DROP_ATTENTION = 1, /* what attention adds to the stream, and */
    DROP_MLP = 2,       /* what the MLP adds */
} transformer_site_kind;

typedef struct transformer_site {
    transformer_site_kind kind;
    int layer;
} transformer_site;

/* From the shape's configuration and the batch; `grad` is NULL. */
transformer_dropout transformer_dropout_of(const rank_shape *shape, const rank_rows *rows);

/* In forward: adds the bias to the chunk's rows of `at`, and drops elements of them. Then nothing is left for
 * whoever adds these rows to the stream. Without dropout the bias is left, and returned. For the embedding also
 * in backward, of its gradient. */
const float *transformer_drop(const transformer_pass *pass, transformer_site site, row_chunk chunk,
                              const float *bias, float *at);

/* In backward: the gradient of what the current layer's attention or MLP adds to the stream, for the chunk's rows
 * and as products read it: dx, or what dropout leaves of it, and then the bias's gradient gets its sums; and before its
 * norm, if it has one. It is valid until the next call. */
const void *transformer_branch_grad(const transformer_pass *pass, transformer_site_kind kind,
                                    row_chunk chunk);

/* The gradient of a bias of that layer that the columns of dx add up to; NULL: there is none, or as above. */
static inline float *transformer_sum_grad(const transformer_pass *pass, int layer, int tensor)
{
    return pass->dropout.on ? NULL : transformer_block_grad(pass, layer, tensor);
}

/* after_norms.c: norms of what the current layer's attention (AFTER1_WEIGHT) or MLP (AFTER2_WEIGHT) adds to the stream.
 * The chunk's rows of block.after become `out`; and from the gradient of that to theirs, in dadded, where `dout` may be. */
void transformer_norm_added(const transformer_pass *pass, int tensor, row_chunk chunk, float *out);
void transformer_norm_added_grad(const transformer_pass *pass, int tensor, row_chunk chunk,
                                 const float *dout);

/* experts.c: the current layer's experts of `rows` rows of norm2.out, into `out`; and back from experts.dout to
 * the gradient of norm2.out, in dbranch. */
void transformer_experts(const transformer_pass *pass, size_t rows, float *out);
void transformer_experts_grad(const transformer_pass *pass, size_t rows);

/* Whether this rank's micro-batch has nothing to compute, but the experts here may have rows of others'. */
static inline bool transformer_is_idle(const transformer_pass *pass)
{
    return pass->run->shape.ep != NULL && pass->rows->active_count == 0;
}

/* experts_exchange.c: where ranks share out the experts. Each rank's rows of norm2.out go to the experts of their
 * choices, into block.rows, by a table that is made of the routing, or with `again` is there; what the experts
 * made of the rows in experts.own comes back into experts.results. In backward rows of dx go, into
 * experts.own, with their weights, and back come the gradients of norm2.out and of the weights. */
void transformer_send_rows(const transformer_pass *pass);
void transformer_bring_results(const transformer_pass *pass);
void transformer_send_grads(const transformer_pass *pass);
void transformer_bring_grads(const transformer_pass *pass);

/* Before the first layer's backward: the router's loss of all layers, and its gradient, which the layers add.
 * *loss is that of the mean token, times the targets. */
void transformer_router_loss(const transformer_pass *pass, double *loss);

/* forward.c: with recompute, computes the current layer again, from norm1.x to what backward reads; by dbranch. */
void transformer_recompute(transformer_pass *pass);

/* loss.c: logits of some active rows, from the final norm. */
void transformer_logits(const transformer_pass *pass, const int32_t *rows, size_t count,
                        float *logits);
/* Adds the loss of all active rows to *loss. With grads, also writes the gradients of the output's
 * matrix and of the final norm, and the stream's in dx. */
void transformer_loss(const transformer_pass *pass, double *loss);

/* zero_grads.c: sets a range of the parameters' gradients to zero, which there are without adapters; all of the
 * adapters', if there are some; and what backward adds to, or does not write. */
void transformer_zero_range(const transformer_pass *pass, size_t offset, size_t count);
void transformer_zero_adapters(const transformer_pass *pass);
void transformer_begin_grads(const transformer_pass *pass);

/* embed_grad.c: the gradients of the embeddings, from dx. tied_begun: as in rank_backward_args. And the factor of the
 * embedding, by which the stream begins, or dx ends, if the family has one: at (T, C). */
void transformer_embed_grad(const transformer_pass *pass, bool tied_begun);
void transformer_scale_embedding(const transformer_pass *pass, float *at);

/* norm_grad.c: the chunk's rows of dx, the gradient of the residual stream, become, or with `keep`
 * get added, the norm's backward of dbranch. dx_sum: the gradient of the bias that was last added
 * to this stream; NULL: there is none. */
typedef struct norm_grads {
    const float *weight;
    float *dweight;
    float *dbias;
    float *dx_sum;
    bool keep;
} norm_grads;
void transformer_norm_grad(const transformer_pass *pass, row_chunk chunk, const norm_state *norm,
                           norm_grads grads);

#endif
