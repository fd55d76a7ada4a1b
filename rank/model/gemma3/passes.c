/* How decoding sees Gemma 3: its shape, and where its weights are. Called through gemma3.c's table. */
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

const rank_decoder_table gemma3_decoder = {
    .describe = describe, .layer = layer_weights, .ends = end_weights};
