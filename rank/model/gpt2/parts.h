/* What the files of this directory share. */
#ifndef RANK_MODEL_GPT2_PARTS_H
#define RANK_MODEL_GPT2_PARTS_H

#include "model/gpt2/gpt2.h"
#include "model/transformer/transformer.h"

enum {
    WIDENING = 4,                       /* F = 4C */
    GPT2_BLOCK_TENSORS = Q_NORM_WEIGHT, /* of BLOCK_TENSORS; the others are empty */
};

/* tensors.c */
base_status gpt2_check(const rank_model_config *config, base_error *reterr);
int gpt2_tensor_count(const rank_model_config *config);
void gpt2_tensor(const rank_model_config *config, int index, rank_tensor *tensor);
int gpt2_block_begin(const rank_model_config *config, int layer);
void gpt2_init(const rank_model_config *config, uint64_t seed, float *params);
void gpt2_layout(const rank_model_config *config, transformer_layout *layout);

/* config_json.c */
base_status gpt2_configure(const struct json_t *object, rank_model_config *config,
                           base_error *reterr);
struct json_t *gpt2_describe(const rank_model_config *config);

/* passes.c */
extern const rank_decoder_table gpt2_decoder;

#endif
