#include <stdio.h>

#include "model/state.h"
#include "rank/model.h"

enum {
    VOCAB_MAX = 1 << 20,
    WIDTH_MAX = 1 << 14,
    LAYERS_MAX = 512,
    CONTEXT_MAX = 1 << 16,
};

static base_status check_range(const char *what, int value, int max, base_error *reterr)
{
    if (value < 1 || value > max) {
        return base_fail(reterr, BASE_ERR_INVALID, "model: %s is %d, it must be 1 … %d", what,
                         value, max);
    }
    return BASE_OK;
}

base_status rank_model_config_check(const rank_model_config *config, base_error *reterr)
{
    base_status status = check_range("the vocabulary", config->vocab_size, VOCAB_MAX, reterr);
    if (status == BASE_OK) {
        status = check_range("the width", config->width, WIDTH_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = check_range("the number of layers", config->layers, LAYERS_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = check_range("the number of heads", config->heads, config->width, reterr);
    }
    if (status == BASE_OK) {
        status = check_range("the context", config->context, CONTEXT_MAX, reterr);
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
} block_tensors[RANK_TENSORS_PER_BLOCK] = {
    [LN1_WEIGHT] = {"ln_1.weight", 0, 1},
    [LN1_BIAS] = {"ln_1.bias", 0, 1},
    [QKV_WEIGHT] = {"attn.c_attn.weight", 1, 3},
    [QKV_BIAS] = {"attn.c_attn.bias", 0, 3},
    [PROJ_WEIGHT] = {"attn.c_proj.weight", 1, 1},
    [PROJ_BIAS] = {"attn.c_proj.bias", 0, 1},
    [LN2_WEIGHT] = {"ln_2.weight", 0, 1},
    [LN2_BIAS] = {"ln_2.bias", 0, 1},
    [UP_WEIGHT] = {"mlp.c_fc.weight", 1, WIDENING},
    [UP_BIAS] = {"mlp.c_fc.bias", 0, WIDENING},
    [DOWN_WEIGHT] = {"mlp.c_proj.weight", WIDENING, 1},
    [DOWN_BIAS] = {"mlp.c_proj.bias", 0, 1},
};

static size_t block_tensor_count(int tensor, size_t width)
{
    const size_t rows = (size_t)block_tensors[tensor].rows * width;
    return (rows > 0 ? rows : 1) * (size_t)block_tensors[tensor].columns * width;
}

void rank_layout_make(const rank_model_config *config, rank_layout *layout)
{
    const size_t width = (size_t)config->width;
    *layout = (rank_layout){.wte = 0};
    layout->wpe = (size_t)config->vocab_size * width;
    layout->block = layout->wpe + (size_t)config->context * width;
    for (int i = 0; i < RANK_TENSORS_PER_BLOCK; i++) {
        layout->in_block[i] = layout->block_count;
        layout->block_count += block_tensor_count(i, width);
    }
    layout->final_weight = layout->block + (size_t)config->layers * layout->block_count;
    layout->final_bias = layout->final_weight + width;
    layout->total = layout->final_bias + width;
}

size_t rank_model_param_count(const rank_model_config *config)
{
    rank_layout layout;
    rank_layout_make(config, &layout);
    return layout.total;
}

int rank_model_tensor_count(const rank_model_config *config)
{
    return 4 + config->layers * RANK_TENSORS_PER_BLOCK;
}

static void set_tensor(rank_tensor *tensor, size_t rows, size_t columns, size_t offset)
{
    tensor->dims = rows > 0 ? 2 : 1;
    tensor->shape[0] = rows > 0 ? rows : columns;
    tensor->shape[1] = rows > 0 ? columns : 1;
    tensor->count = (rows > 0 ? rows : 1) * columns;
    tensor->offset = offset;
    tensor->decay = rows > 0;
}

static void set_block_tensor(const rank_model_config *config, const rank_layout *layout, int index,
                             rank_tensor *tensor)
{
    const int layer = index / RANK_TENSORS_PER_BLOCK;
    const int which = index % RANK_TENSORS_PER_BLOCK;
    const size_t width = (size_t)config->width;
    (void)snprintf(tensor->name, sizeof tensor->name, "h.%d.%s", layer, block_tensors[which].name);
    set_tensor(tensor, (size_t)block_tensors[which].rows * width,
               (size_t)block_tensors[which].columns * width,
               layout->block + (size_t)layer * layout->block_count + layout->in_block[which]);
}

void rank_model_tensor(const rank_model_config *config, int index, rank_tensor *tensor)
{
    rank_layout layout;
    rank_layout_make(config, &layout);
    const size_t width = (size_t)config->width;
    const int from_end = rank_model_tensor_count(config) - index;
    *tensor = (rank_tensor){.dims = 0};
    if (index == 0) {
        (void)snprintf(tensor->name, sizeof tensor->name, "wte.weight");
        set_tensor(tensor, (size_t)config->vocab_size, width, layout.wte);
    } else if (index == 1) {
        (void)snprintf(tensor->name, sizeof tensor->name, "wpe.weight");
        set_tensor(tensor, (size_t)config->context, width, layout.wpe);
    } else if (from_end == 2) {
        (void)snprintf(tensor->name, sizeof tensor->name, "ln_f.weight");
        set_tensor(tensor, 0, width, layout.final_weight);
    } else if (from_end == 1) {
        (void)snprintf(tensor->name, sizeof tensor->name, "ln_f.bias");
        set_tensor(tensor, 0, width, layout.final_bias);
    } else {
        set_block_tensor(config, &layout, index - 2, tensor);
    }
}
