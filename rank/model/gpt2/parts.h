/* What the files of this directory share. */
#ifndef RANK_MODEL_GPT2_PARTS_H
#define RANK_MODEL_GPT2_PARTS_H

#include "model/gpt2/gpt2.h"
#include "model/transformer/transformer.h"

enum {
    WIDENING = 4, /* F = 4C */
};

/* tensors.c */
base_status gpt2_check(const rank_model_config *config, base_error *reterr);
int gpt2_tensor_count(const rank_model_config *config);
void gpt2_tensor(const rank_model_config *config, int index, rank_tensor *tensor);
void gpt2_init(const rank_model_config *config, uint64_t seed, float *params);
void gpt2_layout(const rank_model_config *config, transformer_layout *layout);

/* config_json.c */
base_status gpt2_configure(const struct json_t *object, rank_model_config *config,
                           base_error *reterr);
struct json_t *gpt2_describe(const rank_model_config *config);

/* passes.c */
void gpt2_held(const rank_shape *shape, rank_held *held);
size_t gpt2_saved_floats(const rank_shape *shape);
size_t gpt2_work_floats(const rank_shape *shape);
size_t gpt2_exchanged_floats(const rank_shape *shape);
size_t gpt2_head_width(const rank_model_config *config);
size_t gpt2_cache_floats(const rank_shape *shape);
void gpt2_forward(const rank_run *run, const rank_forward_args *args);
void gpt2_backward(const rank_run *run, const rank_backward_args *args);
void gpt2_decode(const rank_run *run, const rank_decode_args *args);

#endif
