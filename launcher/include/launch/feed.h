/* Requests that come while a job runs: where the launcher gets them from, and what it says about
 * them. A job's options name a feed; job/feed.c asks it. */
#ifndef LAUNCH_FEED_H
#define LAUNCH_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/request.h"

typedef enum launch_feed_kind {
    LAUNCH_FEED_NOTHING, /* not now: wait until the descriptor is readable */
    LAUNCH_FEED_REQUEST,
    LAUNCH_FEED_CANCEL, /* of the request with this id */
    LAUNCH_FEED_END,    /* no more will come */
} launch_feed_kind;

typedef enum launch_event_kind {
    LAUNCH_EVENT_ACCEPTED,
    LAUNCH_EVENT_REFUSED,
    LAUNCH_EVENT_TOKENS,
    LAUNCH_EVENT_FINISHED,
} launch_event_kind;

typedef struct launch_logprob {
    int32_t token;    /* -1: there is none */
    uint32_t bytes;   /* of its text; 0: it prints nothing */
    const char *text; /* any bytes, no NUL behind them */
    double value;     /* the natural logarithm of its probability */
} launch_logprob;

/* Pointers are valid during the call only. */
typedef struct launch_request_event {
    launch_event_kind kind;
    uint64_t id;
    const char *reason;     /* REFUSED; FINISHED with "error" */
    uint32_t prompt_tokens; /* ACCEPTED */
    const int32_t *tokens;  /* TOKENS: (token_count), and what follows of the text */
    size_t token_count;
    const char *text;
    size_t logprob_count; /* of each token; 0: none are wanted */
    const launch_logprob
        *logprobs;              /* (token_count, logprob_count): its own, and those of the best */
    const uint32_t *text_bytes; /* (token_count): so many bytes of the text came with it */
    const char *finish_reason;  /* FINISHED: "stop", "length", "cancelled", "error" */
    uint32_t completion_tokens;
    uint32_t drawn;         /* the stop token too */
    uint32_t cached_tokens; /* TOKENS, too: of the prompt, they were not computed again */
    uint32_t drafted;       /* tokens, */
    uint32_t accepted;      /* and of them those that saved a step */
    uint32_t preempted;     /* how often it lost its place in the cache */
    int64_t queued_ns;
    int64_t ttft_ns; /* 0: there is no token */
    int64_t decode_ns;
} launch_request_event;

typedef struct launch_feed {
    void *user;
    int fd; /* readable when more may come */
    /* The next request, whose id is above those before it, or the id to cancel. readable: fd may be
     * read once, without blocking. Never blocks. */
    launch_feed_kind (*next)(void *user, bool readable, proto_request *request);
    /* Called for each event. Of a request: ACCEPTED, TOKENS, …, FINISHED; or REFUSED. */
    void (*on_event)(void *user, const launch_request_event *event);
    /* Called when the model is loaded; NULL: nobody asks. */
    void (*on_ready)(void *user);
    /* The user asks for the end: the feed takes no more, and says LAUNCH_FEED_END once all is answered.
     * NULL: what runs is cancelled. */
    void (*drain)(void *user);
    int64_t drain_ms; /* then what still runs is cancelled */
} launch_feed;

#endif
