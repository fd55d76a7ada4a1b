/* The table of the Llama family, which rank/model/families.c lists: Mistral is a Llama, Qwen2 one with
 * biases of q, k and v, Qwen3 one with norms of the heads of q and k, and SmolLM3 one some of whose layers have no
 * rope. Phi-3 is a Llama whose files have some matrices as one, and of whose heads rope may turn a part. Mixtral is a
 * Llama, and Qwen3-MoE a Qwen3, with experts in place of the MLP. */
#include "model/llama/llama.h"

#include "model/llama/parts.h"

static const char *const model_types[] = {"llama",     "mistral", "qwen2", "qwen3", "mixtral",
                                          "qwen3_moe", "smollm3", "phi3",  NULL};

/* What old checkpoints have: it follows from the configuration. */
static const char *const ignored[] = {"model.layers.*.self_attn.rotary_emb.inv_freq", NULL};

/* Phi-3's. */
static const rank_fused phi3_fused[] = {
    {"self_attn.qkv_proj.weight",
     {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}},
    {"mlp.gate_up_proj.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"}},
    {.whole = NULL}};

static const rank_fused *fused(const rank_model_config *config)
{
    return config->settings[LLAMA_PHI3] != 0.0 ? phi3_fused : NULL;
}

const rank_family rank_llama = {
    .model_types = model_types,
    .ignored = ignored,
    .file_prefix = "",
    .configure = llama_configure,
    .describe = llama_describe,
    .check = llama_check,
    .fused = fused,
    .tensor_count = llama_tensor_count,
    .tensor = llama_tensor,
    .init = llama_init,
    .block_begin = llama_block_begin,
    .adapted = "q_proj,v_proj",
    .held = transformer_held,
    .reads = transformer_reads,
    .saved_floats = transformer_saved_floats,
    .work_floats = transformer_work_floats,
    .decoder = &llama_decoder,
    .forward = transformer_forward,
    .backward = transformer_backward,
    .weight_grads = transformer_weight_grads,
    .decode = rank_decoder_decode,
};
