/* The record of a change of the schedule: a header, the ids of the sequences that leave, and for
 * each that joins its request up to its biases, the biases and the grammar that it has, and its prompt's tokens,
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
_Static_assert(sizeof(rank_request) == 120 + 4 * RANK_STOP_TOKENS_MAX + 8 * RANK_LOGIT_BIASES_MAX,
               "no padding");

/* The parts of a request in a record. */
enum { SCHEDULE_HEAD_BYTES = offsetof(rank_request, biases) };

static inline size_t schedule_biases_bytes(const rank_request *request)
{
    return (size_t)request->bias_count * sizeof(rank_logit_bias);
}

static inline size_t schedule_grammar_bytes(const rank_request *request)
{
    return (size_t)request->grammar_count * sizeof(proto_grammar_step);
}

/* The size of one join. */
static inline size_t schedule_join_bytes(const rank_request *request)
{
    return SCHEDULE_HEAD_BYTES + schedule_biases_bytes(request) + schedule_grammar_bytes(request) +
           ((size_t)request->prompt_count * sizeof(int32_t) + 7) / 8 * 8;
}

#endif
