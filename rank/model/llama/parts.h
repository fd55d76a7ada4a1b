/* What the files of this directory share, and Gemma 3's with them: settings beyond the common ones, and the
 * offset of each parameter. */
#ifndef RANK_MODEL_LLAMA_PARTS_H
#define RANK_MODEL_LLAMA_PARTS_H

#include "model/blocks.h"
#include "model/llama/llama.h"
#include "model/transformer/transformer.h"

/* rank_model_config.settings */
enum {
    LLAMA_KV_HEADS = RANK_BLOCK_KV_HEADS,
    LLAMA_HEAD_WIDTH = RANK_BLOCK_HEAD_WIDTH,
    LLAMA_HIDDEN = RANK_BLOCK_HIDDEN,
    LLAMA_EPSILON = RANK_BLOCK_EPSILON,
    LLAMA_EXPERTS = RANK_BLOCK_EXPERTS,
    LLAMA_THETA = RANK_BLOCK_SETTINGS,
    LLAMA_FACTOR,     /* of LLAMA_SCALING */
    LLAMA_TIED,       /* 1: the output's matrix is the embedding */
    LLAMA_BIASED,     /* 1: queries, keys and values have biases, as in Qwen2 */
    LLAMA_HEAD_NORMS, /* 1: each head of queries and of keys has a norm, as in Qwen3 */
    LLAMA_GEMMA3,     /* 1: norms stand behind attention and the MLP too, and begin with 0 */
    LLAMA_SHARED_SETTINGS,
    LLAMA_SCALING = LLAMA_SHARED_SETTINGS, /* of rope's frequencies: a llama_scaling */
    LLAMA_LOW,                             /* low_freq_factor, */
    LLAMA_HIGH,                            /* high_freq_factor, */
    LLAMA_ORIGINAL, /* and original_max_position_embeddings of LLAMA_SCALING_LLAMA3, and of LLAMA_SCALING_LONGROPE, */
    LLAMA_ATTENTION_FACTOR, /* by which that multiplies what rope turns */
    LLAMA_PARTIAL,          /* of each head rope turns so much, in a Phi-3; 0: all of it */
    LLAMA_CHOSEN,           /* a token goes to so many of LLAMA_EXPERTS, */
    LLAMA_NORMED,           /* 1: whose weights add up to 1 */
    LLAMA_UNROTATED, /* N: layers N-1, 2N-1 … have no rope, as in SmolLM3; 0: all have it */
    LLAMA_PHI3,      /* 1: files have queries, keys and values as one matrix, and gate and up */
    LLAMA_SETTINGS,
};

_Static_assert((int)LLAMA_SETTINGS <= (int)RANK_FAMILY_SETTINGS, "a place for each setting");

typedef enum llama_scaling {
    LLAMA_SCALING_NONE,
    LLAMA_SCALING_LINEAR,
    LLAMA_SCALING_LLAMA3,
    LLAMA_SCALING_LONGROPE, /* by rank_model_config.rope_factors */
} llama_scaling;

/* A block's tensors, in the order of the parameter array. Q = heads · head width, K = the same of
 * keys, F = hidden. */
enum {
    LLAMA_NORM1,
    LLAMA_Q,      /* (Q, C) */
    LLAMA_K,      /* (K, C) */
    LLAMA_V,      /* (K, C) */
    LLAMA_Q_BIAS, /* (Q), and the next two (K); only if LLAMA_BIASED */
    LLAMA_K_BIAS,
    LLAMA_V_BIAS,
    LLAMA_PROJECTION, /* (C, Q) */
    LLAMA_NORM2,
    /* With E experts there are E of each of the next three: gate and up of each in turn, then all of down. */
    LLAMA_GATE,   /* (F, C) */
    LLAMA_UP,     /* (F, C) */
    LLAMA_DOWN,   /* (C, F) */
    LLAMA_Q_NORM, /* (head width), and the next one; only if LLAMA_HEAD_NORMS */
    LLAMA_K_NORM,
    LLAMA_AFTER1, /* (C), and the next one; only if LLAMA_GEMMA3 */
    LLAMA_AFTER2,
    LLAMA_ROUTER, /* (E, C); only if LLAMA_EXPERTS */
    LLAMA_BLOCK_TENSORS,
};

/* Where tensors begin in the parameter array, in elements. */
typedef struct llama_layout {
    size_t block; /* the first block; before it is the embedding */
    /* From the block's own begin; the last: its length. Of experts' tensors the first expert's. */
    size_t in_block[LLAMA_BLOCK_TENSORS + 1];
    size_t matrix; /* elements of LLAMA_GATE, and as many of LLAMA_UP and of LLAMA_DOWN */
    size_t final_norm;
    size_t output; /* 0, the embedding's, if they are tied */
} llama_layout;

void llama_layout_make(const rank_model_config *config, llama_layout *layout);

/* Where a block's tensor begins, from the block's own begin. expert: of LLAMA_GATE, LLAMA_UP and
 * LLAMA_DOWN; 0 in a model without experts, and for other tensors. */
size_t llama_in_block(const llama_layout *layout, int which, int expert);

/* tensors.c */
base_status llama_check(const rank_model_config *config, base_error *reterr);
int llama_tensor_count(const rank_model_config *config);
void llama_tensor(const rank_model_config *config, int index, rank_tensor *tensor);
int llama_block_begin(const rank_model_config *config, int layer);
void llama_init(const rank_model_config *config, uint64_t seed, float *params);

/* config_json.c */
base_status llama_configure(const struct json_t *object, rank_model_config *config,
                            base_error *reterr);
struct json_t *llama_describe(const rank_model_config *config);

/* rope_json.c: the part of configure and of describe that is rope's. Before, LLAMA_THETA is what counts where the file
 * says nothing, and the head's width and LLAMA_PHI3 are read. And the elements of a head that rope turns. */
base_status llama_read_rope(const struct json_t *object, rank_model_config *read,
                            base_error *reterr);
struct json_t *llama_describe_rope(const rank_model_config *config);
size_t llama_rotated(const rank_model_config *config);

/* rope.c: rope's frequencies, in radians for each position: llama_rotated / 2 of them. As transformers
 * computes them, whose rounding is float32's. */
void llama_frequencies(const rank_model_config *config, float *frequency);

/* passes.c */
extern const rank_decoder_table llama_decoder;
/* Functions of that table which Gemma 3's has too. */
void llama_layer_weights(const rank_run *run, int layer, rank_decoder_layer *weights);
void llama_end_weights(const rank_run *run, rank_decoder_ends *weights);
void llama_training_layout(const rank_model_config *config, transformer_layout *layout);

#endif
