/* Where a training was when its checkpoint was written: training.json. Model and moments stand beside it
 * (proto/checkpoints.h). Private to rank/train. */
#ifndef RANK_TRAIN_TRAINING_STATE_H
#define RANK_TRAIN_TRAINING_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/digest.h"
#include "proto/job.h"

/* In a checkpoint: AdamW's moments, by PyTorch's names for them. */
#define TRAINER_FIRST_MOMENTS_FILE  "exp_avg.safetensors"
#define TRAINER_SECOND_MOMENTS_FILE "exp_avg_sq.safetensors"

/* Of local steps: what ranks have in common, and the moments of each. */
#define TRAINER_OUTER_MOMENTUM_FILE "outer_momentum.safetensors"
enum { TRAINER_MOMENTS_NAME_BYTES = 48 };
void rank_training_moments_name(int rank, bool second, char name[TRAINER_MOMENTS_NAME_BYTES]);

/* With --keep-best: the parameters of the best step, if the checkpoint is of another. */
#define TRAINER_BEST_FILE "best.safetensors"

/* In a checkpoint: what is trained. */
const char *rank_training_model_file(bool adapters);

/* What a training of adapters trains, and beside what. */
typedef struct rank_training_lora {
    int64_t rank; /* 0: it trains the model */
    double alpha;
    char targets[PROTO_LORA_TARGETS_BYTES];
    char frozen_blake2b256[PROTO_DIGEST_HEX_BYTES]; /* of the model's parameters */
} rank_training_lora;

/* Rounds of local steps. */
typedef struct rank_training_local {
    int64_t steps; /* of each; 0: there are none */
    int64_t ranks; /* that take them, each with moments of its own */
    double outer_learning_rate;
    double outer_momentum;
} rank_training_local;

/* The optimizer and its schedule, and dropout: they may be others when a training goes on. */
typedef struct rank_training_optimizer {
    int64_t steps; /* asked for; 0: a checkpoint of an earlier version says nothing of all this */
    int64_t warmup_steps;
    proto_optimizer kind; /* which stays the same: the moments are its own */
    double muon_momentum;
    proto_schedule schedule;
    double learning_rate;
    double learning_rate_min;
    double beta1;
    double beta2;
    double weight_decay;
    double clip_norm;
    double dropout;
} rank_training_optimizer;

/* --keep-best: the evaluation that had the lowest held-out loss. */
typedef struct rank_training_best {
    int64_t step; /* that were done; 0: there was none */
    double loss;
    int64_t waited; /* evaluations since, in a row, without a lower one */
} rank_training_best;

/* What the numbers of a state mean anything with: which batch comes next. */
typedef struct rank_training_course {
    int64_t slots; /* ranks × micro-batches */
    int64_t batch;
    int64_t context;
    int64_t seed;
    proto_loss_on loss_on;
    bool windows;
    char chat_date[PROTO_CHAT_DATE_BYTES]; /* empty: none */
    char data_sha256[PROTO_DIGEST_HEX_BYTES];
    char tokenizer_sha256[PROTO_DIGEST_HEX_BYTES];
    char heldout_sha256[PROTO_DIGEST_HEX_BYTES]; /* with --keep-best; which may be another */
} rank_training_course;

/* SHA-256 of the files beside training.json; empty in checkpoints of earlier versions. */
typedef struct rank_training_files {
    char model[PROTO_DIGEST_HEX_BYTES];
    char first_moments[PROTO_DIGEST_HEX_BYTES]; /* but with local steps */
    char second_moments[PROTO_DIGEST_HEX_BYTES];
    char outer_momentum[PROTO_DIGEST_HEX_BYTES]; /* with local steps */
    char best[PROTO_DIGEST_HEX_BYTES];           /* if that is of another step */
    char of_ranks[BASE_COLL_RANKS_MAX][2][PROTO_DIGEST_HEX_BYTES];
} rank_training_files;

typedef struct rank_training_state {
    int64_t version;
    rank_training_course course;
    rank_training_lora lora;
    rank_training_local local;
    rank_training_optimizer optimizer;
    rank_training_best best;
    rank_training_files sha256;
    int64_t step;     /* that were done */
    int64_t epoch;    /* from 0 */
    bool epoch_ended; /* the next step begins another */
} rank_training_state;

/* The course of a job. Reads its files. BASE_ERR_NOTFOUND, BASE_ERR_IO. */
BASE_MUST_CHECK base_status rank_training_course_of(const proto_job *job,
                                                    rank_training_course *course,
                                                    base_error *reterr);

/* BASE_ERR_INVALID names what differs, and both values. */
BASE_MUST_CHECK base_status rank_training_course_check(const rank_training_course *saved,
                                                       const rank_training_course *now,
                                                       base_error *reterr);

/* The same of what is trained. */
BASE_MUST_CHECK base_status rank_training_lora_check(const rank_training_lora *saved,
                                                     const rank_training_lora *now,
                                                     base_error *reterr);

/* That of a job, and the same of it. */
rank_training_local rank_training_local_of(const proto_job *job);
BASE_MUST_CHECK base_status rank_training_local_check(const rank_training_local *saved,
                                                      const rank_training_local *now,
                                                      base_error *reterr);

/* That of a job, and the check of its kind. */
BASE_MUST_CHECK base_status rank_training_optimizer_check(const rank_training_optimizer *saved,
                                                          const rank_training_optimizer *now,
                                                          base_error *reterr);
rank_training_optimizer rank_training_optimizer_of(const proto_job *job);

/* Logs a warning for each flag that is another now, with both values. */
void rank_training_optimizer_compare(const rank_training_optimizer *saved,
                                     const rank_training_optimizer *now);

/* Writes DIRECTORY/training.json, with the digests of the files that stand there. positions (course.slots): rank_data_position of each slot. */
BASE_MUST_CHECK base_status rank_training_state_write(const char *directory,
                                                      const rank_training_state *state,
                                                      const uint32_t *positions,
                                                      base_error *reterr);

/* Reads it back. *positions (course.slots) is malloc'ed and the caller's. BASE_ERR_INVALID names a flaw. */
BASE_MUST_CHECK base_status rank_training_state_read(const char *directory,
                                                     rank_training_state *state,
                                                     uint32_t **positions, base_error *reterr);

/* training_files.c: SHA-256 of a file, in hex. */
BASE_MUST_CHECK base_status rank_training_file_hex(const char *path,
                                                   char hex[PROTO_DIGEST_HEX_BYTES],
                                                   base_error *reterr);

/* Computes the digests of all files beside it. */
BASE_MUST_CHECK base_status rank_training_files_digest(const char *directory,
                                                       const rank_training_state *state,
                                                       rank_training_files *files,
                                                       base_error *reterr);

/* Reads all files beside it. BASE_ERR_INVALID names one that is not what was written. */
BASE_MUST_CHECK base_status rank_training_files_check(const char *directory,
                                                      const rank_training_state *saved,
                                                      base_error *reterr);

#endif
