/* What the files of this directory share: settings beyond the common ones, and the offset of each
 * parameter. */
#ifndef RANK_MODEL_GEMMA3_PARTS_H
#define RANK_MODEL_GEMMA3_PARTS_H

#include "model/blocks.h"
#include "model/gemma3/gemma3.h"
#include "model/transformer/transformer.h"

/* rank_model_config.settings */
enum {
    GEMMA3_KV_HEADS = RANK_BLOCK_KV_HEADS,
    GEMMA3_HEAD_WIDTH = RANK_BLOCK_HEAD_WIDTH,
    GEMMA3_HIDDEN = RANK_BLOCK_HIDDEN,
    GEMMA3_EPSILON = RANK_BLOCK_EPSILON,
    GEMMA3_QUERY_SCALAR = RANK_BLOCK_SETTINGS, /* query_pre_attn_scalar */
    GEMMA3_FULL_EVERY,  /* N: layers N-1, 2N-1 … see all tokens; 0: none does */
    GEMMA3_THETA,       /* rope's, of these layers, */
    GEMMA3_FACTOR,      /* whose frequencies are divided by it */
    GEMMA3_WINDOW,      /* tokens that the other layers see */
    GEMMA3_LOCAL_THETA, /* rope's, of these layers */
    GEMMA3_DTYPE,       /* what the checkpoint says its numbers are: a gemma3_dtype */
    GEMMA3_SETTINGS,
};

_Static_assert((int)GEMMA3_SETTINGS <= (int)RANK_FAMILY_SETTINGS, "a place for each setting");

/* The embedding's factor is rounded to it. */
typedef enum gemma3_dtype {
    GEMMA3_FLOAT32,
    GEMMA3_BFLOAT16,
    GEMMA3_FLOAT16,
    GEMMA3_DTYPES,
} gemma3_dtype;

/* A block's tensors, in the order of the parameter array. Q = heads · head width, K = the same of
 * keys, F = hidden. */
enum {
    GEMMA3_NORM1,
    GEMMA3_Q,          /* (Q, C) */
    GEMMA3_K,          /* (K, C) */
    GEMMA3_V,          /* (K, C) */
    GEMMA3_PROJECTION, /* (C, Q) */
    GEMMA3_NORM2,
    GEMMA3_GATE,   /* (F, C) */
    GEMMA3_UP,     /* (F, C) */
    GEMMA3_DOWN,   /* (C, F) */
    GEMMA3_Q_NORM, /* (head width), and the next one */
    GEMMA3_K_NORM,
    GEMMA3_AFTER1,
    GEMMA3_AFTER2,
    GEMMA3_BLOCK_TENSORS,
};

/* Where tensors begin in the parameter array, in elements. */
typedef struct gemma3_layout {
    size_t block; /* the first block; before it is the embedding */
    size_t
        in_block[GEMMA3_BLOCK_TENSORS + 1]; /* from the block's own begin; the last: its length */
    size_t final_norm;
} gemma3_layout;

void gemma3_layout_make(const rank_model_config *config, gemma3_layout *layout);

/* tensors.c */
base_status gemma3_check(const rank_model_config *config, base_error *reterr);
int gemma3_tensor_count(const rank_model_config *config);
void gemma3_tensor(const rank_model_config *config, int index, rank_tensor *tensor);
int gemma3_block_begin(const rank_model_config *config, int layer);
void gemma3_init(const rank_model_config *config, uint64_t seed, float *params);

/* config_json.c */
base_status gemma3_configure(const struct json_t *object, rank_model_config *config,
                             base_error *reterr);
struct json_t *gemma3_describe(const rank_model_config *config);

/* passes.c */
extern const rank_decoder_table gemma3_decoder;
/* sqrt(width), rounded to the checkpoint's type as transformers rounds it. */
float gemma3_embed_scale(const rank_model_config *config);

#endif
