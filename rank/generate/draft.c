/* Drafts by prompt lookup, and their pace. Called by schedule_step.c for each sequence and step. */
#include "generate/draft.h"

#include "base/assert.h"

enum { FIRST_LENGTH = 2 };

/* How many of the tokens up to the two places are the same, from there backwards; RANK_DRAFT_SAME_TOKENS at
 * most. */
static int32_t count_same(const int32_t *tokens, int32_t at, int32_t last)
{
    int32_t same = 0;
    while (same < RANK_DRAFT_SAME_TOKENS && same <= at &&
           tokens[at - same] == tokens[last - same]) {
        same++;
    }
    return same;
}

int32_t rank_draft_find(int32_t *tokens, int32_t count, int32_t most)
{
    const int32_t last = count - 1;
    int32_t best_same = 0;
    int32_t best = 0;
    for (int32_t at = most > 0 ? last - 1 : -1; at >= 0 && best_same < RANK_DRAFT_SAME_TOKENS;
         at--) {
        const int32_t same = count_same(tokens, at, last);
        if (same > best_same) {
            best_same = same;
            best = at;
        }
    }
    if (best_same == 0) {
        return 0;
    }
    for (int32_t i = 1; i <= most;
         i++) { /* it may go on into itself: a text that repeats its end */
        tokens[last + i] = tokens[best + i];
    }
    return most;
}

int32_t rank_draft_length(rank_draft_pace *pace, int32_t most)
{
    if (pace->pause > 0) {
        pace->pause--;
        return 0;
    }
    const int32_t length = pace->length > 0 ? pace->length : FIRST_LENGTH;
    return length < most ? length : most;
}

void rank_draft_learn(rank_draft_pace *pace, int32_t drafted, int32_t accepted, int32_t free_misses)
{
    BASE_ASSERT(drafted >= 1);
    BASE_ASSERT(accepted <= drafted);
    pace->length = accepted == drafted ? 2 * drafted : accepted + 1;
    if (accepted > 0) {
        pace->misses = 0;
        return;
    }
    pace->misses += pace->misses < free_misses + RANK_DRAFT_MISSES_MAX ? 1 : 0;
    pace->pause = pace->misses > free_misses ? (1 << (pace->misses - free_misses)) - 1 : 0;
}
