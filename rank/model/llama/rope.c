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

/* Longrope has other factors for long texts than for short ones. One job has those of the longest text that it may
 * have, for all its texts: so what a token is does not depend on what comes behind it. */
static const double *choose_factors(const rank_model_config *config)
{
    const int longest = config->tokens_max > 0 ? config->tokens_max : config->context;
    return config->rope_factors[longest > (int)config->settings[LLAMA_ORIGINAL]];
}

void llama_frequencies(const rank_model_config *config, float *frequency)
{
    const size_t rotated = llama_rotated(config);
    const double theta = config->settings[LLAMA_THETA];
    for (size_t i = 0; i < rotated / 2; i++) {
        const float plain = rank_rope_frequency(theta, i, rotated);
        switch ((llama_scaling)config->settings[LLAMA_SCALING]) {
        case LLAMA_SCALING_NONE:
            frequency[i] = plain;
            break;
        case LLAMA_SCALING_LINEAR:
            frequency[i] = plain / (float)config->settings[LLAMA_FACTOR];
            break;
        case LLAMA_SCALING_LLAMA3:
            frequency[i] = (float)scale_llama3(config, (double)plain);
            break;
        case LLAMA_SCALING_LONGROPE:
            frequency[i] =
                1.0f / ((float)choose_factors(config)[i] * rank_rope_period(theta, i, rotated));
            break;
        }
    }
}
