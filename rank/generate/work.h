/* One prompt and its answer so far, on rank 0. Used by generate.c and serve.c. One thread. */
#ifndef RANK_GENERATE_WORK_H
#define RANK_GENERATE_WORK_H

#include "generate/generate.h"
#include "generate/schedule.h"
#include "proto/request.h"

typedef struct rank_work {
    const char *text; /* of the prompt */
    char *own_text;   /* the same if it belongs to the work; else NULL */
    int32_t *prompt;  /* (prompt_count) */
    size_t prompt_count;
    size_t cached; /* of the prompt's tokens: not computed again */
    int32_t *tokens;
    int64_t *drawn_ns;
    rank_logprob *logprobs; /* (drawn, logprob_count); NULL: none are wanted */
    int logprob_count;      /* of each token */
    size_t room;            /* of tokens */
    size_t echoed;          /* of them: the prompt's, which stand before those that are drawn */
    int new_tokens_max;     /* of the request */
    size_t drawn;
    size_t drafted;   /* tokens that were drafted for it, */
    size_t accepted;  /* and of them those that saved it a step */
    size_t preempted; /* how often (schedule.h) */
    int64_t began_ns; /* the first step began that computes for it; 0: none has */
    rank_finish finish;
    int32_t end_id; /* ends the answer to a chat, beside the checkpoint's stop tokens; -1: none */
    int holders; /* the order of answers, and serve.c: the last that lets go frees it; 0: unused */
} rank_work;

/* Encodes the text, with the suffix that the options have or as a message of a user, and makes room for an
 * answer of at most new_tokens_max tokens. Where these would fill the context, they are as many as the cache has room
 * for. no_thinking: see rank_chat_messages. BASE_ERR_INVALID: no model of this context and cache takes it. rank_work_fini also after a failure. */
BASE_MUST_CHECK base_status rank_work_encode(const rank_generate_options *options, const char *text,
                                             bool no_thinking, int new_tokens_max, rank_work *work,
                                             base_error *reterr);

/* Makes room for so many log-probabilities of each token; 0: for none. Before the first token. */
BASE_MUST_CHECK base_status rank_work_want_logprobs(rank_work *work, int logprob_count,
                                                    base_error *reterr);

/* What a request asks for: one of these prompts, and log-probabilities. With `echo` the answer begins with the prompt's
 * tokens. They are there at once; where log-probabilities are wanted, those after the first come as they are weighed,
 * and the first has none: 0. */
BASE_MUST_CHECK base_status rank_work_make(const rank_generate_options *options,
                                           const proto_request *request, rank_work *work,
                                           base_error *reterr);
void rank_work_fini(rank_work *work);

/* Adds what the event says. */
void rank_work_take(rank_work *work, const rank_schedule_event *event, int64_t now_ns);

/* The tokens of the text: a stop token is none of them. */
size_t rank_work_count(const rank_work *work);

/* One holder lets go. */
void rank_work_release(rank_work *work);

#endif
