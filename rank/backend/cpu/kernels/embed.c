#include "kernels_isa.h"

void KERNEL(embed)(const rank_embed *args)
{
    const size_t width = args->width;
    for (size_t t = 0; t < args->tokens; t++) {
        const float *token = args->wte + (size_t)args->ids[t] * width;
        const float *position = args->wpe + (size_t)args->positions[t] * width;
        float *out = args->out + t * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            vec_store(out + j, vec_load(token + j, left) + vec_load(position + j, left), left);
        }
    }
}

void KERNEL(embed_grad)(const rank_embed_grad *args)
{
    const size_t width = args->width;
    for (size_t t = 0; t < args->tokens; t++) {
        const float *dx = args->dx + t * width;
        float *dtoken = args->dwte + (size_t)args->ids[t] * width;
        float *dposition = args->dwpe + (size_t)args->positions[t] * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec d = vec_load(dx + j, left);
            vec_store(dtoken + j, vec_load(dtoken + j, left) + d, left);
            vec_store(dposition + j, vec_load(dposition + j, left) + d, left);
        }
    }
}
