/* Gumbel noise for sampling. The token with the largest logit / temperature + noise is drawn with
 * the probability of softmax (Gumbel 1954; Maddison, Tarlow and Minka, "A* sampling", 2014, section
 * 2). So a rank needs only the best token of each other rank.
 *
 * The noise is a function of (seed, prompt index, position, token id). The generator is counter
 * based, with SplitMix64's finaliser (base/splitmix.h). So no draw depends on another, on the
 * batch, or on the rank that makes it. Pure; no libm. */
#ifndef RANK_GENERATE_NOISE_H
#define RANK_GENERATE_NOISE_H

#include <stdint.h>

/* The random stream of one position of one sequence. */
uint64_t rank_noise_stream(uint64_t seed, uint64_t prompt_index, uint64_t position);

/* 52 random bits of a token. */
uint64_t rank_noise_bits(uint64_t stream, int32_t token);

/* The noise of these bits: −ln(−ln u) for u = (bits + ½) / 2^52. Between -3.6 and 36.8. */
double rank_noise_gumbel(uint64_t bits);

/* A bound of that noise, without a logarithm. It excludes most tokens. */
double rank_noise_bound(uint64_t bits);

/* More than any noise. */
#define RANK_NOISE_MAX 36.8

#endif
