/* How passes see Gemma 3: its shape, and where its weights are. Called through gemma3.c's table. */
#include <math.h>
#include <string.h>

#include "model/gemma3/parts.h"

float gemma3_embed_scale(const rank_model_config *config)
{
    /* bits behind the leading one that are kept; no width's root is too large or too small for any of them */
    static const int kept[GEMMA3_DTYPES] = {
        [GEMMA3_FLOAT32] = 23, [GEMMA3_BFLOAT16] = 7, [GEMMA3_FLOAT16] = 10};
    int exponent = 0;
    const float root = (float)sqrt((double)config->width);
    const float fraction = frexpf(root, &exponent);
    const int shift = kept[(gemma3_dtype)config->settings[GEMMA3_DTYPE]] + 1;
    return ldexpf(rintf(ldexpf(fraction, shift)), exponent - shift);
}

static void describe(const rank_model_config *config, int ranks, rank_decoder *decoder)
{
    const double *of = config->settings;
    *decoder = rank_block_describe(config, ranks);
    decoder->one_more = true;
    decoder->gelu = true;
    decoder->head_norms = true;
    decoder->after_norms = true;
    decoder->embed_scale = gemma3_embed_scale(config);
    decoder->score_scale = (float)(1.0 / sqrt(of[GEMMA3_QUERY_SCALAR]));
    decoder->window = rank_block_setting(config, GEMMA3_WINDOW);
    decoder->full_every = rank_block_setting(config, GEMMA3_FULL_EVERY);
    for (size_t i = 0; i < decoder->head_width / 2; i++) {
        decoder->frequency[i] = rank_rope_frequency(of[GEMMA3_THETA], i, decoder->head_width) /
                                (float)of[GEMMA3_FACTOR];
        decoder->local_frequency[i] =
            rank_rope_frequency(of[GEMMA3_LOCAL_THETA], i, decoder->head_width);
    }
}

static void layer_weights(const rank_run *run, int layer, rank_decoder_layer *weights)
{
    gemma3_layout layout;
    const float *of[GEMMA3_BLOCK_TENSORS];
    gemma3_layout_make(run->shape.config, &layout);
    const size_t block = layout.block + (size_t)layer * layout.in_block[GEMMA3_BLOCK_TENSORS];
    for (int i = 0; i < GEMMA3_BLOCK_TENSORS; i++) {
        of[i] = rank_decoder_shard(run, block + layout.in_block[i],
                                   layout.in_block[i + 1] - layout.in_block[i]);
    }
    *weights = (rank_decoder_layer){
        .norm1 = {of[GEMMA3_NORM1], NULL},
        .qkv = {of[GEMMA3_Q], of[GEMMA3_K], of[GEMMA3_V]},
        .head_norm = {of[GEMMA3_Q_NORM], of[GEMMA3_K_NORM]},
        .projection = of[GEMMA3_PROJECTION],
        .after1 = {of[GEMMA3_AFTER1], NULL},
        .norm2 = {of[GEMMA3_NORM2], NULL},
        .gate = of[GEMMA3_GATE],
        .up = of[GEMMA3_UP],
        .down = of[GEMMA3_DOWN],
        .after2 = {of[GEMMA3_AFTER2], NULL},
    };
}

static void end_weights(const rank_run *run, rank_decoder_ends *weights)
{
    gemma3_layout layout;
    gemma3_layout_make(run->shape.config, &layout);
    const float *tokens = rank_decoder_shard(run, 0, layout.block);
    *weights = (rank_decoder_ends){
        .tokens = tokens,
        .norm = {rank_decoder_shard(run, layout.final_norm, (size_t)run->shape.config->width),
                 NULL},
        .output = tokens,
    };
}

/* Neighbouring matrices with as many columns are one: q, k and v; gate and up. */
static void training_layout(const rank_model_config *config, transformer_layout *layout)
{
    /* the tensor of ours that begins where that one of BLOCK_TENSORS does */
    static const int begins[BLOCK_TENSORS + 1] = {
        GEMMA3_NORM1,         /* NORM1_WEIGHT */
        GEMMA3_Q,             /* NORM1_BIAS: none */
        GEMMA3_Q,             /* QKV_WEIGHT */
        GEMMA3_PROJECTION,    /* QKV_BIAS: none */
        GEMMA3_PROJECTION,    /* PROJ_WEIGHT */
        GEMMA3_NORM2,         /* PROJ_BIAS: none */
        GEMMA3_NORM2,         /* NORM2_WEIGHT */
        GEMMA3_GATE,          /* NORM2_BIAS: none */
        GEMMA3_GATE,          /* UP_WEIGHT */
        GEMMA3_DOWN,          /* UP_BIAS: none */
        GEMMA3_DOWN,          /* DOWN_WEIGHT */
        GEMMA3_Q_NORM,        /* DOWN_BIAS: none */
        GEMMA3_Q_NORM,        /* Q_NORM_WEIGHT */
        GEMMA3_K_NORM,        /* K_NORM_WEIGHT */
        GEMMA3_AFTER1,        /* AFTER1_WEIGHT */
        GEMMA3_AFTER2,        /* AFTER2_WEIGHT */
        GEMMA3_BLOCK_TENSORS, /* ROUTER_WEIGHT: none */
        GEMMA3_BLOCK_TENSORS,
    };
    gemma3_layout of;
    gemma3_layout_make(config, &of);
    const size_t final_end = of.final_norm + (size_t)config->width;
    *layout = (transformer_layout){
        .transposed = true,
        .wpe = of.block,
        .block = of.block,
        .final_weight = of.final_norm,
        .final_bias = final_end,
        .final_end = final_end,
        .total = final_end,
    };
    for (int i = 0; i <= BLOCK_TENSORS; i++) {
        layout->in_block[i] = of.in_block[begins[i]];
    }
}

const rank_decoder_table gemma3_decoder = {
    .describe = describe, .layer = layer_weights, .ends = end_weights, .layout = training_layout};
