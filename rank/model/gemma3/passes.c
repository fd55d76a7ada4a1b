/* How passes see Gemma 3: its shape. Its weights are where Llama's are. Called through gemma3.c's table. */
#include <math.h>

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
        decoder->frequency[i] =
            rank_rope_frequency(of[LLAMA_THETA], i, decoder->head_width) / (float)of[LLAMA_FACTOR];
        decoder->local_frequency[i] =
            rank_rope_frequency(of[GEMMA3_LOCAL_THETA], i, decoder->head_width);
    }
}

const rank_decoder_table gemma3_decoder = {.describe = describe,
                                           .layer = llama_layer_weights,
                                           .ends = llama_end_weights,
                                           .layout = llama_training_layout};
