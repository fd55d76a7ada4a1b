/* Penalties and biases: changes of a row's logits before a token is drawn of them.
 *
 *     l = logit t
 *     if t is in the prompt or in the text:  l = l > 0 ? l / repetition : l * repetition
 *     adjusted t = l - frequency * (how often t is in the text)
 *                    - presence (if it is there at all) + bias t
 *
 * The text is what was generated before the row's token, drafted tokens of the same step included:
 * these count only where they are what was drawn (draft.h). So drafts change no token.
 * presence and frequency are OpenAI's, the repetition penalty is that of CTRL (Keskar et al., 2019,
 * section 4.1), which transformers and vLLM have.
 *
 * Each logit is computed by itself, in double, and rounded once. So a rank that holds some of the
 * logits gets the bits that one with all of them gets. Pure: no allocation, any thread. */
#ifndef RANK_GENERATE_ADJUST_H
#define RANK_GENERATE_ADJUST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { RANK_LOGIT_BIASES_MAX = 300 };

#define RANK_PENALTY_MAX    2.0   /* of presence and frequency, and its negative the least */
#define RANK_REPETITION_MAX 10.0  /* and its inverse the least */
#define RANK_LOGIT_BIAS_MAX 100.0 /* and its negative the least */

typedef struct rank_penalties {
    double presence;
    double frequency;
    double repetition; /* 0 and 1: none */
} rank_penalties;

typedef struct rank_logit_bias {
    int32_t token;
    float bias;
} rank_logit_bias;

/* How the rows of a sequence are changed. */
typedef struct rank_adjustment {
    const rank_penalties *penalties;
    const rank_logit_bias *biases; /* (bias_count), each of another token */
    int32_t bias_count;
} rank_adjustment;

/* BASE_ERR_INVALID names what is out of range. */
BASE_MUST_CHECK base_status rank_adjust_check(const rank_adjustment *how, int32_t vocab_size,
                                              base_error *reterr);

/* Whether any logit may change. */
bool rank_adjust_any(const rank_adjustment *how);

/* What stands before the token that the row gives. */
typedef struct rank_adjust_text {
    const int32_t *tokens; /* (count): the prompt, and then what was generated */
    int32_t prompt_count;
    int32_t count;
} rank_adjust_text;

/* The logits of tokens first … first + count - 1. */
typedef struct rank_adjust_row {
    float *logits;
    int32_t first;
    int32_t count;
    uint32_t *marks; /* (count): 0 before and after */
} rank_adjust_row;

/* Logits that are NaN or infinite stay so, and others stay finite. */
void rank_adjust(const rank_adjustment *how, const rank_adjust_text *text,
                 const rank_adjust_row *row);

#endif
