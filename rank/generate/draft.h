/* Drafts by prompt lookup: the tokens that followed the same tokens earlier in a text, its prompt
 * included, may come next again. And the pace of all drafts, also of those that a model makes
 * (drafter.h).
 *
 * The model checks a draft in one step. Each of its tokens has a row beside that of the last known
 * token. A row's logits are those that it would have alone, and what is drawn of them depends on
 * them, the request and the position only (sample.h). So a drafted token counts exactly if the same
 * token is drawn, and no text changes.
 *
 * The pace is how long the next draft may be. A draft that was right doubles it. One whose first
 * token was wrong is followed by a pause: of 1 step, and of 3, 7, 15 and then 31 if that happens
 * again and again. A model has a new guess in each step: its first misses are followed by a draft of
 * one token, and only those after them by pauses.
 *
 * Pure: no clock, any thread. */
#ifndef RANK_GENERATE_DRAFT_H
#define RANK_GENERATE_DRAFT_H

#include <stdint.h>

enum {
    RANK_DRAFT_TOKENS_MAX = 16,  /* of a draft */
    RANK_DRAFT_STEP_MAX = 64,    /* of all drafts in a step */
    RANK_DRAFT_SAME_TOKENS = 3,  /* that are looked for, at most */
    RANK_DRAFT_MISSES_MAX = 5,   /* that make the pause longer */
    RANK_DRAFT_MODEL_MISSES = 3, /* of a model, in a row, before there is a pause */
};

/* Of a sequence; a new one is all 0. */
typedef struct rank_draft_pace {
    int32_t length; /* of the next draft, at most; 0: none was checked yet */
    int32_t misses; /* the last so many drafts had no right token, those that are free too; at most
                     * RANK_DRAFT_MISSES_MAX more than these */
    int32_t pause;  /* steps without a draft, from now on */
} rank_draft_pace;

/* Finds where the last 3 of `count` tokens stand earlier, else the last 2, else the last one; of
 * several places the latest. Writes the `most` tokens that follow there behind the text, which may
 * go on into what is written. Returns how many: most, or 0 if there is no such place. tokens: room
 * for count + most. */
int32_t rank_draft_find(int32_t *tokens, int32_t count, int32_t most);

/* How long the draft for the next step may be, at most `most`. Called once for each step. */
int32_t rank_draft_length(rank_draft_pace *pace, int32_t most);

/* Of `drafted` >= 1 tokens so many were accepted. The first `free_misses` in a row are followed by no
 * pause. */
void rank_draft_learn(rank_draft_pace *pace, int32_t drafted, int32_t accepted,
                      int32_t free_misses);

#endif
