/* The JSON that the server sends, in OpenAI's format. Pure. Each text is the caller's to free; NULL:
 * no memory. */
#ifndef LAUNCH_REPLY_H
#define LAUNCH_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/logprobs.h"

/* What all objects of one completion say. */
typedef struct launch_reply_head {
    uint64_t id;
    int64_t created_s; /* since 1970 */
    const char *model;
    bool chat; /* the answer is a message of the assistant */
} launch_reply_head;

typedef struct launch_usage {
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint32_t cached_tokens; /* of the prompt's */
} launch_usage;

/* {"error": …}. status: the HTTP status, which gives the type. field: NULL or "": none. */
char *launch_reply_error(int status, const char *field, const char *message);

/* One of its texts, or a piece of one. */
typedef struct launch_reply_choice {
    int index;
    const char *text;          /* NULL: the message has calls alone */
    struct json_t *calls;      /* of tools, with which it ends; NULL: none. They are taken */
    const char *finish_reason; /* of a stream: NULL until the last piece */
    launch_logprobs *logprobs; /* NULL: none. Those that are kept are taken */
} launch_reply_choice;

/* A whole completion. */
char *launch_reply_completion(const launch_reply_head *head, const launch_reply_choice *choices,
                              int count, const launch_usage *usage);

/* Of a chat, what comes before the first piece of a choice: whose message it is. */
char *launch_reply_role(const launch_reply_head *head, int index);

/* A piece of one choice. */
char *launch_reply_chunk(const launch_reply_head *head, const launch_reply_choice *choice);

/* The calls of one choice, as a piece. */
char *launch_reply_calls(const launch_reply_head *head, const launch_reply_choice *choice);

/* The usage, after the last piece. */
char *launch_reply_usage(const launch_reply_head *head, const launch_usage *usage);

/* base: the model that adapters are for; "": there are none. */
char *launch_reply_models(const char *model, const char *base, int64_t created_s);
char *launch_reply_model(const char *model, const char *base, int64_t created_s);

/* {"status": …}. */
char *launch_reply_health(const char *status);

#endif
