/* The storage of a schedule. Shared by schedule.c, schedule_room.c and schedule_step.c. */
#ifndef RANK_GENERATE_SCHEDULE_STATE_H
#define RANK_GENERATE_SCHEDULE_STATE_H

#include "base/assert.h"
#include "generate/schedule.h"

/* A sequence; all 0 if none runs at this index. No request has the id 0. */
typedef struct sequence_state {
    rank_request request;
    int32_t token_count; /* known: the prompt and what was drawn */
    int32_t computed;    /* of them, in the key-value cache */
    int32_t finish;      /* rank_finish, between the two passes of accept */
    int32_t shared;      /* of them, cached when it got its blocks */
    int32_t drafted;     /* tokens that stand behind those that are known */
    int32_t may_draft;   /* tokens that a model may draft for the next step, */
    int32_t followed;    /* and how many of the text's are in its cache, drafted ones too */
    int32_t told;        /* rows of a prompt that scores whose tokens were told */
    int32_t preempted;   /* how often */
    rank_draft_pace pace;
} sequence_state;

/* Followed by sequences (sequence_count), order (sequence_count), tokens (sequence_count, context),
 * grammars (sequence_count, grammar_max), and the blocks. */
struct rank_schedule {
    uint64_t records;
    rank_schedule_options options;
    int32_t running;
    uint64_t preemptions;
    int32_t placed; /* of those that run: the first in the order, which have blocks */
    int32_t none;   /* 0 */
};

_Static_assert(sizeof(struct rank_schedule) == 72, "no padding");
_Static_assert(sizeof(sequence_state) == sizeof(rank_request) + 48, "no padding");

static inline size_t schedule_order_offset(const rank_schedule_options *options)
{
    return sizeof(rank_schedule) + (size_t)options->sequence_count * sizeof(sequence_state);
}

static inline size_t schedule_grammars_offset(const rank_schedule_options *options)
{
    const size_t offset = schedule_order_offset(options) + (size_t)options->sequence_count *
                                                               (1 + (size_t)options->context) *
                                                               sizeof(int32_t);
    return (offset + 7) / 8 * 8; /* they and the blocks are aligned for uint64_t */
}

static inline size_t schedule_blocks_offset(const rank_schedule_options *options)
{
    return schedule_grammars_offset(options) + (size_t)options->sequence_count *
                                                   (size_t)options->grammar_max *
                                                   sizeof(proto_grammar_step);
}

static inline sequence_state *schedule_sequence_at(const rank_schedule *schedule, int32_t index)
{
    BASE_ASSERT(index >= 0);
    BASE_ASSERT(index < schedule->options.sequence_count);
    return (sequence_state *)(void *)((uint8_t *)(uintptr_t)schedule + sizeof *schedule) + index;
}

/* The indices of running sequences, in the order of admission, then -1. */
static inline int32_t *schedule_order_of(const rank_schedule *schedule)
{
    return (int32_t *)(void *)((uint8_t *)(uintptr_t)schedule +
                               schedule_order_offset(&schedule->options));
}

static inline int32_t *schedule_tokens_of(const rank_schedule *schedule, int32_t index)
{
    return schedule_order_of(schedule) + schedule->options.sequence_count +
           (size_t)index * (size_t)schedule->options.context;
}

static inline proto_grammar_step *schedule_grammar_of(const rank_schedule *schedule, int32_t index)
{
    return (proto_grammar_step *)(void *)((uint8_t *)(uintptr_t)schedule +
                                          schedule_grammars_offset(&schedule->options)) +
           (size_t)index * (size_t)schedule->options.grammar_max;
}

static inline rank_blocks *schedule_blocks_of(const rank_schedule *schedule)
{
    return (rank_blocks *)(void *)((uint8_t *)(uintptr_t)schedule +
                                   schedule_blocks_offset(&schedule->options));
}

/* schedule.c: removes the sequence at `position` of the order. */
void schedule_leave(rank_schedule *schedule, int32_t position);

/* schedule_room.c: gives the sequence that stands behind those that have blocks its own. False:
 * there are too few. */
bool schedule_place(rank_schedule *schedule);

#endif
