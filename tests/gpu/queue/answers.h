/* The tokens that an engine answers a few requests with. */
#ifndef GPU_QUEUE_ANSWERS_H
#define GPU_QUEUE_ANSWERS_H

#include <stdint.h>

#include "generate/engine.h"
#include "support.h"

enum { ANSWERS_MAX = 4, ANSWER_TOKENS_MAX = 14 };

typedef struct answers {
    int32_t tokens[ANSWERS_MAX][ANSWER_TOKENS_MAX];
    int counts[ANSWERS_MAX];
} answers;

/* An engine's on_event, with answers as its user. Requests have the numbers from 1 on. */
static inline void keep(void *user, const rank_schedule_event *event)
{
    answers *found = user;
    const size_t request = (size_t)event->request_id - 1;
    assert_true(request < ANSWERS_MAX && found->counts[request] < ANSWER_TOKENS_MAX);
    found->tokens[request][found->counts[request]++] = event->token;
}

#endif
