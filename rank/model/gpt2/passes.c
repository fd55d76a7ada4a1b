/* How passes see GPT-2: its shape, and where its weights are. Called through gpt2.c's table. */
#include "model/gpt2/parts.h"

static void describe(const rank_model_config *config, int ranks, rank_decoder *decoder)
{
    const size_t width = (size_t)config->width;
    const rank_decoder_cut whole = {.heads = (size_t)config->heads,
                                    .kv_heads = (size_t)config->heads,
                                    .head_width = width / (size_t)config->heads,
                                    .hidden = WIDENING * width};
    *decoder = (rank_decoder){
        .heads = (size_t)(config->heads / ranks),
        .kv_heads = (size_t)(config->heads / ranks),
        .head_width = (size_t)(config->width / config->heads),
        .hidden = WIDENING * width / (size_t)ranks,
        .leaves = rank_decoder_leaves(&whole, ranks),
    };
}

static void layer_weights(const rank_run *run, int layer, rank_decoder_layer *weights)
{
    transformer_layout layout;
    const float *of[GPT2_BLOCK_TENSORS];
    gpt2_layout(run->shape.config, &layout);
    const size_t block = layout.block + (size_t)layer * layout.in_block[BLOCK_TENSORS];
    for (int i = 0; i < GPT2_BLOCK_TENSORS; i++) {
        of[i] = rank_decoder_shard(run, block + layout.in_block[i],
                                   layout.in_block[i + 1] - layout.in_block[i]);
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
    const float *tokens = rank_decoder_shard(run, layout.wte, layout.wpe);
    *weights = (rank_decoder_ends){
        .tokens = tokens,
        .positions = rank_decoder_shard(run, layout.wpe, layout.block - layout.wpe),
        .norm = {rank_decoder_shard(run, layout.final_weight, width),
                 rank_decoder_shard(run, layout.final_bias, width)},
        .output = tokens,
    };
}

const rank_decoder_table gpt2_decoder = {describe, layer_weights, NULL, end_weights, gpt2_layout};
