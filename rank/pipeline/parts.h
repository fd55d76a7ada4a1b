/* The inside of pipeline.h: what the files of this directory share. make.c makes and frees a stage, plan.c says what that takes,
 * run.c computes a step, or forward alone, norm.c adds up the norm, params.c moves parameters, messages.c sends and
 * receives, replicas.c is what several pipelines exchange, layout.c says which rank has what, sent.c has the memory of messages, tensor.c
 * is what the ranks of a stage exchange in its passes. */
#ifndef RANK_PIPELINE_PARTS_H
#define RANK_PIPELINE_PARTS_H

#include "model/family.h"
#include "parallel/ddp/norm.h"
#include "pipeline/pipeline.h"

/* A micro-batch in progress in a chunk, with buffers (T, C) of its own for the residual stream and its
 * gradient. */
typedef struct pipeline_place {
    rank_saved saved;
    float *in;   /* NULL in the first virtual stage */
    float *din;  /* NULL in the first virtual stage; sent */
    float *out;  /* NULL in the last virtual stage; sent */
    float *dout; /* NULL in the last virtual stage */
    coll_op *out_sent;
    coll_op *din_sent;
} pipeline_place;

/* Some neighbouring layers of this stage. Micro-batch m takes place m % place_count. */
typedef struct pipeline_chunk {
    int virtual_stage;
    rank_run run;
    pipeline_place *places;
    int place_count;
} pipeline_chunk;

/* The last stage's part of the tied gradient, on its way to the first. */
typedef struct pipeline_tied {
    float *at; /* (held.tied_count) */
    coll_op *sent;
} pipeline_tied;

/* Memory of messages to other stages. */
typedef struct pipeline_sent {
    coll_arena *arena;
    size_t used; /* floats */
} pipeline_sent;

/* What the ranks of a stage have exchanged in the passes of a step. */
typedef struct pipeline_exchange {
    int64_t ns;
    base_status failed; /* the first failure: later exchanges do nothing */
    base_error error;
} pipeline_exchange;

/* A bucket of this rank's gradients, which all replicas add up. */
typedef struct pipeline_sum {
    size_t place; /* in levels[0] */
    size_t count;
    coll_op *op;
    int64_t begun_ns; /* in this step, for a trace */
} pipeline_sum;

/* Those of a step, in the order of backward: the same in every step. */
typedef struct pipeline_sums {
    pipeline_sum *all; /* (capacity); made when they are first started */
    size_t capacity;
    size_t made;
    size_t started;     /* in this step */
    size_t done;        /* of the first of these it is known that they are done */
    int64_t ns;         /* of this step, while backward goes on */
    base_status failed; /* the first failure, until it is waited for */
    base_error error;
} pipeline_sums;

struct rank_pipeline {
    coll_context *context;
    coll_comm *copy;     /* all ranks of this replica: rank 0 is part 0 of stage 0 */
    coll_comm *comm;     /* of these the ones with this part, one for each stage; */
    coll_comm *forward;  /* the same ones, for what goes to the next virtual stage, */
    coll_comm *backward; /* and to the one before; NULL, all three: there is one stage */
    coll_comm *tensor;   /* of these the ones with this stage; NULL: it has one rank */
    coll_comm *replicas; /* this part of this stage in all replicas; NULL: there is one replica */
    coll_algorithm algorithm;
    size_t bucket_elements;
    rank_device device;
    rank_model_config config; /* of this rank's part */
    rank_tp tp;               /* with `tensor` */
    const rank_cp_group *cp;  /* NULL: micro-batches are not shared */
    double *loads;            /* of the options */
    rank_trace *trace;        /* the same */
    pipeline_exchange exchange;
    pipeline_sums sums; /* with `replicas` */
    coll_arena *arena;  /* of levels[0] then, so that peers read each other's gradients */
    proto_pipeline schedule;
    int stage;        /* this rank's, */
    int part;         /* which of its ranks this is, */
    int replica;      /* and the number of its pipeline */
    rank_shape shape; /* of a chunk, but for its layers */
    rank_hooks hooks;
    rank_held held;
    const float *params; /* of the step */
    float *work;         /* of all chunks in turn */
    struct {
        pipeline_sent forward;
        pipeline_sent backward;
        pipeline_sent tied;
    } sent; /* by the communicators of these names; tied by comm */
    pipeline_chunk chunks[PROTO_PIPELINE_CHUNKS_MAX];
    float *levels[RANK_DDP_LEVELS_MAX];            /* a tree's sums of leaves; (held.count) each */
    pipeline_tied tied[PROTO_PIPELINE_STAGES_MAX]; /* in the last stage; taken in turns */
    rank_norm_range *counted;                      /* of levels[0], by this rank for the norm */
    size_t counted_ranges;
    rank_leaf_plan leaf; /* of the micro-batch whose gradients are made */
    bool leaf_is_last;   /* it is the step's last one */
    int in_progress;     /* micro-batches between forward and the last pass, in each chunk */
    rank_pipeline_times times;
};

static inline bool pipeline_is_first(const rank_pipeline *pipeline)
{
    return pipeline->stage == 0;
}

static inline bool pipeline_is_last(const rank_pipeline *pipeline)
{
    return pipeline->stage == pipeline->schedule.stages - 1;
}

static inline bool pipeline_chunk_is_first(const pipeline_chunk *chunk)
{
    return chunk->virtual_stage == 0;
}

static inline bool pipeline_chunk_is_last(const rank_pipeline *pipeline,
                                          const pipeline_chunk *chunk)
{
    return chunk->virtual_stage == pipeline->schedule.stages * pipeline->schedule.chunks - 1;
}

static inline pipeline_place *pipeline_place_of(const pipeline_chunk *chunk, int micro_batch)
{
    return &chunk->places[micro_batch % chunk->place_count];
}

/* Where this stage's own parameters begin: the first element of its array behind a matrix that an
 * earlier stage also holds. */
static inline size_t pipeline_own_place(const rank_pipeline *pipeline)
{
    return pipeline_is_first(pipeline) ? 0 : pipeline->held.tied_count;
}

/* ---- make.c ---- */

/* Says what this rank's stage is, by its schedule, configuration and place: its shape, what it holds, its chunks. It
 * has no memory yet. */
void pipeline_describe(rank_pipeline *made, const rank_pipeline_options *options);

/* The same refusals of what cannot be made, for rank_pipeline_create and rank_pipeline_plan; fills in what the options
 * say, but for this rank's place. */
BASE_MUST_CHECK base_status pipeline_begin(rank_pipeline *made,
                                           const rank_pipeline_options *options,
                                           base_error *reterr);

/* Of all chunks: they compute one after the other. */
size_t pipeline_work_floats(const rank_pipeline *pipeline);

/* ---- layout.c ---- */

/* Which part of which stage of which replica a rank is, by the schedule. */
void pipeline_find_place(rank_pipeline *made, int tensor, int rank);

/* Makes the communicators of this rank's place. Collective. */
BASE_MUST_CHECK base_status pipeline_make_layout(rank_pipeline *pipeline, int tensor,
                                                 base_error *reterr);
void pipeline_free_layout(const rank_pipeline *pipeline);

/* The layers of a virtual stage: as launcher plan shares them out. config is that of a part. */
rank_shape pipeline_shape_of(const rank_pipeline *pipeline, const rank_model_config *config,
                             int virtual_stage);

/* What a stage holds of all its chunks. */
rank_held pipeline_held_of(const rank_pipeline *pipeline, const rank_model_config *config,
                           int stage);

/* The model's own configuration. */
rank_model_config pipeline_whole(const rank_pipeline *pipeline);

/* What a rank of a replica holds, by its rank in `copy`. */
typedef struct pipeline_member {
    rank_model_config config;
    rank_held held;
} pipeline_member;
pipeline_member pipeline_member_of(const rank_pipeline *pipeline, int rank);

/* ---- sent.c ---- */

/* Makes the memory of all that stages send. Collective. Nothing if there is one stage. */
BASE_MUST_CHECK base_status pipeline_make_sent(rank_pipeline *pipeline, base_error *reterr);
void pipeline_free_sent(rank_pipeline *pipeline);

/* The next so many floats of it. */
float *pipeline_cut_sent(pipeline_sent *sent, size_t floats);

/* ---- tensor.c ---- */

/* How passes add up the parts of the ranks that share a stage. */
rank_tp pipeline_make_tp(rank_pipeline *pipeline);

/* The first failure of an exchange in a pass. */
BASE_MUST_CHECK base_status pipeline_check_exchange(const rank_pipeline *pipeline,
                                                    base_error *reterr);

/* ---- messages.c: float32 messages; a count of 0 is no message ---- */

BASE_MUST_CHECK base_status pipeline_start(coll_comm *comm, int peer, const float *values,
                                           size_t count, coll_op **sent, base_error *reterr);

/* Moves messages under way on. `sent` has just been started: a stream takes so many frames, and then needs the
 * sender again, so this goes on for as long as the receiver takes them. NULL: none has. An error is that of the
 * next wait. */
void pipeline_progress(const rank_pipeline *pipeline, coll_op *sent);

/* Waits for a send. NULL is fine. */
BASE_MUST_CHECK base_status pipeline_wait(coll_op **sent, base_error *reterr);

BASE_MUST_CHECK base_status pipeline_send(coll_comm *comm, int peer, const float *values,
                                          size_t count, base_error *reterr);
BASE_MUST_CHECK base_status pipeline_receive(coll_comm *comm, int peer, float *values, size_t count,
                                             base_error *reterr);

/* ---- replicas.c: sums over the pipelines; where there is one, nothing ---- */

/* Makes levels[0] where peers can read it, and room for its sums. Collective over the pipelines. */
BASE_MUST_CHECK base_status pipeline_make_sums(rank_pipeline *pipeline, base_error *reterr);
void pipeline_free_sums(rank_pipeline *pipeline);

/* Starts the sums of a range of levels[0], which is final here. A failure is that of the wait. */
void pipeline_start_sums(rank_pipeline *pipeline, size_t place, size_t count);

/* Waits for the sums of this rank's own range. Collective over the pipelines. */
BASE_MUST_CHECK base_status pipeline_wait_for_sums(rank_pipeline *pipeline, base_error *reterr);

/* Gives the first pipeline's parameters of this stage to the others, with the model's digest. */
BASE_MUST_CHECK base_status pipeline_give_replicas(const rank_pipeline *pipeline, float *params,
                                                   uint8_t digest[RANK_DIGEST_BYTES],
                                                   base_error *reterr);

/* ---- run.c ---- */

/* hooks.ready: a range of the leaf is final, and is added to the sums that wait for it. Those of the last leaf are
 * final, too. */
void pipeline_ready(void *user, size_t offset, size_t count, rank_mark mark);

/* ---- norm.c ---- */

/* Finds what this rank counts. */
BASE_MUST_CHECK base_status pipeline_make_norm(rank_pipeline *pipeline, base_error *reterr);

/* The sum of squares of all gradients, on every stage. Collective. */
BASE_MUST_CHECK base_status pipeline_sum_squares(const rank_pipeline *pipeline, double *sum,
                                                 base_error *reterr);

#endif
