/* Answers to prompts, and exact-match evaluation, by an engine that decodes many sequences at once
 * (generate/engine.h): alone, or with the model cut between the ranks of a communicator.
 *
 * Each token is the most probable one, the lowest id of equals, or drawn (generate/sample.h), until
 * a stop token, new_tokens_max, or a full context. The same prompt gives the same tokens whatever
 * runs beside it.
 * One thread. */
#ifndef RANK_GENERATE_H
#define RANK_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"
#include "generate/engine.h"
#include "rank/data.h"
#include "rank/model.h"
#include "rank/tokenizer.h"

/* A token that was just drawn. */
typedef struct rank_drawn_token {
    int32_t token;
    bool is_stop; /* no part of the text */
    bool is_last;
} rank_drawn_token;

/* One answer. Pointers are valid during the call only. */
typedef struct rank_answer {
    size_t index; /* of the prompt */
    const char *prompt;
    const char *text;  /* any bytes, and a NUL behind them */
    size_t text_bytes; /* without that NUL */
    const int32_t *prompt_tokens;
    size_t prompt_count;
    const int32_t *tokens; /* the stop token is not among them */
    size_t count;
    rank_finish finish;
    int64_t began_ns;             /* when the first step began that could compute it, monotonic */
    const int64_t *drawn_ns;      /* (drawn_count): when each token was there */
    size_t drawn_count;           /* with the stop token */
    const rank_logprob *logprobs; /* (drawn_count, logprob_count): of each token and the best */
    int logprob_count;
} rank_answer;

typedef void (*rank_on_answer)(void *user, const rank_answer *answer);

struct rank_generate_report;

typedef struct rank_generate_options {
    const rank_device *device;
    const rank_model_config *config;
    coll_comm *comm;     /* the ranks that share one model; NULL: alone */
    int64_t timeout_ns;  /* of its collectives */
    rank_alone *alone;   /* as in rank_engine_options */
    const char *weights; /* the path of a safetensors file; NULL: params */
    const float
        *adapters; /* with weights: of the configuration, in them or beside them; NULL: none */
    const float *params;       /* of the whole model, the device's */
    rank_tokenizer *tokenizer; /* on rank 0; with a source on every rank */
    rank_type type;            /* of matrices */
    rank_type cache_type;      /* of keys and values */
    int sequences;             /* at a time */
    int cache_tokens;          /* room for so many of all texts; 0: for whole contexts */
    int new_tokens_max;
    bool ignore_end;              /* no token ends a text */
    const int32_t *stops;         /* (stop_count): that end it, beside the tokenizer's end token */
    int stop_count;               /* at most RANK_GENERATION_STOPS_MAX */
    const char *prompt_suffix;    /* put behind each prompt that does not have it; NULL: nothing */
    const struct rank_chat *chat; /* data/chat.h; NULL: no chats come, nor: */
    bool prompts_are_messages;    /* of a user, who is answered, */
    bool no_thinking;             /* … without thoughts (rank_chat_messages) */
    double temperature;           /* 0: greedy, and the next four are not looked at */
    double top_p;
    int top_k;
    uint64_t seed;
    double min_p;
    rank_penalties penalties;
    int logprob_count; /* of each token, in answers: 0 … RANK_LOGPROBS_MAX; a request has its own */
    size_t index_first;       /* prompt i is number first + i * stride of the job, */
    size_t index_stride;      /* which the noise of its tokens is keyed by; 0: 1 */
    rank_on_answer on_answer; /* called on the ranks that have prompts, in the order of prompts */
    void *answer_user;
    /* Called on rank 0 for each token, in the order they come; NULL: nobody wants to know. */
    void (*on_token)(void *user, const rank_drawn_token *token);
    void *token_user;
    int context;  /* tokens of a text; 0: as many as the model can take */
    bool warm_up; /* two tokens for the first prompt come first, and count for nothing */
    /* Collective: called on every rank once all is loaded and warm, with what that took; NULL:
     * nothing. */
    base_status (*on_warm)(void *user, const struct rank_generate_report *memory,
                           base_error *reterr);
    void *warm_user;
    /* Called on rank 0 at the end, where the ranks that share a model have a clock in common, as one
     * rank alone has: what the steps have cost one by one. NULL: nobody wants to know. */
    void (*on_steps)(void *user, const rank_step_cost *steps, size_t count);
    void *steps_user;
    rank_trace *timeline; /* borrowed: gets the steps behind the warm-up; NULL: nobody wants it */
    /* Called with the error before what is on the device is released; NULL: nothing is to be done. */
    void (*on_failure)(void *user, base_status status, const base_error *error);
    void *failure_user;
    bool (*should_stop)(void *user); /* asked before every step on rank 0; NULL: to the end */
    void *stop_user;
    /* Where requests come from while others are answered; no prompts are handed in then. Only rank
     * 0's is asked, but it is there on every rank. NULL: the prompts are all there is. */
    const struct rank_request_source *source; /* generate/serve.h */
    /* Prompts share what is cached of their beginnings: their tokens have the bits that they would have alone,
     * where products do not change them with the rows beside. */
    bool shares;
    int draft_max; /* tokens that a text may draft in a step; 0: none. No text changes */
    const rank_draft_model *draft; /* drafts them; NULL: they are looked up */
    /* With a source: nothing is kept of requests that are answered, and any number may come. */
    bool forgets;
    /* With a source: its texts are what the model makes, with their control characters, and with the
     * space that they begin with unless the prompt's suffix stands before them. */
    bool exact_texts;
} rank_generate_options;

/* Tokens that a text may have. */
static inline int rank_generate_context(const rank_generate_options *options)
{
    return options->context > 0 ? options->context : options->config->context;
}

static inline bool rank_generate_should_stop(const rank_generate_options *options)
{
    return options->should_stop != NULL && options->should_stop(options->stop_user);
}

/* What it took. */
typedef struct rank_generate_report {
    rank_type weight_type; /* of matrices */
    size_t model_elements; /* of the whole model */
    rank_engine_memory memory;
    rank_engine_costs costs;                        /* without warm-up */
    uint64_t graphs;                                /* that steps were captured in, */
    uint64_t replays;                               /* how often one was replayed, */
    char capture_failure[BASE_ERROR_MESSAGE_BYTES]; /* and why the first failed that did; "" */
    double ttft_ms;        /* by this rank's own clock: the mean over the prompts; NaN: none */
    double per_token_ms;   /* and over the tokens after the first */
    bool traced;           /* the next is known */
    rank_step_share share; /* this rank's, of all steps */
} rank_generate_report;

/* Collective over options->comm: ranks other than 0 hand in no prompts and get no answers.
 * BASE_ERR_INVALID names a prompt that does not fit into the context. Where should_stop says so it
 * ends early, BASE_OK; texts that have begun are then cut, and count as cancelled. report may be
 * NULL. */
BASE_MUST_CHECK base_status rank_generate(const rank_generate_options *options,
                                          const char *const *prompts, size_t prompt_count,
                                          rank_generate_report *report, base_error *reterr);

/* BASE_ERR_INVALID names a prompt that rank_generate would not take. Of the options it looks at
 * config, context, cache_tokens, tokenizer, prompt_suffix and new_tokens_max. */
BASE_MUST_CHECK base_status rank_generate_check(const rank_generate_options *options,
                                                const char *const *prompts, size_t prompt_count,
                                                base_error *reterr);

typedef struct rank_evaluation {
    uint64_t total;
    uint64_t correct;  /* answers that equal the right sentence byte for byte */
    uint64_t left_out; /* wrong sentences that do not fit into the context, or the cache */
} rank_evaluation;

/* Corrects every wrong sentence that fits. If it ends early, total and correct are
 * 0. */
BASE_MUST_CHECK base_status rank_evaluate(const rank_generate_options *options,
                                          const rank_pairs *pairs, rank_evaluation *result,
                                          base_error *reterr);

#endif
