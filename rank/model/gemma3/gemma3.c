/* The table of Gemma 3's text models, which rank/model/families.c lists. They run on CPUs alone. */
#include "model/gemma3/gemma3.h"

#include "model/gemma3/parts.h"

static const char *const model_types[] = {"gemma3_text", NULL};

static const char *const ignored[] = {NULL};

const rank_family rank_gemma3 = {
    .model_types = model_types,
    .ignored = ignored,
    .file_prefix = "",
    .configure = gemma3_configure,
    .describe = gemma3_describe,
    .check = gemma3_check,
    .tensor_count = llama_tensor_count,
    .tensor = llama_tensor,
    .init = llama_init,
    .block_begin = llama_block_begin,
    .adapted = "q_proj,v_proj",
    .held = transformer_held,
    .reads = transformer_reads,
    .saved_floats = transformer_saved_floats,
    .work_floats = transformer_work_floats,
    .decoder = &gemma3_decoder,
    .cpus_only = true,
    .forward = transformer_forward,
    .backward = transformer_backward,
    .weight_grads = transformer_weight_grads,
    .decode = rank_decoder_decode,
};
