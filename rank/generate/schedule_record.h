/* The record of a change of the schedule: a header, the ids of the sequences that leave, and for
 * each that joins its request, without the biases that it does not have, and its prompt's tokens,
 * each part padded to 8 bytes. Made by
 * requests.c, read by schedule.c. All ranks have the same byte order. */
#ifndef RANK_GENERATE_SCHEDULE_RECORD_H
#define RANK_GENERATE_SCHEDULE_RECORD_H

#include <stddef.h>

#include "generate/schedule.h"

typedef struct schedule_record {
    uint64_t number; /* 1 for the first */
    int32_t leave_count;
    int32_t join_count;
} schedule_record;

_Static_assert(sizeof(schedule_record) == 16, "no padding");
_Static_assert(sizeof(rank_logit_bias) == 8, "no padding");
_Static_assert(sizeof(rank_request) == 104 + 4 * RANK_STOP_TOKENS_MAX + 8 * RANK_LOGIT_BIASES_MAX,
               "no padding");

/* The size of a request with so many biases. */
static inline size_t schedule_request_bytes(int32_t bias_count)
{
    return offsetof(rank_request, biases) + (size_t)bias_count * sizeof(rank_logit_bias);
}

/* The size of one join. */
static inline size_t schedule_join_bytes(int32_t prompt_count, int32_t bias_count)
{
    return schedule_request_bytes(bias_count) +
           ((size_t)prompt_count * sizeof(int32_t) + 7) / 8 * 8;
}

#endif
