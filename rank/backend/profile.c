/* Adds up the time that each part of a step takes. Called by the CPU backend after every operation
 * while rank-bench or a training has attached a profile. */
#include "backend/profile.h"

#include "base/clock.h"

static const char *const names[RANK_PART_COUNT] = {
    [RANK_PART_EMBED] = "embeddings",
    [RANK_PART_LAYERNORM] = "residual, layer norm",
    [RANK_PART_ATTENTION] = "attention",
    [RANK_PART_GELU] = "bias, GELU",
    [RANK_PART_CROSS_ENTROPY] = "softmax, cross entropy",
    [RANK_PART_PRODUCT] = "products y = xW, dx",
    [RANK_PART_PRODUCT_DW] = "products dW = x'dy",
    [RANK_PART_PACK] = "packed weights",
    [RANK_PART_LAYERNORM_GRAD] = "layer norm, backward",
    [RANK_PART_ATTENTION_GRAD] = "attention, backward",
    [RANK_PART_GELU_GRAD] = "GELU, backward",
    [RANK_PART_EMBED_GRAD] = "embeddings, backward",
    [RANK_PART_DROPOUT] = "dropout",
    [RANK_PART_OPTIMIZER] = "norm, AdamW",
    [RANK_PART_OTHER] = "rows moved, zeros",
};

const char *rank_part_name(rank_part part)
{
    return names[part];
}

void rank_profile_book(rank_profile *profile, rank_part part)
{
    const int64_t now_ns = base_now_ns();
    profile->ns[part] += now_ns - profile->last_ns;
    profile->last_ns = now_ns;
    rank_trace_operation(profile->trace, (int32_t)part, now_ns);
}
