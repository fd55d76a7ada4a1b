/* GPT-2's tensors: names, shapes, offsets, how they may be cut, their first values. Called through
 * gpt2.c's table. */
#include <stdio.h>

#include "model/config_read.h"
#include "model/gpt2/parts.h"
#include "model/normal.h"

enum { CONTEXT_MAX = 1 << 16 };

base_status gpt2_check(const rank_model_config *config, base_error *reterr)
{
    base_status status =
        rank_config_range("the vocabulary", config->vocab_size, RANK_VOCAB_MAX, reterr);
    if (status == BASE_OK) {
        status = rank_config_range("the width", config->width, RANK_WIDTH_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = rank_config_range("the number of layers", config->layers, RANK_LAYERS_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = rank_config_range("the number of heads", config->heads, config->width, reterr);
    }
    if (status == BASE_OK) {
        status = rank_config_range("the context", config->context, CONTEXT_MAX, reterr);
    }
    if (status == BASE_OK && config->width % config->heads != 0) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "model: the width %d is not a multiple of its %d heads", config->width,
                           config->heads);
    }
    return status;
}

static const struct {
    const char *name;
    int rows;    /* in widths; 0: a vector */
    int columns; /* in widths */
    rank_cut_kind cut;
    int axis;
    int parts;
} block_tensors[BLOCK_TENSORS] = {
    [NORM1_WEIGHT] = {"ln_1.weight", 0, 1, RANK_CUT_NONE, 0, 1},
    [NORM1_BIAS] = {"ln_1.bias", 0, 1, RANK_CUT_NONE, 0, 1},
    [QKV_WEIGHT] = {"attn.c_attn.weight", 1, 3, RANK_CUT_HEADS, 1, 3},
    [QKV_BIAS] = {"attn.c_attn.bias", 0, 3, RANK_CUT_HEADS, 0, 3},
    [PROJ_WEIGHT] = {"attn.c_proj.weight", 1, 1, RANK_CUT_HEADS, 0, 1},
    [PROJ_BIAS] = {"attn.c_proj.bias", 0, 1, RANK_CUT_NONE, 0, 1},
    [NORM2_WEIGHT] = {"ln_2.weight", 0, 1, RANK_CUT_NONE, 0, 1},
    [NORM2_BIAS] = {"ln_2.bias", 0, 1, RANK_CUT_NONE, 0, 1},
    [UP_WEIGHT] = {"mlp.c_fc.weight", 1, WIDENING, RANK_CUT_HIDDEN, 1, 1},
    [UP_BIAS] = {"mlp.c_fc.bias", 0, WIDENING, RANK_CUT_HIDDEN, 0, 1},
    [DOWN_WEIGHT] = {"mlp.c_proj.weight", WIDENING, 1, RANK_CUT_HIDDEN, 0, 1},
    [DOWN_BIAS] = {"mlp.c_proj.bias", 0, 1, RANK_CUT_NONE, 0, 1},
};

static size_t block_tensor_count(int tensor, size_t width)
{
    const size_t rows = (size_t)block_tensors[tensor].rows * width;
    return (rows > 0 ? rows : 1) * (size_t)block_tensors[tensor].columns * width;
}

void gpt2_layout(const rank_model_config *config, transformer_layout *layout)
{
    const size_t width = (size_t)config->width;
    *layout = (transformer_layout){.wte = 0};
    layout->wpe = (size_t)config->vocab_size * width;
    layout->block = layout->wpe + (size_t)config->context * width;
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        layout->in_block[i + 1] = layout->in_block[i] + block_tensor_count(i, width);
    }
    layout->final_weight = layout->block + (size_t)config->layers * layout->in_block[BLOCK_TENSORS];
    layout->final_bias = layout->final_weight + width;
    layout->final_end = layout->final_bias + width;
    layout->output = layout->wte;
    layout->total = layout->final_end;
}

/* Behind the two embeddings. */
int gpt2_block_begin(const rank_model_config *config, int layer)
{
    (void)config;
    return 2 + layer * GPT2_BLOCK_TENSORS;
}

int gpt2_tensor_count(const rank_model_config *config)
{
    return gpt2_block_begin(config, config->layers) + 2;
}

static void set_block_tensor(const rank_model_config *config, const transformer_layout *layout,
                             int index, rank_tensor *tensor)
{
    const int layer = index / GPT2_BLOCK_TENSORS;
    const int which = index % GPT2_BLOCK_TENSORS;
    const size_t width = (size_t)config->width;
    (void)snprintf(tensor->name, sizeof tensor->name, "h.%d.%s", layer, block_tensors[which].name);
    rank_tensor_set_shape(tensor, (size_t)block_tensors[which].rows * width,
                          (size_t)block_tensors[which].columns * width,
                          layout->block + (size_t)layer * layout->in_block[BLOCK_TENSORS] +
                              layout->in_block[which]);
    const rank_cut_kind kind = block_tensors[which].cut;
    tensor->pack = tensor->dims == 2 ? RANK_TENSOR_PACKED : RANK_TENSOR_PLAIN;
    tensor->cut = (rank_cut){.kind = kind,
                             .axis = block_tensors[which].axis,
                             .parts = block_tensors[which].parts,
                             .unit = kind == RANK_CUT_HEADS ? width / (size_t)config->heads : 1};
}

void gpt2_tensor(const rank_model_config *config, int index, rank_tensor *tensor)
{
    transformer_layout layout;
    gpt2_layout(config, &layout);
    const size_t width = (size_t)config->width;
    const int from_end = gpt2_tensor_count(config) - index;
    *tensor = (rank_tensor){.cut = {.parts = 1, .unit = 1}};
    if (index == 0) {
        (void)snprintf(tensor->name, sizeof tensor->name, "wte.weight");
        rank_tensor_set_shape(tensor, (size_t)config->vocab_size, width, layout.wte);
        tensor->cut.kind = RANK_CUT_VOCAB;
        tensor->pack = RANK_TENSOR_PACKED_TRANSPOSED;
        tensor->tied = "lm_head.weight";
    } else if (index == 1) {
        (void)snprintf(tensor->name, sizeof tensor->name, "wpe.weight");
        rank_tensor_set_shape(tensor, (size_t)config->context, width, layout.wpe);
    } else if (from_end == 2) {
        (void)snprintf(tensor->name, sizeof tensor->name, "ln_f.weight");
        rank_tensor_set_shape(tensor, 0, width, layout.final_weight);
    } else if (from_end == 1) {
        (void)snprintf(tensor->name, sizeof tensor->name, "ln_f.bias");
        rank_tensor_set_shape(tensor, 0, width, layout.final_bias);
    } else {
        set_block_tensor(config, &layout, index - 2, tensor);
    }
}

static bool is_residual_projection(const rank_model_config *config, int index)
{
    const int which = (index - 2) % GPT2_BLOCK_TENSORS;
    return index >= 2 && index < gpt2_tensor_count(config) - 2 &&
           (which == PROJ_WEIGHT || which == DOWN_WEIGHT);
}

/* Norms' weights are the only vectors that begin at 1. */
static bool is_norm_weight(const rank_model_config *config, int index)
{
    const int which = (index - 2) % GPT2_BLOCK_TENSORS;
    const int from_end = gpt2_tensor_count(config) - index;
    return from_end == 2 ||
           (index >= 2 && from_end > 2 && (which == NORM1_WEIGHT || which == NORM2_WEIGHT));
}

/* normal(0, 0.02), residual projections scaled by 1/sqrt(2L), norms 1, biases 0. */
void gpt2_init(const rank_model_config *config, uint64_t seed, float *params)
{
    const double residual = 0.02 / __builtin_sqrt(2.0 * config->layers);
    for (int i = 0; i < gpt2_tensor_count(config); i++) {
        rank_tensor tensor;
        gpt2_tensor(config, i, &tensor);
        float *to = params + tensor.offset;
        if (tensor.dims == 2) {
            const float deviation = is_residual_projection(config, i) ? (float)residual : 0.02f;
            rank_fill_normal(seed, i, deviation, to, tensor.count);
        } else {
            rank_fill(is_norm_weight(config, i) ? 1.0f : 0.0f, to, tensor.count);
        }
    }
}
