/* One stage of a pipeline: its layers, its micro-batches in progress, and the messages to the
 * stages beside it.
 *
 * A stage has one or several chunks of layers, which do not follow each other: chunk c of stage s is
 * virtual stage c · stages + s of stages · chunks. A micro-batch goes forward through all virtual stages,
 * from the last rank on to the first one again, and backward through them in reverse. What a stage
 * holds of all its chunks is one array.
 *
 * Ranks in a row share a stage: each has a part of every layer (tensor parallelism), and they add up
 * their parts in every pass. Stages in a row are a pipeline. There may be several, the replicas. Each
 * has slots of its own, as the ranks of data-parallel training have, or shares the tokens of a slot with its
 * neighbours; at a step's end the equal parts of all add their gradients up. Rank r is part r % tensor of stage r / tensor % stages of replica r /
 * (tensor · stages).
 *
 *     each step:
 *       rank_pipeline_run      forward and backward of all micro-batches, in the schedule's order; where
 *                              there are several pipelines, the last backward starts the sums over them. In zb-h1
 *                              backward is in two passes, and the second one makes the gradients of blocks
 *       rank_pipeline_reduce   waits for these, and for what stages must know of each other: the tied
 *                              gradient, the norm
 *       rank_pipeline_sums     the sums over the micro-batches, of what this stage holds
 *
 * Bits. The result is that of one rank with as many micro-batches, bit for bit:
 * - A micro-batch's gradient is one leaf of the canonical tree. Backward of a chunk comes in the order of
 *   the micro-batches in every schedule, so each chunk adds its part of the leaves up as rank/ddp.h does. If it is
 *   in two passes, each of them adds up what it has made.
 * - The tied matrix is on the first stage and on the last. In a whole model backward writes the
 *   output's part of its gradient, and then adds the embedding's to that, token by token. So the
 *   last stage sends its part of each micro-batch to the first, which adds its own and keeps the
 *   leaf. The first stage sends the sum over all micro-batches back.
 * - The norm is a sum of integers (backend/squares.h), the same in every order and for every cut.
 * - What the ranks of a stage share is cut along leaves of sums, as in parallel/tensor/tp.h.
 *
 * Messages are matched by their order. Forward's, backward's and the tied gradient's have a communicator
 * each, as with several chunks all of them may go from one rank to one other. In each of them both
 * ranks have the same order: that of chunks and micro-batches, which is one for all stages.
 *
 * No deadlock. A stage runs its tasks in order, and each begins when its message is there. Nothing else can
 * stop it, because a send is started and not waited for, but before its buffer is used again. By then the
 * receiver has the message, or can get to its receive without this stage: to wait for buffers as well lets
 * every schedule come to its end, and forwards alone as well (ctest -R launcher-pipeline plays them). Each
 * rank has so many buffers as micro-batches in progress, and of the tied gradient as many as there are
 * stages.
 *
 * On the CPU. One thread. After an error the object is dead: destroy it. */
#ifndef RANK_PIPELINE_PIPELINE_H
#define RANK_PIPELINE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/coll.h"
#include "proto/pipeline.h"
#include "rank/ddp.h"
#include "rank/model.h"

typedef struct rank_pipeline rank_pipeline;

typedef struct rank_pipeline_options {
    coll_context *context;    /* borrowed; its world has a multiple of stages × tensor ranks */
    proto_pipeline schedule;  /* with 1 … RANK_DDP_MICRO_BATCHES_MAX micro-batches in a step */
    int tensor;               /* ranks that share each stage */
    coll_algorithm algorithm; /* of the sums over several pipelines, */
    size_t bucket_bytes;      /* and the bytes of one of them; more if there would be too many */
    const rank_device *device;
    const rank_model_config *config;
    int token_count_max; /* of a micro-batch */
    bool recompute;      /* as in rank_model_options */
    double *loads;       /* the same; only where there is one stage */
    const rank_cp_group
        *cp;           /* pipelines in a row that get the same batches, and share their tokens;
                                borrowed. NULL: each has its own */
    rank_trace *trace; /* borrowed; gets the spans of passes, messages and waits; NULL: none */
} rank_pipeline_options;

/* Adds what rank_pipeline_create will allocate on `rank` of so many ranks, and the places of messages. *held_count:
 * parameters that this rank will hold. The refusals of create. Local: the options' context may be NULL. */
BASE_MUST_CHECK base_status rank_pipeline_plan(const rank_pipeline_options *options, int rank,
                                               int ranks, size_t *held_count, rank_memory_use *use,
                                               base_error *reterr);

/* Makes memory for what this rank holds. Collective. BASE_ERR_INVALID: fewer layers than virtual stages, or so many ranks
 * cannot share a stage, or its tokens. BASE_ERR_UNSUPPORTED: the model cannot be cut into stages. */
BASE_MUST_CHECK base_status rank_pipeline_create(const rank_pipeline_options *options,
                                                 rank_pipeline **pipeline, base_error *reterr);

/* Frees, also after a failure, and before the context is destroyed. Local. NULL is fine. */
void rank_pipeline_destroy(rank_pipeline *pipeline);

/* The model, as this rank has its part of it; and what this stage holds of that. Owned by the pipeline. */
const rank_model_config *rank_pipeline_config(const rank_pipeline *pipeline);
const rank_held *rank_pipeline_held(const rank_pipeline *pipeline);

/* The ranks that share this stage; NULL: it has one. Borrowed. */
coll_comm *rank_pipeline_tensor_ranks(const rank_pipeline *pipeline);

/* Gives the batch of a micro-batch; called for 0, 1, … in order. The same on every stage. It is used
 * until the next call. */
typedef base_status (*rank_pipeline_batch)(void *user, int micro_batch, rank_batch *batch,
                                           base_error *reterr);

/* What a step has taken on this stage. */
typedef struct rank_pipeline_times {
    int64_t forward_ns;  /* computing, of all micro-batches */
    int64_t backward_ns; /* the same */
    int64_t
        weights_ns; /* of it the gradients of weights, where these are a pass of their own; else 0 */
    int64_t tensor_ns; /* of both: exchanges with the ranks that share the stage */
    int64_t wait_ns;   /* in run, for messages of the stages beside this one */
    int64_t span_ns;   /* run, from its begin to its end */
    int64_t hidden_ns; /* of backward: starting the sums over several pipelines */
    int64_t reduce_ns; /* rank_pipeline_reduce */
    int held; /* activations that were kept at once, at most: of a micro-batch in a chunk */
} rank_pipeline_times;

/* Forward and backward of all micro-batches. params: what this stage holds. results (micro_batches)
 * are of the last stage; of others they are zeros. */
BASE_MUST_CHECK base_status rank_pipeline_run(rank_pipeline *pipeline, const float *params,
                                              rank_pipeline_batch batch, void *user,
                                              rank_result *results, base_error *reterr);

/* The loss of a batch; called in the order of the batches. */
typedef void (*rank_pipeline_loss)(void *user, int batch, const rank_result *result);

/* What is evaluated. */
typedef struct rank_pipeline_evaluation {
    int batches; /* the same on every stage */
    rank_pipeline_batch batch;
    rank_pipeline_loss loss; /* called on part 0 of the last stage */
    void *user;              /* of both */
} rank_pipeline_evaluation;

/* Forward alone of all these batches. Between two steps. Each loss has the bits of rank_model_forward's. */
BASE_MUST_CHECK base_status rank_pipeline_evaluate(rank_pipeline *pipeline, const float *params,
                                                   const rank_pipeline_evaluation *evaluation,
                                                   base_error *reterr);

/* Exchanges what a step's end needs. *sum_squares: of all gradients, the same on every rank. Collective. */
BASE_MUST_CHECK base_status rank_pipeline_reduce(rank_pipeline *pipeline, double *sum_squares,
                                                 base_error *reterr);

/* Adds up the pipelines' losses in the canonical order, as data-parallel ranks do with every algorithm. *loss: this
 * pipeline's on its last stage, 0 on the others; afterwards that of all on one rank, and 0 elsewhere. Collective. */
BASE_MUST_CHECK base_status rank_pipeline_sum_loss(const rank_pipeline *pipeline, double *loss,
                                                   base_error *reterr);

/* After reduce, until the next run: the sums over all micro-batches of all pipelines, of what this stage
 * holds. */
const float *rank_pipeline_sums(const rank_pipeline *pipeline);

void rank_pipeline_get_times(const rank_pipeline *pipeline, rank_pipeline_times *times);

/* Gives each rank its part of rank 0's `whole` (all parameters; others: NULL), into params.
 * Collective. *digest: BLAKE2b-256 of all of them, on every rank. BASE_ERR_MISMATCH: a rank has received
 * other bytes. */
BASE_MUST_CHECK base_status rank_pipeline_scatter(rank_pipeline *pipeline, const float *whole,
                                                  float *params, uint8_t digest[RANK_DIGEST_BYTES],
                                                  base_error *reterr);

/* What several ranks of a replica hold: the tied matrix, and what is not cut between the ranks of a stage. */
typedef struct rank_pipeline_copies {
    bool byte_equal;
    double max_abs_difference;
} rank_pipeline_copies;

/* Collects all parameters of the first replica on rank 0 in `whole` (others: NULL), and compares copies there.
 * Collective. */
BASE_MUST_CHECK base_status rank_pipeline_gather(rank_pipeline *pipeline, const float *params,
                                                 float *whole, rank_pipeline_copies *copies,
                                                 base_error *reterr);

/* Compares this stage's parameters with those of the same stage in the first pipeline. The gradients' sums
 * are lost. Collective. */
BASE_MUST_CHECK base_status rank_pipeline_compare(rank_pipeline *pipeline, const float *params,
                                                  bool *byte_equal, double *max_abs_difference,
                                                  base_error *reterr);

#endif
