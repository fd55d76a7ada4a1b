/* Low-rank adapters (LoRA, Hu et al. 2021): beside a linear layer y = x · Wᵀ of a model, which is frozen,
 * stand two small matrices, and the layer gives y + scale · (x · Aᵀ) · Bᵀ. A is (rank, in), B (out, rank),
 * and they alone are trained. B is zero at first, so that the model is what it was.
 *
 * A model's configuration says which of its layers have adapters (rank_model_config.adapters). The adapters
 * are a model of their own: rank_adapters_config gives its configuration, whose tensors are A and B of one
 * layer after the other, by the names of Hugging Face's PEFT. What trains, sums up and saves parameters does
 * so with them.
 *
 * Ranks that share a model share them: tensors of A and B are cut where W is.
 *
 * Pure. A configuration has been checked. */
#ifndef RANK_ADAPTERS_H
#define RANK_ADAPTERS_H

#include "rank/model.h"

enum {
    RANK_ADAPTERS_RANK_MAX = 1024,
    RANK_ADAPTERS_NAMES_BYTES = 256, /* of the layers of a block, with commas */
};

/* The configuration of the adapters that model->adapters describes. */
rank_model_config rank_adapters_config(const rank_model_config *model);

/* Finds the linear layers of a block that a list of names says, as PEFT's target_modules: "q_proj,v_proj",
 * "mlp.c_proj", or "all-linear". "": what PEFT takes for the family. BASE_ERR_INVALID names one that the
 * model does not have, and those that it has. */
BASE_MUST_CHECK base_status rank_adapters_choose(const rank_model_config *model, const char *names,
                                                 uint32_t *targets, base_error *reterr);

/* The names of the target layers, as "q_proj,v_proj". A name that not only targets have is longer. */
void rank_adapters_names(const rank_model_config *model, char names[RANK_ADAPTERS_NAMES_BYTES]);

/* One layer's weight W of the model, and its A and B among the adapters' parameters. */
typedef struct rank_adapter {
    const float *a; /* (rank, in) */
    const float *b; /* (out, rank) */
    size_t in;
    size_t rank;
    float scale;
    bool turned; /* the model holds W as (in, out) */
} rank_adapter;

/* Of a tensor of the model. False: it has no adapter. */
bool rank_adapters_find(const rank_model_config *model, const float *adapters, int tensor,
                        rank_adapter *found);

/* W += scale · B · A for `count` elements of a row of W as the model holds it, from `column` on. Each element
 * is one sum, in the order of the rank: its bits do not depend on which elements are asked for. */
void rank_adapters_add(const rank_adapter *adapter, size_t row, size_t column, size_t count,
                       float *to);

/* The same for all parameters of the model. */
void rank_adapters_merge(const rank_model_config *model, const float *adapters, float *params);

/* The linear layers of a block that have adapters, for passes. config is the model's, or the adapters' own. */
enum { RANK_ADAPTERS_LAYERS_MAX = 8 };
typedef struct rank_adapted {
    size_t offset; /* of W, from the block's own begin, in the model's parameters */
    size_t in;
    size_t out;
    size_t a; /* where A begins, from the block's own begin, in the adapters' */
    size_t b;
} rank_adapted;
typedef struct rank_adapters_block {
    rank_adapted layers[RANK_ADAPTERS_LAYERS_MAX];
    int count;
    size_t elements; /* of the adapters of one block */
} rank_adapters_block;
void rank_adapters_describe(const rank_model_config *config, rank_adapters_block *block);

#endif
