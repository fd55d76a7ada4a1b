/* Sums of token and position embeddings, from a plain or a packed table, and their gradient.
 * Compiled once per instruction set; models call them through the backend. */
#include <string.h>

#include "kernels_isa.h"

/* Zero plus the sum: so that -0 becomes 0, as it does where ranks add their zeros to it. */
void KERNEL(embed)(const rank_embed *args)
{
    const size_t width = args->width;
    for (size_t t = 0; t < args->tokens; t++) {
        float *out = args->out + t * width;
        if (!rank_embed_has(args->ids[t], args->first_id, args->id_count)) {
            memset(out, 0, width * sizeof *out);
            continue;
        }
        const float *token = args->wte + (size_t)(args->ids[t] - args->first_id) * width;
        const float *position =
            args->wpe != NULL ? args->wpe + (size_t)args->positions[t] * width : NULL;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            vec sum = vec_load(token + j, left);
            if (position != NULL) {
                sum += vec_load(position + j, left);
            }
            vec_store(out + j, vec_set(0.0f) + sum, left);
        }
    }
}

static float widened(rank_bfloat16 half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float element(const void *from, size_t at, rank_type type)
{
    return type == RANK_FLOAT32 ? ((const float *)from)[at]
                                : widened(((const rank_bfloat16 *)from)[at]);
}

/* A column of a packed table, as numbers in float32. */
static void get_column(const rank_embed_packed *args, size_t column, float *out)
{
    const size_t panel =
        column / RANK_PANEL * RANK_PANEL * rank_pack_depth(args->wte_type, args->width, 1);
    const size_t in_panel = column % RANK_PANEL;
    if (args->wte_type != RANK_INT8) {
        for (size_t j = 0; j < args->width; j++) {
            out[j] = element(args->wte, panel + in_panel + j * RANK_PANEL, args->wte_type);
        }
        return;
    }
    const rank_bfloat16 *block = (const rank_bfloat16 *)args->wte + panel + in_panel;
    for (size_t j = 0; j < args->width; j++) {
        const size_t i = j % RANK_BLOCK;
        const uint16_t pair = block[(1 + i / 2) * RANK_PANEL];
        out[j] = (float)(int8_t)(i % 2 == 0 ? pair : pair >> 8) * widened(*block);
        block += i + 1 == RANK_BLOCK ? rank_block_rows(RANK_INT8, RANK_BLOCK) * RANK_PANEL : 0;
    }
}

void KERNEL(embed_packed)(const rank_embed_packed *args)
{
    const size_t width = args->width;
    for (size_t t = 0; t < args->tokens; t++) {
        const int32_t column = args->ids[t] - args->first_id;
        const float *position =
            args->wpe != NULL ? args->wpe + (size_t)args->positions[t] * width : NULL;
        float *out = args->out + t * width;
        if (column < 0 || column >= args->columns) {
            memset(out, 0, width * sizeof *out);
            continue;
        }
        if (args->wte_row == 0) {
            get_column(args, (size_t)column, out);
        }
        for (size_t j = 0; j < width; j++) {
            const float value =
                args->wte_row == 0
                    ? out[j]
                    : element(args->wte, (size_t)column * args->wte_row + j, args->wte_type);
            out[j] = 0.0f + (position != NULL ? value + position[j] : value);
        }
    }
}

/* to += from. */
static void add_row(float *to, const float *from, size_t width)
{
    for (size_t j = 0; j < width; j += VEC_LANES) {
        const size_t left = width - j;
        vec_store(to + j, vec_load(to + j, left) + vec_load(from + j, left), left);
    }
}

void KERNEL(embed_grad)(const rank_embed_grad *args)
{
    const size_t width = args->width;
    for (size_t t = 0; t < args->tokens; t++) {
        const float *dx = args->dx + t * width;
        if (rank_embed_has(args->ids[t], args->first_id, args->id_count)) {
            add_row(args->dwte + (size_t)(args->ids[t] - args->first_id) * width, dx, width);
        }
        if (args->dwpe != NULL) {
            add_row(args->dwpe + (size_t)args->positions[t] * width, dx, width);
        }
    }
}
