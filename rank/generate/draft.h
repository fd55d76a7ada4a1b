/* Drafts by prompt lookup: what the next tokens of a text may be, because they followed the same tokens
 * before in that text, its prompt included.
 *
 * The model checks a draft in one step: each token of it has a row, beside that of the last token that is
 * known. A row's logits are those that it would have alone, and what is drawn of them depends on
 * them and on the position only (sample.h). So a drafted token counts exactly if that token is
 * drawn, and no text changes.
 *
 * The pace is how long the next draft is. It follows what came of the last ones: a draft that was right
 * doubles it, one that was wrong from its first token on is followed by a pause, of 1, 3, 7, 15 and
 * then 31 steps.
 *
 * Pure: no clock, any thread. */
#ifndef RANK_GENERATE_DRAFT_H
#define RANK_GENERATE_DRAFT_H

#include <stdint.h>

enum {
    RANK_DRAFT_TOKENS_MAX = 16, /* of a draft */
    RANK_DRAFT_STEP_MAX = 64,   /* of all drafts in a step */
    RANK_DRAFT_SAME_TOKENS = 3, /* that are looked for, at most */
    RANK_DRAFT_MISSES_MAX = 5,  /* that make the pause longer */
};

/* Of a sequence; a new one is all 0. */
typedef struct rank_draft_pace {
    int32_t length; /* of the next draft, at most; 0: none was checked yet */
    int32_t
        misses; /* drafts in a row of which no token was accepted, at most RANK_DRAFT_MISSES_MAX */
    int32_t pause; /* steps without a draft, from now on */
} rank_draft_pace;

/* Finds where the last 3, else 2, else 1 of `count` tokens stand before, and the latest of such
 * places, and writes behind the tokens the `most` that follow there. Returns how many: most, or 0 if there is no
 * such place. tokens: room for count + most. */
int32_t rank_draft_find(int32_t *tokens, int32_t count, int32_t most);

/* How long the draft for the next step may be, at most `most`. Called once for each step. */
int32_t rank_draft_length(rank_draft_pace *pace, int32_t most);

/* Of `drafted` >= 1 tokens so many were accepted. */
void rank_draft_learn(rank_draft_pace *pace, int32_t drafted, int32_t accepted);

#endif
