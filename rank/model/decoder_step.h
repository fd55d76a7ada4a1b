/* What the files of decoding share: one step over the layers of a run. Private to decoder.c,
 * decoder_attention.c and decoder_experts.c. */
#ifndef RANK_MODEL_DECODER_STEP_H
#define RANK_MODEL_DECODER_STEP_H

#include "model/decoder.h"
#include "model/routing.h"

typedef struct decoder_step {
    const rank_run *run;
    const rank_decode_args *args;
    const rank_backend *backend;
    rank_queue *queue;
    const rank_rows *rows;
    rank_decoder of;
    size_t width;
    size_t across;    /* heads × head width */
    size_t kv_across; /* the same of keys, and of values */
    rank_decoder_ends ends;
    rank_decoder_layer weights; /* of the current layer; with experts, of its current one */
    float *stream;              /* (T, C): one half of the exchanged memory, */
    float *sum;                 /* and the other */
    float *normed;              /* (T, C) */
    float *mean;                /* (T), of layer norms */
    float *rstd;                /* (T) */
    float *turns
        [2]; /* (T, rotated), in room for (T, head width): rope's table, and that of layers that are local */
    float *qkv;       /* (T, across + 2·kv_across) */
    float *attention; /* (T, across) */
    float *up;     /* (T, hidden), before GELU, or the gate's factor; NULL where the product makes
                      GELU, */
    float *active; /* and after; at first the gate */
    rank_routing routing; /* with experts: which rows go to which, */
    float *taken;         /* (T, C): the rows of one, */
    float *results;       /* (T · chosen, C): and what they make of theirs, in exchanged memory */
    float *scratch;
    float *product_scratch; /* see rank_product */
    float
        *low; /* (T, rank of adapters): what they make of a product's input; NULL: there are none */
    int layer;
} decoder_step;

/* decoder.c: y (rows, columns) = x (rows, depth) · b, in the form in which shards hold b. */
void rank_decoder_multiply(const decoder_step *step, rank_product args);

/* The same, and what adapters add. rows 0: all. */
void rank_decoder_product(const decoder_step *step, rank_product args);

/* decoder_attention.c: queries, keys and values of this rank's heads, side by side in a row, and how wide it is. */
static inline size_t rank_decoder_qkv_columns(const decoder_step *step)
{
    return step->across + 2 * step->kv_across;
}
void rank_decoder_make_qkv(const decoder_step *step);

/* step->attention = their attention over the cache, to which they are added. */
void rank_decoder_attend(const decoder_step *step);

/* Sums the ranks' parts. Every rank gets the sum. */
void rank_decoder_all_reduce(const decoder_step *step, float *at, size_t count);

/* step->active (rows, hidden) = what the last matrix of the layer's MLP, or of its current expert,
 * multiplies, of in (rows, C). */
void rank_decoder_activate(const decoder_step *step, size_t rows, const float *in);

/* decoder_experts.c: step->sum (rows, C) = the layer's experts of step->normed. */
void rank_decoder_experts(decoder_step *step, size_t rows);

#endif
