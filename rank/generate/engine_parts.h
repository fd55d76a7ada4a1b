/* The members of an engine. Shared by engine.c, engine_draw.c and engine_make.c. */
#ifndef RANK_GENERATE_ENGINE_PARTS_H
#define RANK_GENERATE_ENGINE_PARTS_H

#include "generate/engine.h"
#include "generate/grammar.h"
#include "generate/step_graphs.h"

#define ENGINE_HEAD_MAGIC UINT64_C(0x70657473666e6972) /* "rinfstep" */

/* The beginning of a rank's message in a step. Of other ranks than 0 only the rows are used. */
typedef struct engine_head {
    uint64_t magic;
    uint64_t record_bytes; /* of the record after the step; 0: there is none */
    uint64_t last;
    uint64_t rows; /* a digest of what it computes, if a model has drafted some of it */
} engine_head;

/* A row of a step whose logits give a token. */
typedef struct engine_sampled {
    const rank_sample_params *params; /* of its sequence; valid during the step */
    const rank_request *request;      /* the same */
    const int32_t *text;   /* (position): what stands before the token; valid during the step */
    int32_t sequence;      /* its index in the schedule, */
    int32_t known;         /* of whose text so many tokens are known: those behind are drafted */
    bool adjusted;         /* the logits are changed before the token is drawn */
    uint64_t position;     /* of the token */
    int32_t logprob_count; /* that its request asks for */
    int32_t drafted;       /* what the next row of the sequence has for it; -1: there is none */
    int32_t given;         /* the prompt's token in its place: none is drawn; -1: there is none */
} engine_sampled;

struct rank_engine {
    coll_comm *comm;
    rank_engine_on_event on_event;
    void (*on_begin)(void *user, uint64_t request_id,
                     int32_t cached); /* NULL: nobody wants to know */
    void *user;
    rank_step_trace *trace; /* NULL: none */
    rank_trace *timeline;   /* the same */
    rank_alone *alone;      /* NULL: nobody waits */
    rank_tp_group *group;
    rank_shards *shards;
    rank_hooks hooks;
    rank_run run;
    rank_saved saved;
    rank_graphs *graphs; /* of steps; NULL where the backend captures nothing */
    rank_cache cache;
    rank_sample_vocab vocab;
    rank_schedule *schedule;
    rank_drafter *drafter;   /* NULL: no model drafts */
    rank_grammars *grammars; /* NULL: no request has one */
    rank_requests *requests; /* on rank 0; else NULL */
    size_t table_width;
    size_t record_bytes_max;
    size_t work_bytes;
    rank_memory_use planned;
    /* of a step */
    int entry_count;
    int sampled_count;
    rank_schedule_entry *entries; /* (sequences) */
    size_t sampled_max;           /* sequences, and all they may draft in a step */
    engine_sampled *sampled;      /* (sampled_max), and so are the next three */
    rank_schedule_event *events;
    int32_t *tokens;
    int32_t *logit_rows;
    int32_t *batch_start;
    int32_t *batch_ids;
    int32_t *lengths; /* in RANK_MEMORY_HOST, with the blocks */
    int32_t *blocks;  /* (sequences, table_width) */
    rank_step_tables tables;
    float *logits;            /* (sampled_max, this rank's ids): the device's */
    rank_draw_row *draw_rows; /* (sampled_max), in RANK_MEMORY_HOST; NULL: the host draws */
    rank_mass *masses;        /* (sampled_max, RANK_SAMPLE_LEAVES), behind them */
    rank_kept *kept;          /* (sampled_max, RANK_KEPT_MAX), behind them */
    rank_drawn *drawn;        /* (sampled_max), behind them */
    bool drawn_on_device;     /* in this step */
    rank_logprob *logprobs;   /* (sampled_max, RANK_LOGPROBS_MAX) */
    float *adjusted_logits;   /* this rank's ids */
    uint32_t *marks;          /* of the whole vocabulary, for rank_adjust */
    float *all_logits;
    rank_sample_candidate *all_candidates;
    uint8_t *message;
    uint8_t *messages; /* of all ranks */
    uint8_t *record;
    rank_engine_costs costs;
};

/* ---- engine.c ---- */

/* An exchange of all ranks has ended, for the timeline. */
void rank_engine_trace_exchange(rank_engine *engine, rank_trace_kind kind, rank_span span,
                                size_t size_bytes);

/* ---- engine_draw.c ---- */

/* Makes this rank's message: a head (rank 0's has the length of its next record), and a sample
 * record for each row that is sampled. *size_bytes is the same on every rank. */
BASE_MUST_CHECK base_status rank_engine_make_message(rank_engine *engine, const engine_head *head,
                                                     size_t *size_bytes, base_error *reterr);

/* Draws the tokens of all ranks' messages, in the plan's order, and finds the log-probabilities that
 * are asked for. Behind a token that was not drafted, the rows of a draft mean nothing: they get -1. */
BASE_MUST_CHECK base_status rank_engine_draw(rank_engine *engine, size_t size_bytes,
                                             base_error *reterr);

#endif
