/* Llama (Touvron et al. 2023), and Mistral without a sliding window: RMS norm, rotary positions, grouped-query attention,
 * SwiGLU, no biases. Qwen2 has biases of queries, keys and values; Qwen3 (arXiv:2505.09388) RMS norms of the heads of
 * queries and of keys; SmolLM3 layers without rope (arXiv:2501.18795); Phi-3
 * (arXiv:2404.14219) files with several matrices as one (family.h: rank_fused), and in Phi-4-mini (arXiv:2503.01743) a
 * rope that turns a part of each head. Mixtral (arXiv:2401.04088) and Qwen3-MoE have
 * experts in place of the MLP.
 *
 * Parameters: the token embedding, the blocks 0 … layers-1, the final norm, and the output's matrix
 * unless that is the embedding. Linear weights are stored (out, in): y = x·Wᵀ. */
#ifndef RANK_MODEL_LLAMA_LLAMA_H
#define RANK_MODEL_LLAMA_LLAMA_H

#include "model/family.h"

extern const rank_family rank_llama;

#endif
