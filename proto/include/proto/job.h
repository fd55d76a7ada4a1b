/* The whole configuration of a job, as one canonical JSON text: JOB.json.
 *
 * The launcher makes it from its command line. The rank parses its whole configuration from exactly
 * these bytes, and nothing else configures it. Canonical: keys sorted, no spaces, every field
 * present, grouped by subject. Reading is strict: unknown, missing and duplicate keys, wrong types
 * and values out of range are refused by name. The name of a choice becomes an enum here.
 *
 * A path is absolute, or below the job's root. The root is a directory that may differ from host to
 * host. It is not in JOB.json: the launcher gets it by --root, and its ranks get it in
 * RINGFENCE_JOB_ROOT. On hosts that have fetched the job's files, ranks get the directory of
 * proto_job_relocate in RINGFENCE_JOB_FILES instead.
 *
 * The table in job_fields.c also has the launcher's options for these fields (base/options.h).
 *
 * Plain data without pointers. Pure functions. */
#ifndef PROTO_JOB_H
#define PROTO_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fields.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/chat_date.h"
#include "proto/digest.h"
#include "proto/mode.h"
#include "proto/pipeline.h"

enum {
    PROTO_JOB_VERSION = 2, /* of JOB.json; version 1 had no groups and no version */
    PROTO_JOB_BYTES_MAX = 64 * 1024,
    PROTO_JOB_INTERFACE_BYTES = 256,
    PROTO_CURVE_BYTES = 64,
    PROTO_LORA_TARGETS_BYTES = 256,
    PROTO_LORA_RANK_MAX = 1024,
    PROTO_CURVE_WIDTHS_MAX = 8,
    PROTO_CURVE_WIDTH_UNIT = 64, /* whole heads on up to 16 ranks */
    PROTO_CURVE_WIDTH_MAX = 16384,
    PROTO_DEVICES_BYTES = 1024,
    PROTO_BENCH_BYTES = 1024,
    PROTO_DEVICE_BYTES = 48, /* of one GPU: its number, or GPU- and its UUID */
    PROTO_SHARED_GPU_STEPS_MAX = 20,
    PROTO_TRACE_STEPS_MAX = 1000,
};

/* In --out: what each rank of a training saves. */
#define PROTO_STATE_FORMAT "state-rank-%d.safetensors"

/* In --out: the timeline of a training's last steps. */
#define PROTO_TRACE_FILE "trace.json"

#define PROTO_TEMPERATURE_MIN 1e-3 /* smallest temperature besides 0 */
#define PROTO_PENALTY_MAX     2.0  /* of presence and frequency; its negative is the least */
#define PROTO_REPETITION_MIN  0.1
#define PROTO_REPETITION_MAX  10.0
#define PROTO_LOGIT_BIAS_MAX  100.0 /* its negative is the least */
#define PROTO_TEMPERATURE_MAX 1e3

typedef enum proto_loss_on { PROTO_LOSS_ON_CORRECTION, PROTO_LOSS_ON_ALL } proto_loss_on;
/* Of products and activations on GPUs. */
typedef enum proto_precision {
    PROTO_PRECISION_FLOAT32,
    PROTO_PRECISION_TF32,     /* operands of products have ten bits behind the point */
    PROTO_PRECISION_BFLOAT16, /* parameters, moments and sums of gradients stay float32 */
} proto_precision;

/* How decoding on CPUs holds matrices. */
typedef enum proto_weights {
    PROTO_WEIGHTS_CHECKPOINT, /* float32; or bfloat16, if the checkpoint has all of them so */
    PROTO_WEIGHTS_INT8,
    PROTO_WEIGHTS_INT4,
} proto_weights;

typedef enum proto_optimizer {
    PROTO_OPTIMIZER_ADAMW,
    PROTO_OPTIMIZER_MUON, /* of the matrices of blocks; AdamW of all else */
} proto_optimizer;

typedef enum proto_schedule {
    PROTO_SCHEDULE_CONSTANT,
    PROTO_SCHEDULE_COSINE,
    PROTO_SCHEDULE_LINEAR
} proto_schedule;
typedef enum proto_verify { PROTO_VERIFY_INDEX, PROTO_VERIFY_FULL } proto_verify;
typedef enum proto_timing { PROTO_TIMING_OVERLAPPED, PROTO_TIMING_BRACKETED } proto_timing;

/* libcoll's, under the same names: coll_launched_join translates them. */
typedef enum proto_transport {
    PROTO_TRANSPORT_AUTO,
    PROTO_TRANSPORT_SHM,
    PROTO_TRANSPORT_TCP,
    PROTO_TRANSPORT_ZMQ,
} proto_transport;

typedef enum proto_tcp_auth {
    PROTO_TCP_AUTH_MAC,
    PROTO_TCP_AUTH_ENCRYPT,
    PROTO_TCP_AUTH_OFF,
} proto_tcp_auth;

typedef enum proto_algorithm {
    PROTO_ALGORITHM_AUTO,
    PROTO_ALGORITHM_RING,
    PROTO_ALGORITHM_TREE,
    PROTO_ALGORITHM_DIRECT,
    PROTO_ALGORITHM_RECURSIVE_DOUBLING,
    PROTO_ALGORITHM_HALVING_DOUBLING,
    PROTO_ALGORITHM_TWO_LEVEL,
    PROTO_ALGORITHM_NATIVE, /* NCCL's own; on GPUs only */
} proto_algorithm;

/* What runs. */
typedef struct proto_job_job {
    int64_t version;
    proto_mode mode;
    int64_t world_size;
    int64_t seed;
} proto_job_job;

#define PROTO_ROUTER_LOSS         0.01 /* of a new model */
#define PROTO_OUTER_LEARNING_RATE 1.0  /* the launcher's, with local steps: their mean */
#define PROTO_OUTER_MOMENTUM      0.0

typedef struct proto_job_model {
    int64_t vocab_size;
    int64_t width;
    int64_t layers;
    int64_t heads;
    int64_t context;
    char checkpoint[BASE_PATH_BYTES]; /* directory to start from; empty: fresh parameters */
    char checkpoint_sha256[PROTO_DIGEST_HEX_BYTES]; /* in the form of proto/pin.h; empty: not
                                                     * pinned */
    proto_verify verify;                            /* what part of the checkpoint the digest
                                                     * covers */
    char adapter[BASE_PATH_BYTES]; /* directory of adapters on top of the checkpoint; empty: none */
    char adapter_sha256[PROTO_DIGEST_HEX_BYTES];
    char draft
        [BASE_PATH_BYTES]; /* directory of a checkpoint that drafts for the model; empty: none */
    char draft_sha256[PROTO_DIGEST_HEX_BYTES];
    int64_t experts; /* of each block of a new model, which is then a Mixtral; 0: it is a GPT-2 */
    int64_t experts_per_token; /* each token goes to so many of them; 0: 2 */
    double router_loss; /* of a model with experts: training adds so much of the loss that spreads
                                * tokens evenly; below 0: none; 0: what the checkpoint says, or
                                * PROTO_ROUTER_LOSS */
} proto_job_model;

typedef struct proto_job_data {
    char train[BASE_PATH_BYTES];               /* the training JSONL, a plain text, or tokens */
    char train_sha256[PROTO_DIGEST_HEX_BYTES]; /* of that file, in hex; empty: not pinned */
    char heldout[BASE_PATH_BYTES];             /* for eval; empty: none */
    char heldout_sha256[PROTO_DIGEST_HEX_BYTES];
    char tokenizer[BASE_PATH_BYTES]; /* tokenizer.json */
    char tokenizer_sha256[PROTO_DIGEST_HEX_BYTES];
    proto_loss_on loss_on;
    char chat_date[PROTO_CHAT_DATE_BYTES]; /* that chat templates are given; empty: none */
    bool windows;                          /* texts are cut into windows of the context */
    bool plain;                            /* train is one plain text, and cut into windows */
    bool heldout_plain;                    /* and so is heldout */
    bool tokens; /* train is a file of tokens, and cut into windows, whatever plain says */
    bool heldout_tokens;
} proto_job_data;

/* The type of the numbers in a file of weights. */
typedef enum proto_save_dtype { PROTO_SAVE_FLOAT32, PROTO_SAVE_BFLOAT16 } proto_save_dtype;

typedef struct proto_job_train {
    int64_t steps;
    int64_t batch;         /* rows of `context` tokens per rank and micro-batch */
    int64_t micro_batches; /* per rank and step */
    double learning_rate;
    double learning_rate_min;
    proto_optimizer optimizer;
    double muon_momentum; /* 0: PROTO_MUON_MOMENTUM */
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    double clip_norm; /* 0: no clipping */
    double dropout;   /* elements of the residual stream are dropped with this probability */
    int64_t warmup_steps;
    proto_schedule schedule;
    int64_t
        local_steps; /* of each rank alone, between two exchanges; 0 and 1: gradients are added up
                          * over the ranks in each step */
    double outer_learning_rate; /* with local steps: of the step that follows their exchange */
    double outer_momentum;      /* Nesterov's, of that step */
    int64_t save_every;         /* steps between two checkpoints; 0: none is written */
    int64_t keep;               /* so many checkpoints, the newest; 0: PROTO_CHECKPOINTS_KEPT */
    bool keep_best;             /* ends with the model of the lowest held-out loss */
    int64_t patience; /* … after so many evaluations in a row without a lower one; 0: not early */
    proto_save_dtype save_dtype; /* of the model at the end; checkpoints have float32 */
    bool recompute;              /* keeps only the blocks' inputs for backward */
    bool resume; /* goes on from the newest checkpoint in output.directory, if there is one */
} proto_job_train;

/* Adapters that a training gives the checkpoint's model (LoRA), and trains alone. */
typedef struct proto_job_lora {
    int64_t rank; /* 0: none; the model is trained */
    double alpha; /* what they add is scaled by alpha / rank; 0: alpha is 2 × rank */
    char targets[PROTO_LORA_TARGETS_BYTES]; /* layers, as "q_proj,v_proj"; empty: the family's */
    bool merge;                             /* the model with its adapters is written as well */
} proto_job_lora;

/* ZeRO's stages: what data-parallel ranks have only a shard of. Each also has what those before it have. */
typedef enum proto_zero {
    PROTO_ZERO_NOTHING,
    PROTO_ZERO_MOMENTS,
    PROTO_ZERO_GRADIENTS,
    PROTO_ZERO_PARAMETERS
} proto_zero;

typedef struct proto_job_parallel {
    proto_transport transport;
    char interface[PROTO_JOB_INTERFACE_BYTES]; /* as in libcoll's option of that name; empty:
                                                * none */
    proto_tcp_auth tcp_auth;
    proto_algorithm algorithm;
    proto_timing timing;
    int64_t bucket_bytes;
    int64_t timeout_ms; /* of one collective */
    int64_t join_timeout_ms;
    int64_t threads_per_rank;
    proto_pipeline_kind pipeline; /* of a mode that trains in a pipeline */
    int64_t stages;        /* of one pipeline; 0: as many as there are ranks for one pipeline */
    int64_t chunks;        /* of layers in each stage, if interleaved; 0: 2, or 1 if it is not */
    int64_t tensor;        /* ranks that share a stage's layers; 0: 1 */
    int64_t context_ranks; /* ranks that share the tokens of a micro-batch; 0: 1 */
    int64_t expert_ranks;  /* ranks that share out the experts of each layer; 0: 1 */
    int64_t zero;          /* ZeRO's stage, a proto_zero */
} proto_job_parallel;

typedef struct proto_job_infer {
    bool eval;                     /* exact-match accuracy on heldout at the end */
    int64_t eval_every;            /* steps between two evaluations; 0: at the end only */
    char prompts[BASE_PATH_BYTES]; /* a file in the form of proto/prompts.h; empty: none */
    char prompts_sha256[PROTO_DIGEST_HEX_BYTES];
    bool requests;        /* prompts come from the launcher while the job runs */
    bool no_prefix_cache; /* … whose beginnings are computed each time */
    bool unrecorded; /* … any number of them, and nothing is kept of those that are answered */
    int64_t max_new_tokens;
    int64_t max_num_seqs; /* sequences that are decoded together */
    int64_t cache_tokens; /* that the cache has room for, of all of them; 0: for whole contexts */
    proto_weights weights;
    int64_t speculate;     /* tokens of a draft, at most; 0: none is made */
    int64_t logprob_count; /* of each token: 0: none; n: its own, and those of the n - 1 best */
    bool ignore_eos;       /* the end token does not end a text */
    bool special_tokens;   /* a prompt's text may name them */
    bool chat;             /* a prompt is a message of a user */
    bool no_thinking;      /* answers in chats begin behind empty thoughts */
    char curve[PROTO_CURVE_BYTES]; /* widths to measure, as "64,256"; empty: none */
    bool baseline;      /* runs the prompts also on one rank, and on replicas of one rank each */
    double temperature; /* 0: the most probable token; else 0.001 … 1000 */
    int64_t top_k;      /* 0: of all tokens */
    double top_p;       /* 1: of all tokens */
    double min_p;       /* of the most probable token's probability; 0: of all tokens */
    double presence_penalty;
    double frequency_penalty;
    double repetition_penalty; /* 1: none */
    int64_t sampling_seed;     /* of the noise; 0: the job's seed */
} proto_job_infer;

/* Of modes on GPUs. */
typedef struct proto_job_gpu {
    char devices[PROTO_DEVICES_BYTES]; /* a GPU for each rank of a host, in the order of its ranks;
                                        * empty: rank i has number i */
    char libraries[BASE_PATH_BYTES];   /* the directory of CUDA's libraries; empty: where they are
                                        * installed */
    proto_precision precision;
    bool exact;       /* all products by our own kernels, in the CPU's order: the CPU's bits */
    bool nccl_native; /* NCCL may use all its algorithms, also those whose sums differ */
    bool mixed;       /* ranks may have GPUs of different kinds */
    bool shared;      /* for tests only: all ranks on one GPU */
} proto_job_gpu;

/* Of the mode bench-nccl. */
typedef struct proto_job_bench {
    char words[PROTO_BENCH_BYTES]; /* coll-bench's command line, as "all_reduce -b 4 -e 1M" */
} proto_job_bench;

typedef struct proto_job_output {
    char directory[BASE_PATH_BYTES]; /* of states and the record; empty: nothing is written */
    int64_t trace;                   /* the last so many steps are written as a timeline; 0: none */
} proto_job_output;

typedef struct proto_job {
    proto_job_job job;
    proto_job_model model;
    proto_job_data data;
    proto_job_train train;
    proto_job_lora lora;
    proto_job_parallel parallel;
    proto_job_infer infer;
    proto_job_gpu gpu;
    proto_job_bench bench;
    proto_job_output output;
} proto_job;

/* Bits of base_field.marks in the table of a job's fields. */
enum {
    PROTO_FIELD_SHAPE = 1 << 0,   /* of the model: a checkpoint has its own */
    PROTO_FIELD_PROGRAM = 1 << 1, /* also with "-- PROGRAM" */
    PROTO_FIELD_MODE = 1 << 2,
    PROTO_FIELD_RANKS = 1 << 3,
    PROTO_FIELD_SEED = 1 << 4,
    PROTO_FIELD_EACH_HOST = 1 << 5, /* each launcher of several hosts has its own */
    PROTO_FIELD_BUCKETS = 1 << 6,
    PROTO_FIELD_CONTEXT = 1 << 7, /* a checkpoint has its own; decoding takes a shorter one */
    /* Who uses the option. Without any of these, all do, or other checks refuse it. */
    PROTO_FIELD_TRAINS = 1 << 8,           /* modes that train */
    PROTO_FIELD_DATA_PARALLEL = 1 << 9,    /* those of them whose ranks have replicas */
    PROTO_FIELD_ANSWERS = 1 << 10,         /* modes that answer prompts */
    PROTO_FIELD_TENSOR_PARALLEL = 1 << 11, /* those of them whose ranks share a model */
    PROTO_FIELD_RECORDS = 1 << 12,         /* modes that leave a record */
    PROTO_FIELD_EVALUATES = 1 << 13,       /* jobs with --eval */
    PROTO_FIELD_GPUS = 1 << 14,            /* modes on GPUs */
    PROTO_FIELD_TRACE = 1 << 15,           /* modes whose steps are traced */
    PROTO_FIELD_ANSWERS_ON_CPUS = 1 << 16, /* those that answer prompts, and not on GPUs */
    PROTO_FIELDS_FREE = 1 << 17,           /* the first free bit */
};

/* The fields of a proto_job: keys, ranges, options. */
extern const base_fields proto_job_fields;

/* The names of a value in JOB.json; NULL: there is no such value. */
const char *proto_loss_on_name(int value);
const char *proto_precision_name(int value);
const char *proto_weights_name(int value);
const char *proto_optimizer_name(int value);
const char *proto_schedule_name(int value);
const char *proto_save_dtype_name(int value);
const char *proto_verify_name(int value);
const char *proto_timing_name(int value);
const char *proto_transport_name(int value);
const char *proto_tcp_auth_name(int value);
const char *proto_algorithm_name(int value);

/* The launcher's defaults. Paths are empty. */
void proto_job_defaults(proto_job *job);

/* Checks that every field is in its range, and that the fields agree (width divisible by heads,
 * say). */
BASE_MUST_CHECK base_status proto_job_check(const proto_job *job, base_error *reterr);

/* The layout of a training: replicas × context ranks × stages × tensor ranks. A copy of the model is cut into
 * stages, and the layers of a stage between its tensor ranks; both are 1 where every rank has a whole model.
 * Some copies in a row, the context ranks, are a replica: it trains on slots of its own, and they share the
 * tokens of each of its micro-batches. Ranks in a row first share a stage, then a copy, then a replica. */
int64_t proto_job_stages(const proto_job *job);

/* Ranks or slots in a row are then nodes of the canonical tree. */
static inline bool proto_is_power_of_two(int64_t count)
{
    return count > 0 && (count & (count - 1)) == 0;
}

/* Of a new model with experts: to how many of them a token goes, and the columns of one. */
int64_t proto_job_experts_per_token(const proto_job_model *model);
int64_t proto_job_expert_width(const proto_job_model *model);
int64_t proto_job_tensor(const proto_job *job);
int64_t proto_job_context_ranks(const proto_job *job);

/* Of a model with experts: so many ranks in a row have some of the experts each, and the rest of the model. Each is
 * a replica of its own in the layout above. */
int64_t proto_job_expert_ranks(const proto_job *job);
int64_t proto_job_copies(const proto_job *job); /* of the model: replicas × context ranks */
int64_t proto_job_replicas(const proto_job *job);

/* What the job leaves in its output directory; without one nothing. */
proto_record_kind proto_job_record(const proto_job *job);

/* Whether a held-out loss is measured: of a training with --eval. */
bool proto_job_measures_loss(const proto_job *job);

/* Whether the training data are windows, of which all tokens are targets. */
bool proto_job_cuts_windows(const proto_job *job);

/* Whether the held-out file has lines of JSON, which may be pairs of sentences. */
bool proto_job_heldout_has_lines(const proto_job *job);

/* Whether ranks take steps alone, and how many between two exchanges; 1 if they do not. */
bool proto_job_is_local(const proto_job *job);
int64_t proto_job_local_steps(const proto_job *job);

/* Muon's momentum: that of the job, or the one that everybody takes. */
#define PROTO_MUON_MOMENTUM 0.95
double proto_job_muon_momentum(const proto_job *job);

/* The schedule of a stage's micro-batches. A stage that is alone has one chunk, and what has one chunk is
 * not interleaved: it is 1f1b then. */
proto_pipeline proto_job_pipeline(const proto_job *job);

/* A rank's place in this layout, from 0. */
typedef struct proto_place {
    int replica;
    int block; /* of the replica's micro-batches: which of its context ranks has it */
    int stage;
    int part; /* of the stage: which of its tensor ranks */
} proto_place;

proto_place proto_job_place(const proto_job *job, int rank);

/* The number of a replica's micro-batch among the job's replicas × micro-batches slots. A replica's slots are
 * contiguous, so that it adds up their gradients first, and then all replicas do. With ZeRO from stage 2 on, and
 * with expert ranks, the replicas come first, for each micro-batch, and their slots are. The two orders are one
 * canonical order where the number of replicas is a power of two. */
int64_t proto_job_slot(const proto_job *job, int64_t replica, int64_t micro_batch);

/* Whether replicas are added up first. */
bool proto_job_sums_replicas_first(const proto_job *job);

/* How far a replica's next slot is from one. */
int64_t proto_job_slot_step(const proto_job *job);

/* What adapters' products are scaled by, times their rank. */
double proto_job_lora_alpha(const proto_job_lora *lora);

/* The number of widths in infer.curve. 0: it is empty. -1: it is not a list of widths, which
 * proto_job_check refuses. */
int proto_job_curve(const proto_job *job, int widths[PROTO_CURVE_WIDTHS_MAX]);

/* The number of GPUs in gpu.devices. 0: it is empty. -1: it is not a list of different numbers and
 * UUIDs, which proto_job_check refuses. */
int proto_job_device_count(const proto_job *job);

/* The GPU of a host's rank: its entry of gpu.devices, else its own number. With gpu.shared it is
 * that of rank 0. The job is checked, and local_rank below its number of ranks. */
void proto_job_device(const proto_job *job, int local_rank, char device[PROTO_DEVICE_BYTES]);

/* BASE_ERR_INVALID: gpu.devices has fewer GPUs than a host has ranks. The job is checked. */
BASE_MUST_CHECK base_status proto_job_check_devices(const proto_job *job, int local_ranks,
                                                    base_error *reterr);

/* Writes the canonical text, NUL-terminated. *text is malloc'ed, and the caller frees it. Paths
 * below root are written relative to it. With root "" all are written as they are. */
BASE_MUST_CHECK base_status proto_job_write(const proto_job *job, const char *root, char **text,
                                            size_t *text_bytes, base_error *reterr);

/* Parses and checks strictly. On failure job is unchanged. */
BASE_MUST_CHECK base_status proto_job_parse(const void *text, size_t text_bytes, proto_job *job,
                                            base_error *reterr);

/* Makes the paths below the job's root absolute. BASE_ERR_INVALID: there is such a path, but root
 * is "". BASE_ERR_LIMIT: a path gets too long. */
BASE_MUST_CHECK base_status proto_job_resolve(proto_job *job, const char *root, base_error *reterr);

/* Makes every path DIRECTORY/KEY/NAME, where NAME is its last component: that of data.train becomes
 * DIRECTORY/data.train/train.jsonl. Only gpu.libraries stays, since nobody sends what is there.
 * BASE_ERR_LIMIT: a path gets too long. */
BASE_MUST_CHECK base_status proto_job_relocate(proto_job *job, const char *directory,
                                               base_error *reterr);

#endif
