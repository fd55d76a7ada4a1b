/* Which sequences have blocks, where they take these as they grow. Called by engine.c on every rank
 * before each plan, and by schedule.c when one joins. */
#include "base/assert.h"
#include "generate/schedule_state.h"

bool schedule_place(rank_schedule *schedule)
{
    const rank_schedule_options *options = &schedule->options;
    const int32_t index = schedule_order_of(schedule)[schedule->placed];
    sequence_state *s = schedule_sequence_at(schedule, index);
    const bool scores = s->request.scores != 0 && s->token_count == s->request.prompt_count;
    const bool shares = options->shares != 0 && !scores;
    rank_blocks *blocks = schedule_blocks_of(schedule);
    const int32_t shared =
        shares /* the last token's logits are needed */
            ? rank_blocks_share(blocks, index, schedule_tokens_of(schedule, index),
                                s->token_count - 1)
            : 0;
    const int32_t tokens =
        options->grows != 0 ? s->token_count : rank_schedule_tokens_max(options, &s->request);
    if (!rank_blocks_reserve(blocks, index, tokens)) {
        return false;
    }
    s->shared = shared * options->block_tokens;
    s->computed = s->shared;
    schedule->placed++;
    return true;
}

/* Takes the blocks of the last sequence that has some. */
static void preempt(rank_schedule *schedule)
{
    BASE_ASSERT(schedule->placed > 1); /* the oldest fits alone */
    const int32_t index = schedule_order_of(schedule)[--schedule->placed];
    sequence_state *s = schedule_sequence_at(schedule, index);
    rank_blocks_release(schedule_blocks_of(schedule), index);
    s->computed = 0;
    s->shared = 0;
    s->drafted = 0;
    s->may_draft = 0;
    s->followed = 0;
    s->preempted++;
    schedule->preemptions++;
}

bool rank_schedule_may_grow(const rank_schedule *schedule, int32_t sequence)
{
    const rank_blocks *blocks = schedule_blocks_of(schedule);
    const rank_request *request = &schedule_sequence_at(schedule, sequence)->request;
    const int32_t most = rank_schedule_tokens_max(&schedule->options, request);
    return rank_blocks_held(blocks, sequence) < rank_blocks_needed(blocks, most);
}

int32_t rank_schedule_growing(const rank_schedule *schedule)
{
    int32_t count = 0;
    for (int32_t position = 0; position < schedule->placed; position++) {
        count += rank_schedule_may_grow(schedule, schedule_order_of(schedule)[position]) ? 1 : 0;
    }
    return count;
}

/* Whether there are blocks for the first one that was preempted, and then one more for each
 * sequence that grows: else it would be preempted again soon. */
static bool can_go_on(const rank_schedule *schedule)
{
    if (schedule->placed == schedule->running) {
        return false;
    }
    const rank_blocks *blocks = schedule_blocks_of(schedule);
    const int32_t index = schedule_order_of(schedule)[schedule->placed];
    const int32_t tokens = schedule_sequence_at(schedule, index)->token_count;
    return rank_blocks_needed(blocks, tokens) + rank_schedule_growing(schedule) <=
           rank_blocks_free_count(blocks);
}

/* Drafts take what is left: they are no reason to preempt. */
static void make_room_for_drafts(rank_schedule *schedule)
{
    rank_blocks *blocks = schedule_blocks_of(schedule);
    for (int32_t position = 0; position < schedule->placed; position++) {
        const int32_t index = schedule_order_of(schedule)[position];
        sequence_state *s = schedule_sequence_at(schedule, index);
        const int32_t drafts = s->drafted > s->may_draft ? s->drafted : s->may_draft;
        if (!rank_blocks_reserve(blocks, index, s->token_count + drafts)) {
            s->drafted = 0;
            s->may_draft = 0;
        }
    }
}

void rank_schedule_make_room(rank_schedule *schedule)
{
    for (int32_t position = 0; position < schedule->placed; position++) {
        const int32_t index = schedule_order_of(schedule)[position];
        const int32_t tokens = schedule_sequence_at(schedule, index)->token_count;
        while (position < schedule->placed &&
               !rank_blocks_reserve(schedule_blocks_of(schedule), index, tokens)) {
            preempt(schedule);
        }
    }
    make_room_for_drafts(schedule);
    while (can_go_on(schedule)) {
        const bool placed = schedule_place(schedule);
        BASE_ASSERT(placed);
    }
}
