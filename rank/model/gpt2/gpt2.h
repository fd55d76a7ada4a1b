/* GPT-2: learned positions, pre-norm blocks, causal attention, tanh-GELU, tied output embedding.
 *
 * Parameters: wte, wpe, the blocks 0 … layers-1, ln_f. Linear weights are stored (in, out), as
 * GPT-2's Conv1D: y = x·W + b. */
#ifndef RANK_MODEL_GPT2_GPT2_H
#define RANK_MODEL_GPT2_GPT2_H

#include "model/family.h"

extern const rank_family rank_gpt2;

#endif
