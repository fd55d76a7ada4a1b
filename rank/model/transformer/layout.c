/* Where parameters stand in the array: of a model, of a rank's part of it, and of a stage. Called by
 * memory.c, and through the families' tables. */
#include "model/transformer/pass.h"

/* Where this rank's parts begin: in the order of rank_model_tensor. */
static void cut_layout(const rank_model_config *config, transformer_layout *layout)
{
    static const bool cut[BLOCK_TENSORS] = {
        [QKV_WEIGHT] = true, [QKV_BIAS] = true, [PROJ_WEIGHT] = true,
        [UP_WEIGHT] = true,  [UP_BIAS] = true,  [DOWN_WEIGHT] = true,
    };
    const transformer_layout whole = *layout;
    const int ranks = rank_tensor_ranks(config);
    const size_t experts = (size_t)rank_expert_ranks(config);
    const size_t tokens =
        (size_t)rank_tp_ids_of(config->vocab_size, ranks, config->tensor_rank).count *
        (size_t)config->width;
    layout->wpe = layout->wte + tokens;
    layout->block = layout->wpe + (whole.block - whole.wpe);
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        const size_t count = whole.in_block[i + 1] - whole.in_block[i];
        const bool of_experts = i == UP_WEIGHT || i == DOWN_WEIGHT;
        layout->in_block[i + 1] =
            layout->in_block[i] + count / (cut[i] ? (size_t)ranks : 1) / (of_experts ? experts : 1);
    }
    layout->final_weight = layout->block + (size_t)config->layers * layout->in_block[BLOCK_TENSORS];
    layout->final_bias = layout->final_weight + (whole.final_bias - whole.final_weight);
    layout->final_end = layout->final_weight + (whole.final_end - whole.final_weight);
    layout->output = transformer_is_tied(&whole) ? layout->wte : layout->final_end;
    layout->total = layout->final_end + (transformer_is_tied(&whole) ? 0 : tokens);
}

void transformer_layout_of(const rank_model_config *config, transformer_layout *layout)
{
    config->family->decoder->layout(config, layout);
    if (rank_tensor_ranks(config) > 1 || rank_expert_ranks(config) > 1) {
        cut_layout(config, layout);
    }
}

/* The first stage holds the embeddings, the last one the final norm and the output's matrix. */
void transformer_held(const rank_shape *shape, rank_held *held)
{
    transformer_layout layout;
    transformer_layout_of(shape->config, &layout);
    const bool first = shape->first_layer == 0;
    const bool last = shape->end_layer == shape->config->layers;
    const size_t tied = transformer_is_tied(&layout) ? layout.wpe : 0;
    const size_t layer_count = layout.in_block[BLOCK_TENSORS];
    const size_t begin = layout.block + (size_t)shape->first_layer * layer_count;
    const size_t end = last ? layout.total : layout.block + (size_t)shape->end_layer * layer_count;
    *held = (rank_held){.tied_count = first != last ? tied : 0};
    if (last && held->tied_count > 0) {
        rank_held_add(held, 0, tied);
    }
    rank_held_add(held, first ? 0 : begin, first ? end : end - begin);
}

void transformer_reads(const rank_model_config *config, int part, rank_model_reads *reads)
{
    transformer_layout layout;
    transformer_layout_of(config, &layout);
    const size_t *in_block = layout.in_block;
    const size_t layer_count = in_block[BLOCK_TENSORS];
    const bool biased = in_block[DOWN_BIAS + 1] > in_block[DOWN_BIAS];
    const size_t below = biased ? layer_count - in_block[DOWN_BIAS] : 0;
    *reads = (rank_model_reads){.count = {0}};
    if (part == 0) {
        reads->count[0] = layout.block;
        return;
    }
    const bool last = part > config->layers;
    const size_t begin = layout.block + (size_t)(part - 1) * layer_count;
    reads->offset[0] = part > 1 ? begin - below : begin;
    reads->count[0] = (last ? layout.total : begin + layer_count) - reads->offset[0];
    reads->count[1] = last && transformer_is_tied(&layout) ? layout.wpe - layout.wte : 0;
    reads->offset[1] = layout.wte;
}
