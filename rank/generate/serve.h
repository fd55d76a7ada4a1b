/* Requests that come while others are answered, on rank 0.
 *
 * rank_generate calls rank_serving_step before each step. It takes of what has come as
 * much as holds up no step, submits and cancels, and sends the events that are due:
 *
 *     request → verdict: accepted → tokens, tokens, … → answered
 *                        refused
 *
 * Events never hold up a step. While the receiver takes none, tokens collect in the room that each
 * answer has anyway, and later go out together. An accepted request is open until its last event
 * has gone; at most `sequences` + PROTO_REQUESTS_WAITING_MAX are open, and others are refused. While
 * nothing is to be computed, rank 0 waits for work, and the other ranks wait for rank 0 in a step
 * that it repeats before they could time out. One thread. */
#ifndef RANK_GENERATE_SERVE_H
#define RANK_GENERATE_SERVE_H

#include "generate/finish.h"
#include "proto/client.h"

typedef enum rank_event_kind {
    RANK_EVENT_VERDICT = 1,
    RANK_EVENT_TOKENS = 2,
    RANK_EVENT_ANSWERED = 3,
} rank_event_kind;

/* For each token `each` log-probabilities, as in generate/logprob.h. */
typedef struct rank_event_logprobs {
    size_t each;
    size_t count; /* in all; at most PROTO_EVENT_LOGPROBS_MAX */
    int32_t tokens[PROTO_EVENT_LOGPROBS_MAX];
    double values[PROTO_EVENT_LOGPROBS_MAX];
    const char *bytes[PROTO_EVENT_LOGPROBS_MAX]; /* of the tokens, any bytes */
    size_t byte_counts[PROTO_EVENT_LOGPROBS_MAX];
    uint32_t text_bytes
        [PROTO_EVENT_TOKENS_MAX]; /* of each drawn token, how many bytes of the event's text */
    size_t used;
    char memory[PROTO_EVENT_LOGPROB_BYTES_MAX];
} rank_event_logprobs;

/* Pointers are valid during the call only. */
typedef struct rank_request_event {
    rank_event_kind kind;
    uint64_t id;
    /* verdict */
    const char *refused;  /* "": accepted */
    size_t prompt_tokens; /* of an accepted one */
    /* tokens */
    const int32_t *tokens; /* at most PROTO_EVENT_TOKENS_MAX */
    size_t token_count;
    const char *text;                    /* whole characters, at most PROTO_EVENT_TEXT_BYTES_MAX */
    const uint32_t *text_bytes;          /* of each token, how many bytes of the text */
    const rank_event_logprobs *logprobs; /* of each token in turn; NULL: none are wanted */
    /* tokens and answered */
    size_t cached_tokens; /* of the prompt */
    /* answered */
    rank_finish finish;
    size_t completion_tokens;
    size_t drawn; /* the stop token too */
    size_t drafted;
    size_t accepted;
    size_t preempted;  /* how often */
    int64_t queued_ns; /* as in control.proto */
    int64_t ttft_ns;
    int64_t decode_ns;
} rank_request_event;

/* Where requests come from, and where events go. */
typedef struct rank_request_source {
    void *user;
    bool (*take)(void *user, proto_work *work); /* false: nothing has come */
    /* Waits until something may have come, or until the other ranks should hear of this one. */
    base_status (*wait)(void *user, base_error *reterr);
    bool (*send)(void *user, const rank_request_event *event); /* false: not now */
} rank_request_source;

typedef struct rank_serving rank_serving;
struct generation; /* generation.h */

BASE_MUST_CHECK base_status rank_serving_create(struct generation *g, rank_serving **serving,
                                                base_error *reterr);
void rank_serving_destroy(rank_serving *serving); /* NULL is fine */

/* The work of an open request, by the engine's id. */
struct rank_work *rank_serving_work(rank_serving *serving, uint64_t request_id);

/* Before a step. *last: no more requests come, all have been answered, and all events are sent. */
BASE_MUST_CHECK base_status rank_serving_step(rank_serving *serving, bool *last,
                                              base_error *reterr);

#endif
