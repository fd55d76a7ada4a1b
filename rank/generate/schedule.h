/* Continuous batching as a pure state machine: which sequences run, and which of their tokens each
 * step computes.
 *
 * Every rank has a copy of the schedule. A step is:
 *
 *   1. rank 0 decides what changes (rank_requests_decide, requests.h), and sends it as a record;
 *      if nothing changes, there is no record
 *   2. every rank applies it (rank_schedule_apply): cancelled sequences leave, new ones join
 *   3. every rank makes room for the step (rank_schedule_make_room), gets its plan
 *      (rank_schedule_plan), and computes it
 *   4. every rank passes on the sampled tokens (rank_schedule_accept): sequences grow, or end
 *
 * The tokens are the same on every rank (sample.h), and the storage has no pointers and no padding.
 * So copies never differ by a byte. A record that was decided after step 3 has made room may also be
 * applied after step 4, since accepting only frees.
 *
 * A prompt is prefilled in chunks: at most chunk_tokens prompt tokens per step, over all sequences.
 * They share these equally, what one does not need goes to the others, and each has a block at least while that lasts,
 * the first admitted first: a short prompt is computed soon behind long ones. What is cached of its beginning is left out, in whole blocks, but for the last
 * token. One that scores shares nothing, and has no more rows in a step than are left for samples. Its last chunk gives the first token. From then on the sequence
 * computes one token per step. With draft_max it also computes a draft of the next ones (draft.h), of
 * which those count that were drawn. It ends by a stop token, by max_new_tokens, or with a full
 * context, and frees its index and blocks at once.
 *
 * With `grows` a sequence joins with the blocks of its prompt, and takes more as it grows. When
 * none is left, the sequence that was admitted last is preempted: it gives back its blocks, and
 * keeps its index and its tokens. No other joins before it has blocks again, for all its tokens.
 * Then these are computed anew, in chunks as a prompt's, but for what is still cached of them. No
 * token is drawn twice, nor is a prompt's told twice that scores. The oldest sequence is never
 * preempted, since it fits alone (rank_schedule_check): so it ends, and then the next one is the oldest.
 *
 * With draft_context a model makes the drafts (drafter.h), before the plan. The schedule knows
 * how far that model's cache follows each sequence.
 *
 * Caller's storage, no allocation, no clock. One thread at a time. */
#ifndef RANK_GENERATE_SCHEDULE_H
#define RANK_GENERATE_SCHEDULE_H

#include "base/status.h"
#include "generate/adjust.h"
#include "generate/blocks.h"
#include "generate/draft.h"
#include "generate/finish.h"
#include "generate/logprob.h"
#include "generate/sample.h"
#include "proto/grammar.h"

enum { RANK_STOP_TOKENS_MAX = 18 };

typedef struct rank_schedule_options {
    int32_t sequence_count; /* >= 1: sequences at a time */
    int32_t context;        /* >= 2: tokens of a sequence */
    int32_t block_count;    /* >= 1: of the key-value cache */
    int32_t block_tokens;   /* >= 1 */
    int32_t chunk_tokens;   /* >= 1: prompt tokens per step */
    int32_t vocab_size;     /* >= 1 */
    int32_t
        shares; /* 1: a prompt shares what is cached of its beginning (blocks.h); 0: it does not */
    int32_t draft_max; /* 0 … RANK_DRAFT_TOKENS_MAX: tokens that a sequence may draft in a step */
    int32_t draft_context; /* tokens that the model which drafts can take; 0: there is none */
    int32_t grammar_max;   /* 0 … PROTO_GRAMMAR_STEPS_MAX: steps of a request's grammar */
    int32_t
        grows; /* 1: a sequence takes blocks as it grows; 0: all that it may need, when it joins */
} rank_schedule_options;

/* One request, without its prompt's tokens. */
typedef struct rank_request {
    uint64_t id; /* never used again; rank_requests_submit gives it */
    rank_sample_params sample;
    int32_t prompt_count;   /* 1 … context - 1 */
    int32_t max_new_tokens; /* >= 1 */
    int32_t stop_count;     /* 0 … RANK_STOP_TOKENS_MAX */
    int32_t logprob_count;  /* of each token: 0 … RANK_LOGPROBS_MAX (logprob.h) */
    int32_t stops[RANK_STOP_TOKENS_MAX];
    int32_t bias_count; /* 0 … RANK_LOGIT_BIASES_MAX */
    int32_t scores;     /* 1: its prompt's tokens, too, but the first, have log-probabilities; 0 */
    rank_penalties penalties;
    int64_t grammar_count; /* steps of its grammar: 0 … grammar_max; 0: the text may be any */
    const proto_grammar_step *grammar; /* (grammar_count) when it is submitted; elsewhere NULL */
    rank_logit_bias biases[RANK_LOGIT_BIASES_MAX]; /* the last member: records have those in use */
} rank_request;

/* How its rows' logits are changed (adjust.h). */
static inline rank_adjustment rank_request_adjustment(const rank_request *request)
{
    return (rank_adjustment){&request->penalties, request->biases, request->bias_count};
}

/* What a sequence computes in a step: tokens first … first + count - 1 of it. The last of them may be
 * a draft. The logits of the last `samples` rows are needed: none, or those of the last known token
 * and of the draft. The row of the token at a position gives the token at the next. Of a prompt that scores, all rows'
 * are needed, and `scored` of them give tokens of the prompt, whatever is drawn. */
typedef struct rank_schedule_entry {
    int32_t sequence;
    int32_t first;
    int32_t count;
    int32_t samples;
    int32_t scored; /* the first of the samples */
} rank_schedule_entry;

/* What happened to a request. */
typedef struct rank_schedule_event {
    uint64_t request_id;
    int32_t token; /* -1: it was cancelled */
    rank_finish finish;
    int32_t drafted;   /* tokens that its step has checked; only with the first token of the step */
    int32_t accepted;  /* 1: not the first of its step, since what is before it was drafted */
    int32_t scored;    /* 1: it is the prompt's, and was not drawn */
    int32_t preempted; /* how often its sequence was; only with the end */
    int32_t row;       /* of the plan's sampled rows that whose logits gave the token */
    /* (logprob_count): of the token and the best. The engine fills them in; valid during its call. */
    int32_t logprob_count;
    const rank_logprob *logprobs;
} rank_schedule_event;

typedef struct rank_schedule rank_schedule;

/* The largest number of tokens that all sequences draft in a step. */
int32_t rank_schedule_drafts_max(const rank_schedule_options *options);

/* Bytes of storage, to be aligned for uint64_t. */
size_t rank_schedule_bytes(const rank_schedule_options *options);
rank_schedule *rank_schedule_init(void *storage, const rank_schedule_options *options);

/* An upper bound of the size of a record. */
size_t rank_schedule_record_bytes_max(const rank_schedule_options *options);

/* Applies a record. Each is applied once and in order, on rank 0 too: first the leaves, then the
 * joins. Writes one event for each sequence that left, at most sequence_count; one that has ended
 * by itself is skipped. BASE_ERR_PEER: the record is not of this schedule, or there is no room for
 * it; the schedule is then unusable. record: aligned for uint64_t. */
BASE_MUST_CHECK base_status rank_schedule_apply(rank_schedule *schedule, const void *record,
                                                size_t record_bytes, rank_schedule_event *events,
                                                int *event_count, base_error *reterr);

/* Gives each sequence the blocks of the rows that it may compute in the next step, the first
 * admitted first. Preempts the last ones if there are too few, and else gives blocks to those that
 * were preempted. Before each plan. */
void rank_schedule_make_room(rank_schedule *schedule);

/* Whether the sequence, which has blocks, may need more; and how many may. */
bool rank_schedule_may_grow(const rank_schedule *schedule, int32_t sequence);
int32_t rank_schedule_growing(const rank_schedule *schedule);

/* Writes what this step computes, in the order of admission, and returns how many entries: at most
 * sequence_count, 0 if nothing runs. All entries together have at most sequence_count +
 * chunk_tokens + rank_schedule_drafts_max tokens. Changes nothing. */
int rank_schedule_plan(const rank_schedule *schedule, rank_schedule_entry *entries);

/* Ends the step. tokens has one for each sampled row of the plan, in its order. Those behind a wrong
 * token of a draft, and behind the end of a text, are not looked at. Writes an event for each of the
 * others, in the same order. BASE_ERR_INVALID: a token outside the vocabulary; the schedule is then
 * unusable. */
BASE_MUST_CHECK base_status rank_schedule_accept(rank_schedule *schedule, const int32_t *tokens,
                                                 rank_schedule_event *events, int *event_count,
                                                 base_error *reterr);

/* How many records were applied, how many sequences run, how many of them, the first ones, have
 * blocks, and how often one was preempted. */
uint64_t rank_schedule_records(const rank_schedule *schedule);
int rank_schedule_running(const rank_schedule *schedule);
int rank_schedule_placed(const rank_schedule *schedule);
uint64_t rank_schedule_preemptions(const rank_schedule *schedule);
const rank_schedule_options *rank_schedule_get_options(const rank_schedule *schedule);
const rank_blocks *rank_schedule_blocks(const rank_schedule *schedule); /* by the same index */

/* The request of the sequence at an index; NULL: none runs there. And the sequence's tokens: the
 * prompt, then the drawn ones; behind them is its draft. Valid until the next call that changes the
 * schedule. */
const rank_request *rank_schedule_request(const rank_schedule *schedule, int32_t sequence);
const int32_t *rank_schedule_tokens(const rank_schedule *schedule, int32_t sequence,
                                    int32_t *count);

/* The steps of the sequence's grammar. Valid as long. */
const proto_grammar_step *rank_schedule_grammar(const rank_schedule *schedule, int32_t sequence);

/* How many of its tokens the sequence has not computed, because they were cached: of its prompt, or
 * of all when it had been preempted. Its first entry, since then, begins behind them. */
int32_t rank_schedule_shared(const rank_schedule *schedule, int32_t sequence);

/* The index of the sequence at a place in the order of admission, 0 … running - 1. */
int32_t rank_schedule_at(const rank_schedule *schedule, int position);

/* What a model that drafts has to do for a sequence. */
typedef struct rank_schedule_draft {
    int32_t followed; /* tokens in that model's cache */
    int32_t behind;   /* tokens after them that it is to compute now */
    int32_t wanted;   /* tokens that it may draft then, in place of this step's: 0: none */
} rank_schedule_draft;
rank_schedule_draft rank_schedule_drafting(const rank_schedule *schedule, int32_t sequence);

/* The model has computed so many tokens more, known or drafted. */
void rank_schedule_follow(rank_schedule *schedule, int32_t sequence, int32_t count);

/* Adds a token to the sequence's draft, of at most `wanted`. */
void rank_schedule_add_draft(rank_schedule *schedule, int32_t sequence, int32_t token);

/* The index of a request's sequence, -1 if it does not run. */
int32_t rank_schedule_find(const rank_schedule *schedule, uint64_t request_id);

/* BASE_ERR_INVALID says why a request can never run: its prompt, its parameters, or the cache that
 * it would need. Its id is ignored. */
BASE_MUST_CHECK base_status rank_schedule_check(const rank_schedule_options *options,
                                                const rank_request *request, const int32_t *prompt,
                                                base_error *reterr);

/* The largest number of tokens that a request can have: prompt and max_new_tokens, but no more than
 * the context. */
int32_t rank_schedule_tokens_max(const rank_schedule_options *options, const rank_request *request);

#endif
