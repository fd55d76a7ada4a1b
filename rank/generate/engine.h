/* Decodes many sequences on one model, alone or cut between the ranks of a communicator.
 *
 * Every rank calls rank_engine_step again and again. A step computes the next tokens of all running
 * sequences (chunks of prompts, then one token each), samples, and applies what rank 0 has decided:
 * which requests join and which leave. Requests go to rank 0 only. The others follow its records,
 * and have the same state to the byte (schedule.h).
 *
 *     each rank: shards of the weights, its heads' part of the cache, its ids' logits
 *     a step:    drafts of a model, if there is one · plan · decode · a sample record of its logits
 *                · all-gather of records, with rank 0's length of what follows
 *                · the tokens, the same on every rank · rank 0's record, if there is one
 *
 * A sequence's tokens depend only on its prompt and parameters: not on other sequences, on chunks,
 * or on the number of ranks, as far as parallel/tensor/tp.h promises equal bits.
 *
 * One thread. After an error the engine is dead: destroy it. No allocation per step. */
#ifndef RANK_GENERATE_ENGINE_H
#define RANK_GENERATE_ENGINE_H

#include "backend/graphs.h"
#include "checkpoint/shards.h"
#include "generate/alone.h"
#include "generate/drafter.h"
#include "generate/requests.h"
#include "generate/step_trace.h"
#include "model/family.h"

typedef struct rank_engine rank_engine;

/* Called on every rank, for each token and each end. */
typedef void (*rank_engine_on_event)(void *user, const rank_schedule_event *event);

typedef struct rank_engine_options {
    const rank_model_config *config; /* borrowed */
    const rank_device *device;       /* borrowed */
    coll_comm *comm;                 /* NULL: alone */
    const char *weights;             /* path of model.safetensors; NULL: source */
    const float *adapters;           /* with weights: as in rank_shards_options */
    const rank_tensor_source *source;
    int sequences;        /* at a time */
    int context;          /* of a sequence; 0: the model's */
    int chunk_tokens;     /* of prompts in a step */
    int block_tokens;     /* of the cache */
    int cache_tokens;     /* the cache's size; 0: `sequences` whole contexts */
    int waiting_max;      /* requests that wait, on rank 0 */
    rank_type type;       /* of matrices */
    rank_type cache_type; /* of keys and values; bfloat16 on a GPU only */
    rank_engine_on_event on_event;
    int draft_max; /* tokens that a sequence may draft in a step (schedule.h); 0: none. On a CPU only */
    const rank_draft_model *draft; /* borrowed: drafts them; NULL: they are looked up (draft.h) */
    const struct rank_tokenizer *tokenizer; /* of requests that have a grammar; NULL: none has */
    bool shares; /* prompts share what is cached of their beginnings (schedule.h) */
    /* On every rank: the step that has just begun is the first that computes for the request, since
     * it joined or was preempted; so many of its tokens were cached. NULL: nobody wants to know. */
    void (*on_begin)(void *user, uint64_t request_id, int32_t cached);
    void *user;
    rank_step_trace *trace; /* borrowed: every step is logged in it; NULL: none is */
    rank_trace *timeline;   /* the same; of each step it gets the layers, the exchanges and so on */
    /* Borrowed: this rank is alone, and others wait until it has ended. They hear of it while it loads
     * and at each step. NULL: nobody waits. */
    rank_alone *alone;
} rank_engine_options;

/* The memory of an engine, for reports. */
typedef struct rank_engine_memory {
    size_t weight_bytes;
    size_t weight_elements;
    size_t uncut_elements; /* of them in tensors that every rank has whole */
    size_t cache_bytes;
    int cache_blocks;
    int cache_tokens;
    size_t work_bytes;
    size_t draft_weight_bytes; /* of the model that drafts; 0: there is none */
    size_t draft_cache_bytes;
    rank_memory_use planned; /* of the device's memory, with that of the model that drafts */
} rank_engine_memory;

/* What the steps so far have cost this rank; those in which nothing was computed do not count. */
typedef struct rank_engine_costs {
    uint64_t steps;
    uint64_t tokens;      /* computed, of prompts too */
    uint64_t sampled;     /* tokens drawn */
    uint64_t drafted;     /* tokens of drafts that were checked, */
    uint64_t accepted;    /* and of them those behind which their step drew another */
    uint64_t preemptions; /* sequences whose blocks were taken, to be computed anew (schedule.h) */
    int64_t step_ns;
    int64_t draft_ns;  /* of it in the model that drafts */
    int64_t gather_ns; /* of it in the exchange of candidates and records */
    rank_tp_costs all_reduce;
} rank_engine_costs;

/* Collective. */
BASE_MUST_CHECK base_status rank_engine_create(const rank_engine_options *options,
                                               rank_engine **engine, base_error *reterr);
void rank_engine_destroy(rank_engine *engine); /* local; NULL is fine */

/* On rank 0: as in requests.h. */
BASE_MUST_CHECK base_status rank_engine_submit(rank_engine *engine, rank_request *request,
                                               const int32_t *prompt, base_error *reterr);
bool rank_engine_cancel(rank_engine *engine, uint64_t id);
int32_t rank_engine_waiting(const rank_engine *engine);
bool rank_engine_is_idle(const rank_engine *engine); /* no request waits, and none runs */

/* Collective: runs one step. `last` on rank 0: end after this step. *ended is then true on every
 * rank. A step without sequences only exchanges messages, which keeps the connections of waiting
 * ranks alive. */
BASE_MUST_CHECK base_status rank_engine_step(rank_engine *engine, bool last, bool *ended,
                                             base_error *reterr);

/* Destroys what a device replays; steps then run without. After a failure, before the communicator's end is waited for. NULL
 * is fine. */
void rank_engine_drop_graphs(rank_engine *engine);

rank_engine_memory rank_engine_get_memory(const rank_engine *engine);
rank_engine_costs rank_engine_get_costs(const rank_engine *engine);
/* What steps were captured; zeros on the CPU. Valid as long as the engine. */
rank_graphs_info rank_engine_get_graphs(const rank_engine *engine);

#endif
