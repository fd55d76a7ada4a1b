/* How passes see GPT-2: its shape, and where its weights are. Called through gpt2.c's table. */
#include "model/gpt2/parts.h"

static void describe(const rank_model_config *config, int ranks, rank_decoder *decoder)
{
    const size_t width = (size_t)config->width;
    *decoder = (rank_decoder){
        .heads = (size_t)(config->heads / ranks),
        .kv_heads = (size_t)(config->heads / ranks),
        .head_width = gpt2_head_width(config),
        .hidden = WIDENING * width / (size_t)ranks,
        .attention_leaves = rank_tp_leaves((size_t)config->heads, ranks),
        .hidden_leaves = rank_decoder_hidden_leaves(WIDENING * width, ranks),
    };
}

/* This rank's part of the tensor at `offset` of the whole model's parameters. */
static const float *shard(const rank_run *run, size_t offset, size_t count)
{
    return run->hooks->need(run->hooks->weights, offset, count);
}

static void layer_weights(const rank_run *run, int layer, rank_decoder_layer *weights)
{
    transformer_layout layout;
    const float *of[BLOCK_TENSORS];
    gpt2_layout(run->shape.config, &layout);
    const size_t block = layout.block + (size_t)layer * layout.in_block[BLOCK_TENSORS];
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        of[i] = shard(run, block + layout.in_block[i], layout.in_block[i + 1] - layout.in_block[i]);
    }
    *weights = (rank_decoder_layer){
        .norm1 = {of[NORM1_WEIGHT], of[NORM1_BIAS]},
        .qkv = {of[QKV_WEIGHT]},
        .qkv_bias = of[QKV_BIAS],
        .projection = of[PROJ_WEIGHT],
        .projection_bias = of[PROJ_BIAS],
        .norm2 = {of[NORM2_WEIGHT], of[NORM2_BIAS]},
        .up = of[UP_WEIGHT],
        .up_bias = of[UP_BIAS],
        .down = of[DOWN_WEIGHT],
        .down_bias = of[DOWN_BIAS],
    };
}

static void end_weights(const rank_run *run, rank_decoder_ends *weights)
{
    const size_t width = (size_t)run->shape.config->width;
    transformer_layout layout;
    gpt2_layout(run->shape.config, &layout);
    const float *tokens = shard(run, layout.wte, layout.wpe);
    *weights = (rank_decoder_ends){
        .tokens = tokens,
        .positions = shard(run, layout.wpe, layout.block - layout.wpe),
        .norm = {shard(run, layout.final_weight, width), shard(run, layout.final_bias, width)},
        .output = tokens,
    };
}

static const rank_decoder_table decoder = {describe, layer_weights, end_weights};
static const transformer_table transformer = {describe, gpt2_layout};

void gpt2_held(const rank_shape *shape, rank_held *held)
{
    transformer_held(&transformer, shape, held);
}

/* Decoding keeps nothing. */
size_t gpt2_saved_floats(const rank_shape *shape)
{
    return shape->tp != NULL ? 0 : transformer_saved_floats(&transformer, shape);
}

size_t gpt2_work_floats(const rank_shape *shape)
{
    return shape->tp != NULL ? rank_decoder_work_floats(&decoder, shape)
                             : transformer_work_floats(&transformer, shape);
}

size_t gpt2_head_width(const rank_model_config *config)
{
    return (size_t)(config->width / config->heads);
}

size_t gpt2_cache_floats(const rank_shape *shape)
{
    return rank_decoder_cache_floats(&decoder, shape);
}

size_t gpt2_exchanged_floats(const rank_shape *shape)
{
    return rank_decoder_exchanged_floats(shape);
}

void gpt2_forward(const rank_run *run, const rank_forward_args *args)
{
    transformer_forward(&transformer, run, args);
}

void gpt2_backward(const rank_run *run, const rank_backward_args *args)
{
    transformer_backward(&transformer, run, args);
}

void gpt2_decode(const rank_run *run, const rank_decode_args *args)
{
    rank_decoder_decode(&decoder, run, args);
}
