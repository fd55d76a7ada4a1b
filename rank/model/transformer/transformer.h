/* Training and evaluation of models whose blocks are norm, attention, norm, MLP, each half added to
 * a residual stream: what decoder.h is for decoding. A family says what its blocks are and where
 * its parameters stand. Families name these functions in their tables (model/family.h). */
#ifndef RANK_MODEL_TRANSFORMER_H
#define RANK_MODEL_TRANSFORMER_H

#include "model/decoder.h"

/* A block's tensors, in the order of the parameter array. A family may lack biases, norms of heads and those of what is
 * added to the stream. C, Q, N, F, U are as in pass.h. */
enum {
    NORM1_WEIGHT,
    NORM1_BIAS,
    QKV_WEIGHT, /* (C, N) */
    QKV_BIAS,
    PROJ_WEIGHT, /* (Q, C) */
    PROJ_BIAS,
    NORM2_WEIGHT,
    NORM2_BIAS,
    UP_WEIGHT, /* (C, U); of a gated MLP the gate's columns stand first */
    UP_BIAS,
    DOWN_WEIGHT, /* (F, C) */
    DOWN_BIAS,
    Q_NORM_WEIGHT, /* (head width): of each head of queries, */
    K_NORM_WEIGHT, /* and of keys */
    AFTER1_WEIGHT, /* (C): of what attention adds to the stream, */
    AFTER2_WEIGHT, /* and the MLP */
    ROUTER_WEIGHT, /* (C, experts). With it UP_WEIGHT is that of all experts, one behind the other, and so
                    * is DOWN_WEIGHT */
    BLOCK_TENSORS,
};

static inline bool transformer_is_matrix(int tensor)
{
    return tensor == QKV_WEIGHT || tensor == PROJ_WEIGHT || tensor == UP_WEIGHT ||
           tensor == DOWN_WEIGHT || tensor == ROUTER_WEIGHT;
}

/* Where tensors begin in the parameter array, in elements. */
typedef struct transformer_layout {
    bool transposed; /* each block's matrix is the transpose of the shape above */
    size_t wte;
    size_t wpe;                         /* `block`: the family has none */
    size_t block;                       /* the first block */
    size_t in_block[BLOCK_TENSORS + 1]; /* from the block's own begin; the last: its length */
    size_t final_weight;
    size_t final_bias;
    size_t final_end; /* behind the final norm */
    size_t output;    /* (V, C): the output's matrix; wte, or behind the final norm */
    size_t total;
} transformer_layout;

/* The family's functions of these names. */
size_t transformer_saved_floats(const rank_shape *shape);
size_t transformer_work_floats(const rank_shape *shape);
void transformer_held(const rank_shape *shape, rank_held *held);
void transformer_reads(const rank_model_config *config, int part, rank_model_reads *reads);
void transformer_forward(const rank_run *run, const rank_forward_args *args);
void transformer_backward(const rank_run *run, const rank_backward_args *args);
void transformer_weight_grads(const rank_run *run, const rank_backward_args *args);

#endif
