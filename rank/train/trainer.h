/* The training of one rank: its objects and its stages. Private to rank/train. */
#ifndef RANK_TRAIN_TRAINER_H
#define RANK_TRAIN_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/graphs.h"
#include "control.pb-c.h"
#include "data/chat.h"
#include "pipeline/pipeline.h"
#include "proto/digest.h"
#include "proto/limits.h"
#include "rank/data.h"
#include "rank/ddp.h"
#include "rank/model.h"
#include "rank/optim.h"
#include "rank/tokenizer.h"
#include "train/muon.h"
#include "train/training_state.h"
#include "worker/traced.h"

/* What steps exchange, by kind: trainer_exchange_kinds. */
enum { TRAINER_EXCHANGE_KINDS = 4 };
typedef struct trainer_exchanges {
    uint64_t calls[TRAINER_EXCHANGE_KINDS];
    uint64_t bytes[TRAINER_EXCHANGE_KINDS];
} trainer_exchanges;

/* --local-steps. In the host's memory, which is the device's: a value for each parameter that is trained. */
typedef struct trainer_outer {
    float *params;     /* that all ranks had after the last round */
    float *velocity;   /* of the outer steps */
    size_t size_bytes; /* of both, as allocated */
} trainer_outer;

/* Values that ranks add up in a step at most, besides gradients and loads: for each micro-batch two losses. */
enum { TRAINER_SUMS_MAX = 8 + 2 * RANK_DDP_MICRO_BATCHES_MAX };

/* How many rows each expert has got. Each of (layers, experts); NULL: the model has no experts. */
typedef struct trainer_loads {
    double *
        step; /* in this step: of this rank's micro-batches, and once they are added up of all ranks' */
    double *last;   /* in the last steps, of all ranks */
    uint64_t first; /* of these steps */
    double *sums;   /* room for what is added up with them */
} trainer_loads;

/* What --eval and --eval-every find, over all ranks, at one step. */
typedef struct trainer_heldout_result {
    double loss;        /* mean over target tokens; NaN: not measured */
    uint64_t measured;  /* sentences or windows that the loss is of; 0: not measured */
    uint64_t sentences; /* that were to be corrected; 0: the file has no pairs */
    uint64_t correct;
    uint64_t sentences_here; /* those of this rank */
    uint64_t correct_here;
} trainer_heldout_result;

typedef struct trainer {
    rank_worker *worker;
    const proto_job *job;
    rank_model_config config;
    rank_model_config trained; /* of what is trained: the model, or with --lora its adapters */
    int checkpoint_context; /* of the checkpoint that it begins with, where --context is shorter */
    rank_model_config
        own;             /* what this rank has of it: all, but where ranks share out the experts */
    size_t param_count;  /* that are trained */
    size_t own_params;   /* of own */
    size_t model_params; /* of the model: the same, but with --lora */
    rank_device device;
    rank_graphs *graphs; /* NULL on the CPU */
    rank_tokenizer *tokenizer;
    char tokenizer_sha256[PROTO_DIGEST_HEX_BYTES]; /* of its file */
    rank_chat chat;                                /* of the checkpoint, for data that are chats */
    rank_data *data;
    bool learns_pairs;  /* most of the data, on all ranks, are pairs: trainer_ready finds it out */
    rank_data *heldout; /* NULL: nothing is evaluated */
    rank_cp_group *cp;  /* ranks that share micro-batches with this one; NULL: there are none */
    rank_ep_group *ep;  /* ranks that share out the experts with this one; NULL: there are none */
    rank_zero_range *apart; /* of own: the experts, layer by layer */
    rank_traced traced;     /* the last steps */
    rank_model *model;
    rank_optimizer *optimizer;
    trainer_muon muon;
    rank_ddp *ddp;
    trainer_outer outer;     /* with local steps; else empty */
    rank_training_best best; /* with --keep-best; step 0: there is none yet */
    float *best_params;      /* of that step, in the device's memory, like params; NULL: not kept */
    rank_ddp_part *parts;    /* what passes read at one time, for --zero 2 and 3 */
    int part_count;
    rank_pipeline
        *pipeline; /* NULL: this rank has all layers, and model and ddp. Else it has neither */
    uint8_t initial_digest[RANK_DIGEST_BYTES]; /* BLAKE2b-256 of the model's first parameters */
    float *params;          /* in the device's memory; in a pipeline what this stage holds, and with
                              * --zero 3 this rank's shard, which belongs to ddp */
    size_t param_bytes;     /* of params, as allocated; 0: in a pipeline, or a shard */
    float *frozen;          /* the model's parameters, with --lora; else NULL */
    rank_bfloat16 *rounded; /* the same for products of --precision bfloat16; NULL: not needed */
    rank_memory_use planned;     /* of the device's memory, without what evaluating takes */
    rank_training_lora lora;     /* rank 0: of adapters */
    rank_training_course course; /* rank 0, if it writes checkpoints or goes on from one */
    uint64_t epoch;
    uint64_t first_step; /* of the checkpoint from which this training goes on; else 0 */
    uint64_t steps_done;
    uint64_t saved_step;  /* steps_done in the newest checkpoint; 0: there is none */
    uint64_t checkpoints; /* written */
    int64_t checkpoint_ns;
    trainer_exchanges exchanges; /* of all steps of this job */
    trainer_loads loads;
    bool epoch_ended; /* of all ranks */
    bool stopping;    /* of all ranks: the launcher has asked for a stop, and a round has ended */
    bool
        pausing; /* of all ranks: the launcher has asked for the end with the checkpoint of this step */
} trainer;

/* Which copy of the model this rank belongs to, and what it has of that. A replica has slots of its own. */
static inline proto_place trainer_place(const trainer *self)
{
    return proto_job_place(self->job, self->worker->identity.rank);
}

/* ---- experts.c: ranks that share out the experts. Each does nothing, or knows none, without --expert-ranks. ---- */

bool trainer_shares_experts(const trainer *self);

/* Makes the group, and says what this rank has of the model. */
BASE_MUST_CHECK base_status trainer_make_expert_ranks(trainer *self, base_error *reterr);

/* Of what data-parallel training adds up: where ranks have different experts. */
rank_ddp_apart trainer_apart(const trainer *self);

/* Collective: the first parameters, or those in the directory `from`, to each rank what it has. The digest is that
 * of all. `wrap` makes the ddp with them. */
BASE_MUST_CHECK base_status trainer_share_experts(trainer *self, const char *from,
                                                  base_error *reterr);

/* Collective: of values, one for each parameter, that rank 0 has (others: NULL), each rank of the first group gets
 * what it has; but what all have alike only rank 0. rank_ddp_share does the rest. */
BASE_MUST_CHECK base_status trainer_spread_experts(const trainer *self, const float *whole,
                                                   float *values, base_error *reterr);

/* Collective, the other way: all values to rank 0's whole. */
BASE_MUST_CHECK base_status trainer_collect_experts(const trainer *self, const float *values,
                                                    float *whole, base_error *reterr);

/* The same two of shards, which hold this rank's pieces of what it has: moments with --zero 1. `what` stands in
 * messages. */
BASE_MUST_CHECK base_status trainer_spread_shards(const trainer *self, const float *whole,
                                                  float *shard, const char *what,
                                                  base_error *reterr);
BASE_MUST_CHECK base_status trainer_collect_shards(const trainer *self, const float *shard,
                                                   float *whole, base_error *reterr);

/* ---- traced.c: what a step adds to the trace ---- */

/* A part of the step on this thread ends. Behind RANK_TRACE_BATCH come the passes of that micro-batch. */
void trainer_trace_part(const trainer *self, rank_trace_kind kind, int64_t begun_ns, int index);

/* An exchange ends that this thread was in from its begin. */
void trainer_trace_exchange(const trainer *self, rank_trace_kind kind, int64_t begun_ns);

/* prepare.c: how data-parallel training is to be made; and makes the ddp, with these parameters. */
rank_ddp_options trainer_ddp_options(const trainer *self);
BASE_MUST_CHECK base_status trainer_wrap(trainer *self, float *params, base_error *reterr);

/* batch.c: the next batch of the rank's slot with that number, and what its dropout depends on. Valid until the
 * next call. */
BASE_MUST_CHECK base_status trainer_next_batch(const trainer *self, int slot, rank_batch *batch,
                                               base_error *reterr);

/* step.c: the tokens of a batch that this rank computes. */
uint64_t trainer_tokens_here(const trainer *self, const rank_batch *batch);

/* ---- stage.c: in a pipeline ---- */

/* Makes this stage, and the parameters that it holds; gives the parameters of rank 0 to the stages; and computes a
 * step. */
BASE_MUST_CHECK base_status trainer_stage_make(trainer *self, base_error *reterr);
BASE_MUST_CHECK base_status trainer_stage_share(trainer *self, const char *from,
                                                base_error *reterr);
BASE_MUST_CHECK base_status trainer_stage_compute(trainer *self, uint64_t *tokens,
                                                  rank_result *results, base_error *reterr);

/* Whether this rank has the losses: part 0 of the last stage has those of its pipeline, and any rank without stages
 * its own. */
bool trainer_has_loss(const trainer *self);

/* Collective over a pipeline: forward of its held-out batches. On the rank that has the losses, adds those of each
 * slot to losses (micro-batches), and counts the targets. */
BASE_MUST_CHECK base_status trainer_stage_heldout(trainer *self, double *losses, double *targets,
                                                  base_error *reterr);

/* ---- lora.c: training of adapters alone ---- */

bool trainer_adapts(const trainer *self);

/* Each does nothing without adapters. Makes memory for the frozen model; reads it on rank 0, which notes
 * what it was; and, collective, gives it to all ranks. */
BASE_MUST_CHECK base_status trainer_make_frozen(trainer *self, base_error *reterr);
BASE_MUST_CHECK base_status trainer_read_frozen(trainer *self, base_error *reterr);
BASE_MUST_CHECK base_status trainer_share_frozen(const trainer *self, base_error *reterr);

/* The model with its adapters. *whole is malloc'ed and the caller's, also after a failure. */
BASE_MUST_CHECK base_status trainer_merge(const trainer *self, float **whole, base_error *reterr);

/* ---- outer.c: rounds of local steps. Each does nothing, or knows none, without --local-steps. ---- */

bool trainer_is_local(const trainer *self);

/* Whether all ranks have the same parameters after so many steps: they exchange in each, or a round ends. */
bool trainer_ends_round(const trainer *self, int64_t steps);

/* Bytes that the outer state takes. */
size_t trainer_outer_plan(const trainer *self);

/* Makes it, from the parameters that all ranks have. */
BASE_MUST_CHECK base_status trainer_outer_make(trainer *self, base_error *reterr);
void trainer_outer_free(trainer *self);

/* Collective, with local steps, at the end of a round: all ranks get the same parameters. *update_ns: what
 * it took besides the exchange. */
BASE_MUST_CHECK base_status trainer_outer_step(trainer *self, rank_ddp_times *times,
                                               int64_t *update_ns, base_error *reterr);

/* ---- muon.c: ranks that share out the matrices of Muon. Each does nothing, or knows none, without --optimizer muon. ---- */

/* With --zero: finds how parameters are cut. */
BASE_MUST_CHECK base_status trainer_find_stretches(trainer *self, base_error *reterr);

/* Adds the memory that it takes besides the moments. */
void trainer_plan_muon(const trainer *self, rank_memory_use *use);
rank_muon_options trainer_muon_options(const trainer *self);

/* Makes the exchanges of what each rank has updated, and frees all of this. */
BASE_MUST_CHECK base_status trainer_make_muon(trainer *self, base_error *reterr);
void trainer_free_muon(trainer *self);

/* Collective: gives the matrices that this rank has updated to all. Not with local steps, where each updates all of
 * its own, and not of matrices in parts. */
BASE_MUST_CHECK base_status trainer_gather_muon(const trainer *self, base_error *reterr);

/* Collective, behind the optimizer's step: updates the matrices of which ranks have parts.
 * *exchange_ns: what the exchanges took of it. */
BASE_MUST_CHECK base_status trainer_update_parts(const trainer *self, int64_t *exchange_ns,
                                                 base_error *reterr);

/* ---- optimizer.c ---- */

/* Adds the moments of what this rank updates, and what Muon takes. */
void trainer_plan_update(const trainer *self, rank_memory_use *use);
BASE_MUST_CHECK base_status trainer_make_optimizer(trainer *self, base_error *reterr);

/* ---- best.c: the model with the lowest held-out loss. Each does nothing, or knows none, without --keep-best. ---- */

bool trainer_keeps_best(const trainer *self);

/* Bytes that its parameters take. */
size_t trainer_best_plan(const trainer *self);
BASE_MUST_CHECK base_status trainer_best_make(trainer *self, base_error *reterr);
void trainer_best_free(trainer *self);

/* Takes down what an evaluation after `step` steps has found, which is the same on all ranks: keeps the parameters,
 * or counts one more without a lower loss. */
void trainer_note_best(trainer *self, int64_t step, const trainer_heldout_result *heldout);

/* Whether --patience is over. */
bool trainer_gives_up(const trainer *self);

/* Whether the best parameters are others than the current ones. */
bool trainer_has_better(const trainer *self);

/* Makes them the current ones. After that no step follows. */
void trainer_take_best(trainer *self);

/* Collective, on a checkpoint's step: goes on with what it has of this. path is rank 0's. */
BASE_MUST_CHECK base_status trainer_resume_best(trainer *self, const char *path,
                                                const rank_training_best *saved,
                                                base_error *reterr);

/* ---- local.c: what a checkpoint has besides, with local steps ---- */

/* Collective: each rank's moments, and the outer momentum, to files in rank 0's directory; and back. */
BASE_MUST_CHECK base_status trainer_write_local(const trainer *self, const char *directory,
                                                base_error *reterr);
BASE_MUST_CHECK base_status trainer_read_local(const trainer *self, const char *directory,
                                               base_error *reterr);

/* ---- loads.c: how a model with experts spreads tokens. Each does nothing without experts. ---- */

BASE_MUST_CHECK base_status trainer_loads_make(trainer *self, base_error *reterr);
void trainer_loads_free(trainer *self);
void trainer_loads_begin(trainer *self); /* before each step */

/* Collective, with experts: adds up the step's loads over the ranks, and `count` values with them, in place. */
BASE_MUST_CHECK base_status trainer_loads_sum(const trainer *self, double *values, size_t count,
                                              base_error *reterr);

/* After that: the rows of the step's busiest expert, as a multiple of the mean of its layer. 0: there are no
 * experts, or more than PROTO_LOADS_MAX. */
double trainer_loads_busiest(const trainer *self);

/* Storage of what Finished has of this. */
typedef struct trainer_experts {
    Ringfence__Control__Experts message;
    float loads[PROTO_LOADS_MAX];
} trainer_experts;

/* Puts the shares of all ranks' tokens into rank 0's message. */
void trainer_put_experts(const trainer *self, trainer_experts *experts,
                         Ringfence__Control__Finished *finished);

/* ---- whole.c: models of which a rank has only a part: a stage's, with --zero 3 a shard, or some experts ---- */

bool trainer_has_part(const trainer *self);

/* Whether params are not those of a whole model, so that who needs one calls trainer_give_whole. */
bool trainer_lacks_whole(const trainer *self);

/* Memory for a value of each parameter on rank 0, which frees it. Others need none, and get NULL. */
BASE_MUST_CHECK base_status trainer_make_whole(const trainer *self, float **whole,
                                               base_error *reterr);

/* Collective. Values, one for each parameter, of which each rank has its stage's or its shard's: makes all of
 * them on rank 0, which frees them; others get NULL. copies says whether those that several ranks have are
 * equal. */
BASE_MUST_CHECK base_status trainer_collect(const trainer *self, const float *values, float **whole,
                                            rank_pipeline_copies *copies, base_error *reterr);

/* Collective: all parameters on every rank, which frees them; with adapters merged. */
BASE_MUST_CHECK base_status trainer_give_whole(const trainer *self, float **whole,
                                               base_error *reterr);

/* Collective: saves the whole model on rank 0, and compares what several ranks have. */
BASE_MUST_CHECK base_status trainer_save_whole(const trainer *self,
                                               uint8_t digest[PROTO_DIGEST_BYTES], bool *byte_equal,
                                               double *max_abs_difference, base_error *reterr);

/* prepare.c: makes the first parameters (param_count, in the host's memory), or reads
 * them from the directory `from`; "": makes them. */
BASE_MUST_CHECK base_status trainer_first_params(const trainer *self, const char *from,
                                                 float *params, base_error *reterr);

/* finish.c: warns of parameters that are not finite, and writes this rank's state and, on rank 0,
 * the model. */
BASE_MUST_CHECK base_status trainer_write(const trainer *self, const float *params,
                                          base_error *reterr);

/* ---- sums.c ---- */

/* Adds doubles up over the ranks, in place. Collective. */
BASE_MUST_CHECK base_status trainer_sum(const trainer *self, double *values, size_t count,
                                        base_error *reterr);

/* sums.c: adds up the losses of micro-batches in the order of their gradients. */
double trainer_sum_losses(const double *losses, int count);

/* prepare.c: how many parameters this rank has in params: in a pipeline its stage's. And, where products are of
 * rounded ones, rounds them. */
size_t trainer_params_here(const trainer *self);
void trainer_round(const trainer *self);

/* save.c: whether each rank has a part of these values: a stage's, or a shard. */
bool trainer_are_cut(const trainer *self, const float *values);

/* The same: whether they are moments of its shard, and no parameters, which stages 1 and 2 of ZeRO do not shard. */
bool trainer_are_moments_sharded(const trainer *self, const float *values);

/* prepare.c: whether each rank has only the moments of its own shard: --zero. And whether it has only its
 * shard of the parameters, too. */
bool trainer_is_sharded(const trainer *self);
bool trainer_shards_params(const trainer *self);

/* room.c; collective: whether the memory of this host has room for what its ranks will have allocated: the model's
 * state, and what `model` takes. BASE_ERR_MEMORY: it has not, with all that can be swapped; the message has the
 * figures. Where it takes swap, a warning. */
BASE_MUST_CHECK base_status trainer_check_host(const trainer *self, const rank_model_options *model,
                                               const rank_memory_use *state, base_error *reterr);

/* The same of ranks of pipelines. */
BASE_MUST_CHECK base_status trainer_check_stage_host(const trainer *self,
                                                     const rank_pipeline_options *options,
                                                     base_error *reterr);

/* prepare.c: adds what data-parallel training keeps of the model's state: parameters, gradients, moments. */
void trainer_plan_state(const trainer *self, rank_memory_use *use);

/* resume.c; collective: the values of rank 0's file `name` in the directory to all ranks, or to each its part.
 * `what` stands in messages. */
BASE_MUST_CHECK base_status trainer_share_file(const trainer *self, const char *directory,
                                               const char *name, float *values, const char *what,
                                               base_error *reterr);

/* state_use.c: counts a step's collectives: what is under way counts from begin on, and is added by end. */
void trainer_exchanges_begin(const trainer *self, trainer_exchanges *before);
void trainer_exchanges_end(trainer *self, const trainer_exchanges *before);

/* Storage of what Finished has of this. */
typedef struct trainer_state_use {
    Ringfence__Control__MemoryUse rows[RANK_MEMORY_KINDS];
    Ringfence__Control__MemoryUse *row_at[RANK_MEMORY_KINDS];
    Ringfence__Control__ExchangeUse kinds[TRAINER_EXCHANGE_KINDS];
    Ringfence__Control__ExchangeUse *kind_at[TRAINER_EXCHANGE_KINDS];
} trainer_state_use;

/* state_use.c: puts into the message what this rank has of the model's state, by plan and as allocated,
 * and what its steps have exchanged. Only of data-parallel training on CPUs. */
void trainer_put_state_use(const trainer *self, trainer_state_use *use,
                           Ringfence__Control__Finished *finished);

/* prepare.c: of --data. With a checkpoint, self->chat has been read. */
rank_data_options trainer_data_options(const trainer *self);

/* prepare.c: makes everything that a step needs. All ranks then have the same parameters. */
BASE_MUST_CHECK base_status trainer_prepare(trainer *self, base_error *reterr);

/* ready.c: sends Ready, and waits until the launcher has it from every rank. The launcher then clears OUT.
 * No rank may save anything there before. The ranks tell each other how many pairs they have. */
BASE_MUST_CHECK base_status trainer_ready(trainer *self, base_error *reterr);

/* step.c */
BASE_MUST_CHECK base_status trainer_step(trainer *self, base_error *reterr);

/* ---- finish.c ---- */

/* Sends the Finished of ranks that pause. */
BASE_MUST_CHECK base_status trainer_finish_paused(const trainer *self, base_error *reterr);

/* Compares the ranks, saves, evaluates, and sends Finished. */
BASE_MUST_CHECK base_status trainer_finish(trainer *self, int64_t startup_ns, base_error *reterr);

/* Writes a Hugging Face directory of all that are trained, which are in the host's memory: of the model, or of
 * adapters. */
BASE_MUST_CHECK base_status trainer_write_model(const trainer *self, const char *directory,
                                                const float *params, base_error *reterr);

/* Collective: waits until all ranks are here. For rank 0, which reads or writes so many files of all
 * parameters meanwhile, there is as much time more as a slow disk takes. */
BASE_MUST_CHECK base_status trainer_await_files(const trainer *self, int count, base_error *reterr);

/* ---- save.c ---- */

/* Collective: writes a checkpoint of this moment into OUT, and removes old ones. All ranks wait until it is
 * on the disk. Does nothing if it stands there, or if the job writes none. */
BASE_MUST_CHECK base_status trainer_save(trainer *self, base_error *reterr);

/* Whether a checkpoint follows the present step, and further steps that one; and the launcher wants all ranks to end
 * there. Of rank 0; the others never know it. */
bool trainer_may_pause(const trainer *self);

/* Collective, when all are about to pause and the checkpoint is written: takes what the launcher has said meanwhile.
 * Then they may be stopping instead, or go on. */
BASE_MUST_CHECK base_status trainer_confirm_pause(trainer *self, base_error *reterr);

/* ---- resume.c ---- */

enum { TRAINER_OLDER_BYTES = 96 };

/* " (without its directory, --resume goes on after step 20)": for an error about the checkpoint of `step`.
 * Empty: there is no older one. */
void trainer_name_older(const trainer *self, uint64_t step, char text[TRAINER_OLDER_BYTES]);

/* Rank 0, with --resume: the directory of the newest checkpoint in OUT, whose training was this job's as far
 * as it went. Empty: there is none. BASE_ERR_INVALID says what differs, or which file is damaged. */
BASE_MUST_CHECK base_status trainer_find_checkpoint(trainer *self, char path[BASE_PATH_BYTES],
                                                    base_error *reterr);

/* Collective: takes everything but the parameters from the checkpoint: steps, the place in the data, and
 * AdamW's moments. path is rank 0's. */
BASE_MUST_CHECK base_status trainer_go_on(trainer *self, const char *path, base_error *reterr);

/* ---- heldout.c ---- */

/* Opens the held-out sentences, if --eval is given, and says what it does not measure. */
BASE_MUST_CHECK base_status trainer_heldout_open(trainer *self, base_error *reterr);

/* How many held-out sentences of its slots no batch leaves out, on one of the ranks that have these slots; else 0. */
double trainer_heldout_measured(const trainer *self);

/* Goes to the first held-out batch of each slot: all evaluations have the same order. */
BASE_MUST_CHECK base_status trainer_heldout_begin(trainer *self, base_error *reterr);

/* Collective: held-out loss and accuracy of the current parameters. at_end: the training has ended. A rank then
 * ends early if the launcher asks for a stop meanwhile, and its share counts as not measured; and in a pipeline
 * sentences are corrected, for which every rank gets the whole model. */
BASE_MUST_CHECK base_status trainer_heldout(trainer *self, bool at_end,
                                            trainer_heldout_result *result, base_error *reterr);

/* The same after `step` steps, if --eval-every says so; *evaluated: it does. */
BASE_MUST_CHECK base_status trainer_evaluate(trainer *self, int64_t step, bool *evaluated,
                                             trainer_heldout_result *result, base_error *reterr);

#endif
