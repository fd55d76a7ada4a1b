/* What Llama's family and Gemma 3's have in common: heads that share heads of keys and values, RMS norms, a
 * gated MLP, and matrices as (out, in). A family says which tensors its blocks have. */
#ifndef RANK_MODEL_BLOCKS_H
#define RANK_MODEL_BLOCKS_H

#include <math.h>

#include "model/decoder.h"

/* The first of the family's rank_model_config.settings. */
enum {
    RANK_BLOCK_KV_HEADS,
    RANK_BLOCK_HEAD_WIDTH,
    RANK_BLOCK_HIDDEN,
    RANK_BLOCK_EPSILON, /* of RMS norms */
    RANK_BLOCK_EXPERTS, /* of each block's MLP; 0: it is one MLP. Else RANK_BLOCK_HIDDEN is an expert's */
    RANK_BLOCK_SETTINGS,
};

enum {
    RANK_BLOCK_CONTEXT_MAX = 1 << 20 /* positions · frequency stays in what backend/turn.h takes */
};

/* The sides of a matrix. */
typedef enum rank_side {
    SIDE_NONE,
    SIDE_WIDTH,
    SIDE_QUERIES,
    SIDE_KEYS,
    SIDE_HEAD,
    SIDE_HIDDEN,
    SIDE_EXPERTS,
} rank_side;

typedef struct rank_block_tensor {
    const char *name;
    rank_side rows; /* SIDE_NONE: a vector */
    rank_side columns;
    rank_cut_kind cut;
    int axis;
} rank_block_tensor;

static inline size_t rank_block_setting(const rank_model_config *config, int setting)
{
    return (size_t)config->settings[setting];
}

/* Of pair i of the elements that rope turns: positions for each radian, and its frequency, in radians for each
 * position. As transformers computes them, whose rounding is float32's. */
static inline float rank_rope_period(double theta, size_t i, size_t rotated)
{
    const float exponent = (float)(2 * i) / (float)rotated;
    return (float)pow(theta, (double)exponent);
}

static inline float rank_rope_frequency(double theta, size_t i, size_t rotated)
{
    return 1.0f / rank_rope_period(theta, i, rotated);
}

size_t rank_block_elements(const rank_model_config *config, const rank_block_tensor *of);

/* All of the tensor but its name. A router is in float32, whatever the matrices are. */
void rank_block_set_tensor(const rank_model_config *config, const rank_block_tensor *of,
                           size_t offset, rank_tensor *tensor);

/* The common sizes and settings but RANK_BLOCK_EPSILON and RANK_BLOCK_EXPERTS. */
BASE_MUST_CHECK base_status rank_block_check(const rank_model_config *config, base_error *reterr);

/* One rank's share, without what the family alone knows. */
rank_decoder rank_block_describe(const rank_model_config *config, int ranks);

#endif
