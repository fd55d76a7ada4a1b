/* The record of a run: the directory --out with timings.jsonl, manifest.json, plots and
 * report.html.
 *
 * The caller adds what ranks report to launch_record_steps, and passes it on to launch_record_step, which
 * writes timings.jsonl as steps come. The record writes everything else at the end, also after Ctrl-C or a
 * failure; the exit status says which. A job that fails before all its ranks are ready has no
 * record, and leaves an older one as it is. One thread. A full disk or a failed write is an error
 * that names the file. */
#ifndef LAUNCH_RECORD_H
#define LAUNCH_RECORD_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/digest.h"
#include "proto/job.h"
#include "proto/limits.h"
#include "record/breakdown.h"

typedef struct launch_record launch_record;

typedef enum launch_answer { LAUNCH_UNKNOWN = -1, LAUNCH_NO = 0, LAUNCH_YES = 1 } launch_answer;

/* The token of a job, and what it costs. Money that is not known is -1. */
typedef struct launch_cost {
    char token_id[64];
    char label[128];
    char account[128];
    char vendor[64];
    char instance_type[64];
    int64_t estimated_usd_micro; /* at most */
    int64_t actual_usd_micro;    /* known at once where nothing is rented, else from the bill */
} launch_cost;

/* What a rank that is a stage of a pipeline adds to its step. */
typedef struct launch_stage_step {
    int64_t forward_ns; /* of all micro-batches */
    int64_t backward_ns;
    int64_t weights_ns;   /* of a split backward: the gradients of weights; in backward_ns */
    int64_t neighbour_ns; /* waiting for messages of other stages; not in compute_ns */
    int64_t span_ns;      /* from the first task's begin to the last one's end */
    int64_t tensor_ns; /* exchanging with the stage's other ranks; in forward_ns and backward_ns */
    uint64_t held;     /* micro-batches in chunks whose activations were kept at once, at most */
} launch_stage_step;

/* How long one rank's step took, and for what. */
typedef struct launch_step_times {
    uint64_t tokens;
    uint64_t bytes_sent;
    int64_t compute_ns;
    int64_t compute_cpu_ns; /* 0: not known */
    int64_t context_ns;     /* exchanging with ranks that share the micro-batches; in compute_ns */
    int64_t expert_ns;      /* exchanging with ranks that share out the experts; in compute_ns */
    uint64_t expert_rows;   /* that the experts of this rank got; 0: ranks do not share them out */
    int64_t
        barrier_ns; /* with --timing bracketed: waiting for all ranks before the exchange; in step_ns alone */
    int64_t allreduce_ns;
    int64_t allreduce_exposed_ns;
    int64_t optimizer_ns;
    int64_t step_ns;
} launch_step_times;

/* One rank's step; as in control.proto's Step. */
typedef struct launch_step {
    uint64_t step;
    int rank;
    double loss;
    double loss_global;
    launch_step_times times;
    uint64_t epoch;
    double learning_rate;
    double grad_norm;
    double router_loss; /* 0: the model has no experts */
    double
        busiest_expert; /* rows of the busiest one, over the mean of its layer; 0: none, or too many */
    bool evaluated; /* with --eval-every: the fields below are valid, and the same for all ranks */
    double heldout_loss;
    uint64_t heldout_sentences; /* that were to be corrected; 0: there are no pairs */
    uint64_t heldout_correct;
    uint64_t heldout_measured; /* sentences or windows that the loss is of */
    int stage_number;          /* in a pipeline, which the rank is; else 0 */
    launch_stage_step stage;   /* its times; else zeros */
} launch_step;

/* A use of memory; as in control.proto's MemoryUse. */
typedef struct launch_memory_use {
    char purpose[PROTO_MEMORY_NAME_BYTES_MAX + 1];
    uint64_t planned_bytes;
    uint64_t peak_bytes;
} launch_memory_use;

/* What a rank exchanges in the mean step; as in control.proto's ExchangeUse. */
typedef struct launch_exchange_use {
    char kind[PROTO_MEMORY_NAME_BYTES_MAX + 1];
    double calls;
    double bytes;
} launch_exchange_use;

/* The GPU of a rank; as in control.proto's Gpu. */
typedef struct launch_gpu_info {
    char name[64]; /* empty: the rank computes on CPUs */
    char uuid[64];
    uint64_t memory_bytes;
    uint32_t driver;
    uint32_t nccl;
    char plugin[64];
    char pci[16];     /* "0000:19:00.0" */
    int numa_node;    /* that it is nearest to; -1: not known */
    bool memory_near; /* the rank prefers that node's memory */
    char unbound[96]; /* why the rank is not bound to the CPUs near it; "": it is, or --no-bind */
    char libraries[PROTO_GPU_TEXT_BYTES_MAX + 1]; /* lines */
    char environment[PROTO_GPU_TEXT_BYTES_MAX + 1];
    char products[PROTO_GPU_TEXT_BYTES_MAX + 1]; /* lines: cublasLt's algorithm of each shape */
    int memory_use_count;
    launch_memory_use memory_uses[PROTO_MEMORY_USES_MAX];
    uint64_t memory_used_bytes; /* at the end, by all processes */
    uint64_t graphs;            /* that were captured */
    uint64_t replays;
    char capture_failure[BASE_ERROR_MESSAGE_BYTES]; /* empty: none */
    bool sampled; /* by the launcher of that host, while the job ran; highest values, -1: unknown */
    int64_t sm_mhz_max;
    int64_t milliwatts_max;
    int64_t celsius_max;
    char slowed_by[96]; /* what kept the clocks down; "nothing" */
} launch_gpu_info;

/* A model's experts; as in control.proto's Experts. */
typedef struct launch_experts {
    int count;
    int chosen;
    double router_loss;
    uint64_t steps;
    int load_count; /* layers × count; 0: too many */
    float loads[PROTO_LOADS_MAX];
} launch_experts;

/* What is known of one rank at the end. */
typedef struct launch_rank_info {
    uint8_t params_sha256[PROTO_DIGEST_BYTES];
    bool finished; /* false: the fields from Finished are not valid */
    bool byte_equal;
    double max_abs_difference;
    uint64_t max_rss_bytes;
    uint64_t sentences_total;
    uint64_t sentences_shard;
    uint64_t sentences_long;
    char first_sentence[256];
    char instruction_set[64]; /* of its kernels */
    char host[BASE_HOSTNAME_BYTES];
    bool bound;     /* it has CPUs for itself */
    cpu_set_t cpus; /* those CPUs */
    int64_t pid;
    int64_t startup_ns;
    uint64_t eval_total;
    uint64_t eval_correct;
    double eval_loss;       /* over all ranks */
    uint64_t eval_measured; /* held-out sentences or windows that it is of; 0: not measured */
    uint64_t tokens_drawn;  /* answering prompts */
    uint64_t tokens_drafted;
    uint64_t tokens_accepted;
    uint64_t best_step;   /* --keep-best: the model is that after so many steps; 0: the last one */
    double best_loss;     /* which had this held-out loss */
    bool stopped_early;   /* --patience */
    uint64_t checkpoints; /* written by this job; all ranks wait for each */
    int64_t checkpoint_ns;
    int state_count; /* data-parallel training on CPUs; else 0 */
    launch_memory_use state[PROTO_MEMORY_USES_MAX];
    int exchange_count;
    launch_exchange_use exchanges[PROTO_EXCHANGE_USES_MAX];
    launch_gpu_info gpu;
} launch_rank_info;

/* One point of the scaling curve. It is measured in several rounds. Each round measures each number
 * of ranks once, so that the machine's other load meets all of them. */
typedef struct launch_scaling_point {
    int ranks;
    int rounds;                    /* 0: not measured separately, but taken from the run itself */
    size_t steps;                  /* that were measured, in all rounds */
    double tokens_per_second;      /* of the middle round by speed */
    double tokens_per_second_low;  /* of the slowest round */
    double tokens_per_second_high; /* and of the fastest */
    launch_breakdown mean_step;    /* of the middle round */
} launch_scaling_point;

/* A number of ranks that could not be measured. */
typedef struct launch_scaling_failure {
    int ranks;
    char reason[BASE_ERROR_MESSAGE_BYTES];
} launch_scaling_failure;

/* How the job was tried once. */
typedef struct launch_attempt {
    int number; /* from 1 */
    int hosts;
    int ranks;
    int64_t micro_batches;
    int64_t expert_ranks;
    bool ready;          /* all ranks were about to train */
    uint64_t first_step; /* of the checkpoint from which it went on; else 0 */
    base_error failure;  /* its first cause; an empty message: none */
    base_error planned;  /* its end at a checkpoint, for hosts that waited; else empty */
} launch_attempt;

typedef struct launch_record_options {
    const char *out;      /* the directory */
    bool overwrite;       /* false: an existing record is moved to OUT.1, OUT.2, … */
    const char *log_dir;  /* the ranks' logs, which are opened before the job begins; NULL: none */
    int argc;             /* the launcher's own command line */
    char **argv;          /* borrowed until close */
    const char *engine;   /* what has started the launcher: "PMI-1"; NULL or empty: the user */
    const proto_job *job; /* copied */
} launch_record_options;

typedef struct launch_record_end {
    int exit_status;
    const char *message;   /* the first cause of failure, or why it ended early; NULL or empty:
                          * neither */
    const char *transport; /* in use */
    const char *algorithm;
    const char *instruction_set;
    const char *unbound; /* why ranks have no CPUs of their own; NULL or empty: they have */
    bool cpus_taken;     /* because other jobs have them */
    uint64_t model_params;
    uint64_t trained_params;       /* the same, or those of its adapters */
    const launch_rank_info *ranks; /* (world_size) */
    const launch_scaling_point *scaling;
    int scaling_count;
    const launch_scaling_failure *scaling_failed;
    int scaling_failed_count;
    const launch_experts *experts;  /* NULL: the model has none, or they are not known */
    const launch_attempt *attempts; /* (attempt_count) all of this launch */
    size_t attempt_count;
    double job_seconds;      /* of the job itself, without the measurements after it */
    const launch_cost *cost; /* NULL: the mode is free */
    launch_answer nvlink;    /* between the ranks' GPUs */
} launch_record_end;

/* Makes the directory and locks it, but changes nothing in it. BASE_ERR_BUSY names the process that
 * has the lock. BASE_ERR_INVALID if the directory holds other things than a record. */
BASE_MUST_CHECK base_status launch_record_open(const launch_record_options *options,
                                               launch_record **record, base_error *reterr);

typedef struct launch_record_params {
    uint64_t model;
    uint64_t trained; /* the same, or those of its adapters */
} launch_record_params;

/* Fails if the disk has no room for the checkpoints, and for the model and each rank's state, which the job
 * writes at its end. Call it before begin. */
BASE_MUST_CHECK base_status launch_record_check_room(const launch_record *record, int64_t ranks,
                                                     const launch_record_params *params,
                                                     uint64_t first_step, base_error *reterr);

/* The job is ready, and its next step is first_step. Moves an old record away, or removes it, and
 * opens timings.jsonl. Files in the directory that the job reads (its checkpoint, say) can be read
 * under their names all the time.
 *
 * Called again when the job was started again: the record then continues from first_step. Later
 * steps, which an earlier attempt may have reported, are removed from memory and timings.jsonl. */
BASE_MUST_CHECK base_status launch_record_begin(launch_record *record, uint64_t first_step,
                                                base_error *reterr);

/* Before begin, where the attempt has other ranks than the one before, or micro-batches: steps up to first_step are
 * kept in a file of their own, and are in no figure. */
BASE_MUST_CHECK base_status launch_record_share_out(launch_record *record, const proto_job *job,
                                                    uint64_t first_step, base_error *reterr);

/* The steps of all attempts, from which the record is made. The caller adds to them what ranks report,
 * from begin's first_step on. Owned by the record. */
struct launch_steps *launch_record_steps(launch_record *record);

/* Appends a step, which the caller has added, to timings.jsonl; after begin. If that fails, the file ends
 * with its last whole line, and nothing more is written to it. */
BASE_MUST_CHECK base_status launch_record_step(launch_record *record, const launch_step *step,
                                               base_error *reterr);

/* Writes manifest.json, scaling data, plots and report.html. If a file fails, writes the others,
 * and returns the first error that no earlier call has returned. The error says so if there is no
 * manifest. Once, after begin: BASE_ERR_STATE otherwise. */
BASE_MUST_CHECK base_status launch_record_finish(launch_record *record,
                                                 const launch_record_end *end, base_error *reterr);

/* After finish: whether timings.jsonl has every step and every file was written. */
bool launch_record_is_whole(const launch_record *record);

/* Lines for the user, each with its newline, after begin: where an older record was moved. Empty if
 * there is nothing to say. Owned by the record. */
const char *launch_record_notes(const launch_record *record);

/* Releases the lock and frees. If the record never began, nothing of it is left. NULL is fine. */
void launch_record_close(launch_record *record);

#endif
