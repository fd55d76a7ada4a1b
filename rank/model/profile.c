#include "model/profile.h"

#include "base/clock.h"
#include "model/state.h"

static const char *const names[RANK_PART_COUNT] = {
    [RANK_PART_EMBED] = "embeddings",
    [RANK_PART_LAYERNORM] = "residual, layer norm",
    [RANK_PART_ATTENTION] = "attention",
    [RANK_PART_GELU] = "bias, GELU",
    [RANK_PART_CROSS_ENTROPY] = "softmax, cross entropy",
    [RANK_PART_MATMUL_FORWARD] = "products y = xW",
    [RANK_PART_MATMUL_DX] = "products dx = dyW'",
    [RANK_PART_MATMUL_DW] = "products dW = x'dy",
    [RANK_PART_TRANSPOSE] = "transposed weights",
    [RANK_PART_LAYERNORM_GRAD] = "layer norm, backward",
    [RANK_PART_ATTENTION_GRAD] = "attention, backward",
    [RANK_PART_GELU_GRAD] = "GELU, backward",
    [RANK_PART_EMBED_GRAD] = "embeddings, backward",
};

const char *rank_part_name(rank_part part)
{
    return names[part];
}

void rank_model_set_profile(rank_model *model, rank_profile *profile)
{
    model->profile = profile;
    if (profile != NULL) {
        profile->last_ns = base_now_ns();
    }
}

void rank_profile_book(rank_profile *profile, rank_part part)
{
    if (profile == NULL) {
        return;
    }
    const int64_t now_ns = base_now_ns();
    profile->ns[part] += now_ns - profile->last_ns;
    profile->last_ns = now_ns;
}
