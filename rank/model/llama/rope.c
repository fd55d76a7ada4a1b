/* Rope's frequencies. Called once a step by passes.c. */
#include "model/llama/parts.h"

/* Llama 3.1's: long waves become `factor` times as long, short ones stay, and between them goes a
 * straight line. */
static double scale_llama3(const rank_model_config *config, double frequency)
{
    const double *of = config->settings;
    const double waves =
        of[LLAMA_ORIGINAL] * frequency / (2.0 * M_PI); /* in the original context */
    if (waves > of[LLAMA_HIGH]) {
        return frequency;
    }
    if (waves < of[LLAMA_LOW]) {
        return frequency / of[LLAMA_FACTOR];
    }
    const double smooth = (waves - of[LLAMA_LOW]) / (of[LLAMA_HIGH] - of[LLAMA_LOW]);
    return (1.0 - smooth) * frequency / of[LLAMA_FACTOR] + smooth * frequency;
}

void llama_frequencies(const rank_model_config *config, float *frequency)
{
    const size_t width = rank_block_setting(config, LLAMA_HEAD_WIDTH);
    const llama_scaling scaling = (llama_scaling)config->settings[LLAMA_SCALING];
    for (size_t i = 0; i < width / 2; i++) {
        const float plain = rank_rope_frequency(config->settings[LLAMA_THETA], i, width);
        frequency[i] = plain;
        if (scaling == LLAMA_SCALING_LINEAR) {
            frequency[i] = plain / (float)config->settings[LLAMA_FACTOR];
        } else if (scaling == LLAMA_SCALING_LLAMA3) {
            frequency[i] = (float)scale_llama3(config, (double)plain);
        }
    }
}
