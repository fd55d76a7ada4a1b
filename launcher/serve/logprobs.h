/* The log-probabilities of a completion's tokens: kept as they come, and written as OpenAI does. Pure; the caller
 * locks. */
#ifndef LAUNCH_SERVE_LOGPROBS_H
#define LAUNCH_SERVE_LOGPROBS_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/feed.h"

struct json_t;

/* One that is kept. */
typedef struct launch_kept_logprob {
    double value;   /* NaN: there is none */
    size_t begin;   /* of its text in `texts` */
    uint32_t bytes; /* of it */
    int32_t token;
    uint32_t
        text_offset; /* of a drawn token: the characters of the whole text that had come before it */
} launch_kept_logprob;

/* Begins with all 0, but for `each` and `given`. */
typedef struct launch_logprobs {
    size_t each;  /* of a token: its own, and then those of the best; 0: none are wanted */
    bool given;   /* the first token is a prompt's, which has none */
    size_t count; /* kept, of all tokens */
    size_t room;
    launch_kept_logprob *kept;
    char *texts; /* the tokens' bytes, one behind the other */
    size_t texts_bytes;
    size_t texts_room;
    uint32_t characters; /* of the text so far */
    bool failed;         /* memory ran out, or rank 0 has said less than was asked for */
} launch_logprobs;

/* Keeps what the event says of its tokens. */
void launch_logprobs_add(launch_logprobs *logprobs, const launch_request_event *event);

/* The value of "logprobs" in a choice, of all that are kept; then none are. NULL: no memory. */
struct json_t *launch_logprobs_take(launch_logprobs *logprobs, bool chat);

void launch_logprobs_fini(launch_logprobs *logprobs);

#endif
