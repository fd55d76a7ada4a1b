/* How passes see Llama: its shape, and where its weights are. Called through llama.c's table, and gemma3.c's. */
#include "model/llama/parts.h"

static void describe(const rank_model_config *config, int ranks, rank_decoder *decoder)
{
    *decoder = rank_block_describe(config, ranks);
    decoder->early_bias = config->settings[LLAMA_BIASED] != 0.0;
    decoder->head_norms = config->settings[LLAMA_HEAD_NORMS] != 0.0;
    decoder->unrotated_every = rank_block_setting(config, LLAMA_UNROTATED);
    decoder->experts = rank_block_setting(config, LLAMA_EXPERTS);
    decoder->chosen = rank_block_setting(config, LLAMA_CHOSEN);
    decoder->normed = config->settings[LLAMA_NORMED] != 0.0;
    decoder->rotated = llama_rotated(config);
    if (config->settings[LLAMA_SCALING] == (double)LLAMA_SCALING_LONGROPE) {
        decoder->turn_scale = (float)config->settings[LLAMA_ATTENTION_FACTOR];
    }
    llama_frequencies(config, decoder->frequency);
}

/* This rank's part of a tensor of the block that begins at `block`; NULL: the model has none. Of an
 * expert's tensors the first expert's. */
static const float *block_shard(const rank_run *run, const llama_layout *layout, size_t block,
                                int which)
{
    const size_t count = layout->in_block[which + 1] - layout->in_block[which];
    return count > 0 ? rank_decoder_shard(run, block + layout->in_block[which], count) : NULL;
}

static void expert_weights(const rank_run *run, int layer, int expert, rank_decoder_layer *weights)
{
    llama_layout layout;
    llama_layout_make(run->shape.config, &layout);
    const size_t block = layout.block + (size_t)layer * layout.in_block[LLAMA_BLOCK_TENSORS];
    const float **const to[] = {&weights->gate, &weights->up, &weights->down};
    for (int i = 0; i < 3; i++) {
        const size_t at = block + llama_in_block(&layout, LLAMA_GATE + i, expert);
        *to[i] = rank_decoder_shard(run, at, layout.matrix);
    }
}

void llama_layer_weights(const rank_run *run, int layer, rank_decoder_layer *weights)
{
    llama_layout layout;
    const float *of[LLAMA_BLOCK_TENSORS];
    llama_layout_make(run->shape.config, &layout);
    const size_t block = layout.block + (size_t)layer * layout.in_block[LLAMA_BLOCK_TENSORS];
    for (int i = 0; i < LLAMA_BLOCK_TENSORS; i++) {
        of[i] = block_shard(run, &layout, block, i);
    }
    *weights = (rank_decoder_layer){
        .norm1 = {of[LLAMA_NORM1], NULL},
        .qkv = {of[LLAMA_Q], of[LLAMA_K], of[LLAMA_V]},
        .early_bias = {of[LLAMA_Q_BIAS], of[LLAMA_K_BIAS], of[LLAMA_V_BIAS]},
        .head_norm = {of[LLAMA_Q_NORM], of[LLAMA_K_NORM]},
        .projection = of[LLAMA_PROJECTION],
        .after1 = {of[LLAMA_AFTER1], NULL},
        .norm2 = {of[LLAMA_NORM2], NULL},
        .router = of[LLAMA_ROUTER],
        .gate = of[LLAMA_GATE],
        .up = of[LLAMA_UP],
        .down = of[LLAMA_DOWN],
        .after2 = {of[LLAMA_AFTER2], NULL},
    };
}

void llama_end_weights(const rank_run *run, rank_decoder_ends *weights)
{
    llama_layout layout;
    llama_layout_make(run->shape.config, &layout);
    *weights = (rank_decoder_ends){
        .tokens = rank_decoder_shard(run, 0, layout.block),
        .norm = {rank_decoder_shard(run, layout.final_norm, (size_t)run->shape.config->width),
                 NULL},
        .output = rank_decoder_shard(run, layout.output, layout.block),
    };
}

/* Neighbouring matrices with as many columns are one: q, k and v; gate and up, or those of all experts.
 * So are the biases of q, k and v. The range of what a model lacks is empty. */
void llama_training_layout(const rank_model_config *config, transformer_layout *layout)
{
    /* the tensor of ours that begins where that one of BLOCK_TENSORS does */
    static const int begins[BLOCK_TENSORS + 1] = {
        LLAMA_NORM1,      /* NORM1_WEIGHT */
        LLAMA_Q,          /* NORM1_BIAS: none */
        LLAMA_Q,          /* QKV_WEIGHT */
        LLAMA_Q_BIAS,     /* QKV_BIAS */
        LLAMA_PROJECTION, /* PROJ_WEIGHT */
        LLAMA_NORM2,      /* PROJ_BIAS: none */
        LLAMA_NORM2,      /* NORM2_WEIGHT */
        LLAMA_GATE,       /* NORM2_BIAS: none */
        LLAMA_GATE,       /* UP_WEIGHT */
        LLAMA_DOWN,       /* UP_BIAS: none */
        LLAMA_DOWN,       /* DOWN_WEIGHT */
        LLAMA_Q_NORM,     /* DOWN_BIAS: none */
        LLAMA_Q_NORM,     /* Q_NORM_WEIGHT */
        LLAMA_K_NORM,     /* K_NORM_WEIGHT */
        LLAMA_AFTER1,     /* AFTER1_WEIGHT */
        LLAMA_AFTER2,     /* AFTER2_WEIGHT */
        LLAMA_ROUTER,     /* ROUTER_WEIGHT */
        LLAMA_BLOCK_TENSORS,
    };
    llama_layout of;
    llama_layout_make(config, &of);
    const size_t final_end = of.final_norm + (size_t)config->width;
    *layout = (transformer_layout){
        .transposed = true,
        .wpe = of.block,
        .block = of.block,
        .final_weight = of.final_norm,
        .final_bias = final_end,
        .final_end = final_end,
        .output = of.output,
        .total = of.output > 0 ? of.output + of.block : final_end,
    };
    for (int i = 0; i <= BLOCK_TENSORS; i++) {
        layout->in_block[i] = of.in_block[begins[i]];
    }
}

const rank_decoder_table llama_decoder = {describe, llama_layer_weights, expert_weights,
                                          llama_end_weights, llama_training_layout};
