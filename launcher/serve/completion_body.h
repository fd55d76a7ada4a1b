/* The bodies of POST /v1/completions and /v1/chat/completions, in OpenAI's format. Pure.
 *
 * A field that would change the result and is not supported is refused, unless it has the value
 * that changes nothing (other_fields.h). docs/SERVE.md lists all fields. */
#ifndef LAUNCH_COMPLETION_BODY_H
#define LAUNCH_COMPLETION_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "proto/request.h"
#include "serve/limits.h"
#include "serve/stop_texts.h"
#include "serve/tools.h"

enum { LAUNCH_FIELD_BYTES = 64 };

#define LAUNCH_NO_SUCH_MODEL "model: there is only \"%s\" here" /* the model's name */

/* How an answer as a whole, which would be too large, can be had. */
#define LAUNCH_ASK_FOR_LESS ": lower n, max_tokens or logprobs, or set stream"

/* A chat's reasoning_effort. */
typedef enum launch_effort {
    LAUNCH_EFFORT_UNSAID,
    LAUNCH_EFFORT_NONE,
    LAUNCH_EFFORT_SOME,
} launch_effort;

typedef struct launch_completion_body {
    proto_request request; /* before: the options that hold where the body says nothing */
    /* What is asked for: of each prompt in turn `choices_each` texts, LAUNCH_SERVE_CHOICES_MAX in all. Each has
     * the request's options, and its own prompt. */
    proto_request *requests[LAUNCH_SERVE_CHOICES_MAX]; /* (prompt_count) */
    int prompt_count;
    int choices_each;
    int best_of; /* 0: it says nothing */
    launch_stop_texts stops;
    launch_tools tools;
    uint32_t grammar_count;
    proto_grammar_step grammar[PROTO_GRAMMAR_STEPS_MAX]; /* of the response_format, or of a call */
    bool chat;    /* before: it has messages, and no prompt */
    bool limited; /* it says max_tokens */
    bool silent;  /* which is 0: only its prompt is sent back. One token is drawn, and dropped */
    bool stream;
    bool include_usage; /* of a stream */
    bool seeded;        /* it has a seed */
    bool switched;      /* it has chat_template_kwargs, which count before an effort */
    launch_effort effort;
    bool logprobs; /* of each token, and of so many of the best: */
    int32_t logprobs_best;
} launch_completion_body;

/* body: all 0 but for what is set before. model: the only one that there is. BASE_ERR_NOTFOUND: another is asked for. BASE_ERR_INVALID or
 * BASE_ERR_LIMIT: what is wrong, and in field[] its name, "" if it is the body as a whole. */
BASE_MUST_CHECK base_status launch_completion_body_read(const char *text, size_t text_bytes,
                                                        const char *model,
                                                        launch_completion_body *body,
                                                        char field[LAUNCH_FIELD_BYTES],
                                                        base_error *reterr);

/* Also after a failure, and of a body that is all 0. */
void launch_completion_body_fini(launch_completion_body *body);

#endif
