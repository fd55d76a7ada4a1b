/* Requests, a small model for them, and an engine that answers all: what the tests of the engine share. */
#ifndef TEST_ENGINE_WORLD_H
#define TEST_ENGINE_WORLD_H

#include "generate/engine.h"
#include "support.h"

enum {
    VOCAB = 100,
    CONTEXT = 48,
    LONG_CONTEXT = 80,
    REQUESTS = 20,
    RANKS_MAX = 4,
    BLOCK_TOKENS = 8,
    SAME_TOKENS = 20,
    WAITING_MAX = 6,
    CANCEL_AFTER = 3, /* tokens */
    STEPS_MAX = 2000,
    LOGPROBS_MAX = 6, /* of a token */
};

/* The answer to a request, as one rank has it. */
typedef struct answer {
    int32_t tokens[LONG_CONTEXT];
    rank_logprob logprobs[LONG_CONTEXT][LOGPROBS_MAX]; /* of a request that asks for some */
    int count;
    rank_finish finish;
} answer;

/* What drafts. */
typedef enum drafter {
    DRAFTER_TEXT,   /* what stands in the text */
    DRAFTER_SAME,   /* the model itself */
    DRAFTER_NEAR,   /* the model, with some noise in its parameters */
    DRAFTER_SMALL,  /* another one: narrower, of one layer, with a shorter context and fewer ids */
    DRAFTER_PADDED, /* the same one, with more ids than the model */
    DRAFTERS,
} drafter;

/* How a scenario differs from the reference. */
typedef struct plan {
    const char *name;
    int ranks; /* 0: no communicator at all */
    coll_transport transport;
    int sequences;
    int chunk_tokens;
    int cache_tokens; /* 0: enough */
    int join_every;   /* steps between two submissions; 0: as soon as they may wait */
    bool cancels;     /* every third request, once it has CANCEL_AFTER tokens */
    rank_type type;   /* of matrices */
    bool shares;      /* beginnings are cached */
    int draft_max;    /* tokens of a draft */
    drafter drafter;
    bool preempts; /* the cache is so small that some are preempted */
} plan;

typedef struct world {
    rank_model_config config; /* with a LONG_CONTEXT texts are long, and repeat themselves */
    float *params;
    rank_draft_model drafts[DRAFTERS];
    rank_flat_params draft_params[DRAFTERS];
    rank_tensor_source draft_sources[DRAFTERS];
    drafter other_drafter; /* of the last rank; DRAFTER_TEXT: the plan's */
    plan plan;
    answer answers[RANKS_MAX][REQUESTS];
    int cached[RANKS_MAX]; /* tokens of prompts that were not computed */
    rank_engine_costs costs[RANKS_MAX];
    /* a rank that leaves: */
    int leaver;
    int leaves_after; /* steps */
} world;

/* Makes the model, and those that draft. */
void world_open(world *w, int context);
void world_close(world *w);

/* How many log-probabilities of each token request i asks for. */
int world_logprobs(int i);

/* How the logits of request i are changed before its tokens are drawn. */
void world_adjust(int i, rank_request *request);

/* One rank's part of the plan: answers all requests, or leaves. comm NULL: it is alone. */
BASE_MUST_CHECK base_status world_answer(world *w, coll_comm *comm, base_error *reterr);

#endif
