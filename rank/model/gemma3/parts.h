/* What the files of this directory share. Tensors are those of a Llama with LLAMA_GEMMA3, LLAMA_HEAD_NORMS and
 * LLAMA_TIED. */
#ifndef RANK_MODEL_GEMMA3_PARTS_H
#define RANK_MODEL_GEMMA3_PARTS_H

#include "model/gemma3/gemma3.h"
#include "model/llama/parts.h"

/* rank_model_config.settings behind those that a Llama has too. */
enum {
    GEMMA3_QUERY_SCALAR = LLAMA_SHARED_SETTINGS, /* query_pre_attn_scalar */
    GEMMA3_FULL_EVERY, /* N: layers N-1, 2N-1 … see all tokens, with LLAMA_THETA and LLAMA_FACTOR; 0: none does */
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

/* check.c */
base_status gemma3_check(const rank_model_config *config, base_error *reterr);

/* config_json.c */
base_status gemma3_configure(const struct json_t *object, rank_model_config *config,
                             base_error *reterr);
struct json_t *gemma3_describe(const rank_model_config *config);

/* passes.c */
extern const rank_decoder_table gemma3_decoder;
/* sqrt(width), rounded to the checkpoint's type as transformers rounds it. */
float gemma3_embed_scale(const rank_model_config *config);

#endif
