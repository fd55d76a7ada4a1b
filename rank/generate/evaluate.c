/* Counts how many held-out sentences the model corrects exactly. Called by mode.c with a model that
 * is already loaded. */
#include "generate/generate.h"

#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    const rank_pairs *pairs;
    size_t *asked; /* the pair of each prompt */
    size_t answered;
    uint64_t correct;
} evaluation;

static void score_answer(void *user, const rank_answer *answer)
{
    evaluation *scored = user;
    const char *wrong = NULL;
    const char *right = NULL;
    rank_pairs_get(scored->pairs, scored->asked[answer->index], &wrong, &right);
    scored->answered++;
    if (strcmp(answer->text, right) == 0) {
        scored->correct++;
    }
}

/* The sentences that fit into the context, and how many of them there are. */
static base_status choose(const rank_generate_options *options, evaluation *scored,
                          const char **prompts, size_t *count, base_error *reterr)
{
    const size_t pairs = rank_pairs_count(scored->pairs);
    base_status status = BASE_OK;
    *count = 0;
    for (size_t i = 0; i < pairs && status == BASE_OK; i++) {
        const char *right = NULL;
        rank_pairs_get(scored->pairs, i, &prompts[*count], &right);
        status = rank_generate_check(options, &prompts[*count], 1, reterr);
        if (status == BASE_OK) {
            scored->asked[(*count)++] = i;
        } else if (status == BASE_ERR_INVALID) {
            status = BASE_OK;
        }
    }
    return status;
}

base_status rank_evaluate(const rank_generate_options *options, const rank_pairs *pairs,
                          rank_evaluation *result, base_error *reterr)
{
    const size_t pair_count = rank_pairs_count(pairs);
    rank_generate_options scoring = *options;
    size_t count = 0;
    scoring.logprob_count = 0;
    scoring.temperature = 0; /* what is drawn, or changed, would be scored */
    scoring.penalties = (rank_penalties){.presence = 0};
    scoring.prompts_are_messages = false; /* they are what the model was trained on */
    const char **prompts = calloc(pair_count + 1, sizeof *prompts);
    evaluation scored = {.pairs = pairs, .asked = calloc(pair_count + 1, sizeof *scored.asked)};
    base_status status =
        prompts != NULL && scored.asked != NULL
            ? choose(&scoring, &scored, prompts, &count, reterr)
            : base_fail(reterr, BASE_ERR_MEMORY, "no memory to evaluate %zu sentences", pair_count);
    if (status == BASE_OK) {
        scoring.on_answer = score_answer;
        scoring.answer_user = &scored;
        status = rank_generate(&scoring, prompts, count, NULL, reterr);
    }
    free(prompts);
    free(scored.asked);
    const bool whole = scored.answered == count; /* a part of the answers gives no accuracy */
    result->total = whole ? count : 0;
    result->correct = whole ? scored.correct : 0;
    result->left_out = pair_count - count;
    return status;
}
