/* Log-probabilities of a drawn token, and of the most probable ones.
 *
 *     log p(t) = (logit t - largest) - ln of the sum of exp(logit - largest)
 *
 * They are the model's own: of the logits before temperature, top-k and top-p, over the vocabulary
 * without its padding. The sum is made in double, as top-p's (sample.h): each of the vocabulary's 16
 * leaves by itself, and these in the canonical tree. So they have the same bits for every number of
 * ranks and every instruction set, if the logits have.
 *
 * Pure: no allocation, no libm, any thread. */
#ifndef RANK_GENERATE_LOGPROB_H
#define RANK_GENERATE_LOGPROB_H

#include "generate/sample.h"

enum { RANK_LOGPROBS_MAX = 21 }; /* of one drawn token: its own, and those of the 20 best */

typedef struct rank_logprob {
    double value;  /* natural logarithm; 0 or less */
    int32_t token; /* -1: there is none, because fewer tokens have a logit above -infinity */
} rank_logprob;

/* logprobs[0] is that of the drawn token, logprobs[1 … count - 1] those of the best, the lowest id
 * first of equals. logits: of the whole padded vocabulary, none of them NaN or +infinity, and that of
 * the drawn token finite. count: 1 … RANK_LOGPROBS_MAX. */
void rank_logprobs_make(const rank_sample_vocab *vocab, const float *logits, int32_t drawn,
                        int count, rank_logprob *logprobs);

#endif
