/* Gemma 3's text models (arXiv:2503.19786). As a Qwen3 they have rotary positions, grouped-query
 * attention, norms of the heads of queries and of keys, a gated MLP and no biases. Otherwise:
 *
 * - a norm multiplies by 1 + its weight, and there are four in a block: before and behind attention, before and
 *   behind the MLP;
 * - the MLP is gated by GELU, in the tanh form;
 * - the stream begins with the embedding times sqrt(width), and the output's matrix is the embedding;
 * - scores are divided by sqrt(query_pre_attn_scalar);
 * - each N-th layer sees all tokens. The others see the last ones, a window of them, and have a rope of their own.
 *
 * Parameters: the embedding, the blocks 0 … layers-1, the final norm. Linear weights are stored (out, in): y = x·Wᵀ. */
#ifndef RANK_MODEL_GEMMA3_GEMMA3_H
#define RANK_MODEL_GEMMA3_GEMMA3_H

#include "model/family.h"

extern const rank_family rank_gemma3;

#endif
