/* Finds log-probabilities in a row of logits. Called by engine.c for each token of a request that asks for
 * them, on every rank. */
#include "generate/logprob.h"

#include "base/assert.h"
#include "base/fixed_math.h"
#include "generate/sample_record.h"

/* Of the logits by themselves. */
static const rank_sample_params plain = {.temperature = 1, .top_p = 1};

static rank_mass mass_of(const rank_sample_vocab *vocab, const float *logits)
{
    rank_mass leaves[RANK_SAMPLE_LEAVES];
    for (int leaf = 0; leaf < RANK_SAMPLE_LEAVES; leaf++) {
        leaves[leaf] = rank_sample_leaf_mass(vocab, &plain, leaf,
                                             logits + (size_t)leaf * (size_t)vocab->leaf_width);
    }
    return rank_sample_total_mass(leaves, 1);
}

void rank_logprobs_make(const rank_sample_vocab *vocab, const float *logits, int32_t drawn,
                        int count, rank_logprob *logprobs)
{
    rank_sample_candidate best[RANK_LOGPROBS_MAX - 1];
    BASE_ASSERT(count >= 1);
    BASE_ASSERT(count <= RANK_LOGPROBS_MAX);
    BASE_ASSERT(drawn >= 0);
    BASE_ASSERT(drawn < vocab->vocab_size);
    const rank_mass mass = mass_of(vocab, logits);
    const double log_sum = base_fixed_log(mass.sum); /* of 1 or more: the largest gives 1 */
    const int32_t found =
        count > 1 ? rank_sample_best(logits, vocab->vocab_size, count - 1, best) : 0;
    for (int i = 0; i < count; i++) {
        const int32_t token = i == 0 ? drawn : i <= found ? best[i - 1].token : -1;
        logprobs[i] = (rank_logprob){
            .value = token >= 0 ? ((double)logits[token] - mass.largest) - log_sum : 0,
            .token = token,
        };
    }
}
