/* Counts how many held-out sentences the model corrects exactly. Called by mode.c with a model that
 * is already loaded. */
#include "generate/generate.h"

#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    const rank_pairs *pairs;
    size_t answered;
    uint64_t correct;
} evaluation;

static void score_answer(void *user, const rank_answer *answer)
{
    evaluation *scored = user;
    const char *wrong = NULL;
    const char *right = NULL;
    rank_pairs_get(scored->pairs, answer->index, &wrong, &right);
    scored->answered++;
    if (strcmp(answer->text, right) == 0) {
        scored->correct++;
    }
}

base_status rank_evaluate(const rank_generate_options *options, const rank_pairs *pairs,
                          uint64_t *total, uint64_t *correct, base_error *reterr)
{
    const size_t count = rank_pairs_count(pairs);
    evaluation scored = {.pairs = pairs};
    const char **prompts = calloc(count + 1, sizeof *prompts);
    if (prompts == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to evaluate %zu sentences", count);
    }
    for (size_t i = 0; i < count; i++) {
        const char *right = NULL;
        rank_pairs_get(pairs, i, &prompts[i], &right);
    }
    rank_generate_options scoring = *options;
    scoring.on_answer = score_answer;
    scoring.answer_user = &scored;
    const base_status status = rank_generate(&scoring, prompts, count, NULL, reterr);
    free(prompts);
    const bool whole = scored.answered == count; /* a part of the answers gives no accuracy */
    *total = whole ? count : 0;
    *correct = whole ? scored.correct : 0;
    return status;
}
