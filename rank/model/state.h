/* What a rank_model holds: where each parameter lies, and scratch for the activations.
 *
 * A = active rows: those whose output anybody asks for (a target, or logits). The last block works
 * on all T rows up to its attention, and on the A active rows, laid close together, from its output
 * projection on: no other row's result is ever used. Earlier blocks need all rows. */
#ifndef RANK_MODEL_STATE_H
#define RANK_MODEL_STATE_H

#include <stdbool.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/matmul.h"
#include "model/profile.h"
#include "rank/model.h"

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
};

enum {
    WIDENING = 4,    /* F = 4C */
    ROW_CHUNK = 128, /* rows that go through several operations together, to stay in the caches */
};

/* Where tensors begin in the parameter array, in elements. */
typedef struct rank_layout {
    size_t wte;
    size_t wpe;
    size_t block;                            /* the first block */
    size_t in_block[RANK_TENSORS_PER_BLOCK]; /* from the block's own begin */
    size_t block_count;                      /* elements of one block */
    size_t final_weight;
    size_t final_bias;
    size_t total;
} rank_layout;

void rank_layout_make(const rank_model_config *config, rank_layout *layout);

/* One layer norm's activations: what goes in, what comes out, and the rows' statistics. */
typedef struct norm_state {
    float *x;    /* (T, C): the residual stream */
    float *out;  /* (T, C) */
    float *mean; /* (T) */
    float *rstd; /* (T) */
} norm_state;

typedef struct block_state {
    norm_state norm1;
    float *qkv;       /* (T, 3C) */
    float *row_max;   /* (T, H) */
    float *row_scale; /* (T, H) */
    float *attention; /* (T, C); of the last block (A, C) in the end */
    norm_state norm2; /* of the last block A rows */
    float *up;        /* (T, F) before GELU; backward puts GELU's result here */
} block_state;

struct rank_model {
    rank_model_config config;
    rank_layout layout;
    const rank_kernels *kernels;
    size_t token_count_max;
    int for_training;
    void *memory; /* everything below, in one piece */
    block_state *blocks;
    norm_state norm_final; /* (A, C) */
    /* For a chunk of rows: GELU's result and gradient (rows, F); dqkv (rows, 3C); logits (rows, V)
     */
    float *wide;
    size_t logit_rows_at_once; /* rows of logits that are made together, and fit in wide */
    float *dx;                 /* (T, C): the gradient of the residual stream */
    float *dbranch;            /* (T, C): the gradient of a layer norm's output or attention's */
    float *weights_t; /* a block's transposed weights: (F, C), (C, F) and (C, C), or (3C, C) */
    float *attention_scratch;
    int32_t *positions;      /* (T) */
    int32_t *active;         /* (A): ascending row numbers */
    int32_t *active_targets; /* (A): their targets */
    /* of the batch at hand */
    const float *params;
    const rank_batch *batch;
    size_t tokens;
    size_t active_count;
    rank_profile *profile; /* NULL: not measured */
};

/* Where a parameter of a block lies; the same offset in the gradients. */
static inline size_t rank_block_offset(const rank_model *model, int layer, int tensor)
{
    return model->layout.block + (size_t)layer * model->layout.block_count +
           model->layout.in_block[tensor];
}

/* Rows first … first + rows of the batch. */
typedef struct row_chunk {
    size_t first;
    size_t rows;
} row_chunk;

/* Segments first … first + count, and their rows. */
typedef struct segment_chunk {
    size_t first;
    size_t count;
    row_chunk rows;
} segment_chunk;

/* The next whole segments that fit in ROW_CHUNK rows, at least one; false after the last. Begins
 * with zeros. */
bool rank_next_segments(const rank_model *model, segment_chunk *chunk);

/* No segment is longer. */
size_t rank_segment_max(const rank_model *model);

/* Checks the batch against the model: sizes, ids, targets, segments. */
BASE_MUST_CHECK base_status rank_batch_check(const rank_model *model, const rank_batch *batch,
                                             base_error *reterr);

/* Runs the batch up to the final layer norm of the active rows, which are set before. */
BASE_MUST_CHECK base_status rank_forward_blocks(rank_model *model, base_error *reterr);

/* Lists the batch's rows with a target, and the rows in `also` (ascending, also_count of them), as
 * the active ones; active_targets has -1 for rows without a target. Returns the targets' number. */
size_t rank_model_set_active(rank_model *model, const int32_t *also, size_t also_count);

/* Backward of everything below the final layer norm, whose input's gradient is in dx (A, C). Calls
 * on_ready as rank_model_train says. */
BASE_MUST_CHECK base_status rank_backward_blocks(rank_model *model, float *grads,
                                                 rank_grad_ready on_ready, void *on_ready_user,
                                                 base_error *reterr);

/* Tells that a block's gradients are final; with the last block's, the final norm's. */
void rank_tell_block_ready(const rank_model *model, int layer, rank_grad_ready on_ready,
                           void *on_ready_user);

#endif
