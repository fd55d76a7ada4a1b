/* Llama (Touvron et al. 2023), and Mistral without a sliding window: RMS norm, rotary positions, grouped-query attention,
 * SwiGLU, no biases. Decodes; it does not train yet.
 *
 * Parameters: the token embedding, the blocks 0 … layers-1, the final norm, and the output's matrix
 * unless that is the embedding. Linear weights are stored (out, in): y = x·Wᵀ. */
#ifndef RANK_MODEL_LLAMA_LLAMA_H
#define RANK_MODEL_LLAMA_LLAMA_H

#include "model/family.h"

extern const rank_family rank_llama;

#endif
