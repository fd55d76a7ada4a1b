/* The table of the GPT-2 family, which rank/model/families.c lists. */
#include "model/gpt2/gpt2.h"

#include "model/gpt2/parts.h"

static const char *const model_types[] = {"gpt2", NULL};

/* Masks that old checkpoints have. */
static const char *const ignored[] = {"h.*.attn.bias", "h.*.attn.masked_bias", NULL};

const rank_family rank_gpt2 = {
    .model_types = model_types,
    .ignored = ignored,
    .file_prefix = "transformer.",
    .configure = gpt2_configure,
    .describe = gpt2_describe,
    .check = gpt2_check,
    .tensor_count = gpt2_tensor_count,
    .tensor = gpt2_tensor,
    .init = gpt2_init,
    .block_begin = gpt2_block_begin,
    .adapted = "c_attn",
    .held = transformer_held,
    .reads = transformer_reads,
    .saved_floats = transformer_saved_floats,
    .work_floats = transformer_work_floats,
    .decoder = &gpt2_decoder,
    .bfloat16 = true,
    .forward = transformer_forward,
    .backward = transformer_backward,
    .weight_grads = transformer_weight_grads,
    .decode = rank_decoder_decode,
};
