/* Gumbel noise for sampling: the token with the largest logit / temperature + noise is drawn with
 * the probability that softmax gives it (Gumbel 1954; Maddison, Tarlow and Minka, "A* sampling",
 * 2014, section 2), and a rank needs to know of the others' tokens only their best one.
 *
 * The noise is a function of (seed, prompt index, position, token id): the generator is counter
 * based, SplitMix64's finaliser (Steele, Lea and Flood 2014) as in the initial parameters, so no
 * draw depends on another, on the batch, or on which rank makes it. Pure; no libm. */
#ifndef RANK_GENERATE_NOISE_H
#define RANK_GENERATE_NOISE_H

#include <stdint.h>

/* The random stream of one position of one sequence. */
uint64_t rank_noise_stream(uint64_t seed, uint64_t prompt_index, uint64_t position);

/* 52 random bits of a token. */
uint64_t rank_noise_bits(uint64_t stream, int32_t token);

/* The noise that those bits stand for: −ln(−ln u) for u = (bits + ½) / 2^52. Between -3.6 and
 * 36.8. */
double rank_noise_gumbel(uint64_t bits);

/* What that noise cannot exceed, without a logarithm. Most tokens cannot win, and this says so. */
double rank_noise_bound(uint64_t bits);

/* More than any noise. */
#define RANK_NOISE_MAX 36.8

#endif
