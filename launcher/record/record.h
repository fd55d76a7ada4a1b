/* The record of a run: the directory --out with timings.jsonl, manifest.json, plots and
 * report.html.
 *
 * The supervisor hands over what ranks said (launch_record_step, …); the record keeps it, writes
 * timings.jsonl as it comes, and everything else at the end, also after Ctrl-C or a failure (exit
 * status tells). A job that fails before all its ranks were ready has no record, and leaves an
 * older one as it is. One thread. A full disk or a failed write is an error that names the file. */
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
#include "record/breakdown.h"

enum { LAUNCH_RECORD_PLOT_SECONDS = 20 };

typedef struct launch_record launch_record;

/* One rank's step; as in control.proto's Step. */
typedef struct launch_step {
    uint64_t step;
    int rank;
    double loss;
    double loss_global;
    uint64_t tokens;
    int64_t compute_ns;
    int64_t compute_cpu_ns; /* 0: not known */
    int64_t allreduce_ns;
    int64_t allreduce_exposed_ns;
    int64_t optimizer_ns;
    int64_t step_ns;
    uint64_t bytes_sent;
    uint64_t epoch;
    double learning_rate;
    double grad_norm;
    bool evaluated; /* --eval-every: the fields below are there, the same for all ranks */
    double heldout_loss;
    uint64_t heldout_sentences;
    uint64_t heldout_correct;
} launch_step;

/* What is known of one rank at its end. */
typedef struct launch_rank_info {
    uint8_t params_sha256[PROTO_DIGEST_BYTES];
    bool finished; /* false: the fields from Finished are not there */
    bool byte_equal;
    double max_abs_difference;
    uint64_t max_rss_bytes;
    uint64_t sentences_total;
    uint64_t sentences_shard;
    uint64_t sentences_long;
    char first_sentence[256];
    char host[BASE_HOSTNAME_BYTES];
    bool bound;     /* it has CPUs of its own */
    cpu_set_t cpus; /* these */
    int64_t pid;
    int64_t startup_ns;
    int64_t matrix_first_use_ns;
    uint64_t eval_total;
    uint64_t eval_correct;
} launch_rank_info;

/* One point of the scaling curve: measured in several rounds, each number of ranks once in every
 * round, so that what else the machine does meets all of them. */
typedef struct launch_scaling_point {
    int ranks;
    int rounds;                    /* 0: not measured apart, the figures are the run's own */
    size_t steps;                  /* that were measured, in all rounds */
    double tokens_per_second;      /* of all these steps */
    double tokens_per_second_low;  /* of the slowest round */
    double tokens_per_second_high; /* and of the fastest */
    launch_breakdown slowest;      /* the slowest rank's step, of all rounds */
} launch_scaling_point;

/* A number of ranks that could not be measured. */
typedef struct launch_scaling_failure {
    int ranks;
    char reason[BASE_ERROR_MESSAGE_BYTES];
} launch_scaling_failure;

typedef struct launch_record_options {
    const char *out; /* the directory */
    bool overwrite;  /* false: an existing record is moved to OUT.1, OUT.2, … */
    bool plots;      /* false: gnuplot is not run; its data and script are written all the same */
    const char *log_dir;  /* the ranks' logs, which are opened before the job begins; NULL: none */
    int argc;             /* the launcher's own command line */
    char **argv;          /* borrowed until close */
    const proto_job *job; /* copied */
} launch_record_options;

typedef struct launch_record_end {
    int exit_status;
    const char *message; /* first cause of failure, or why it ended early; NULL or empty: neither */
    const char *transport; /* in use */
    const char *algorithm;
    const char *instruction_set;
    const char *matrix_library;
    const char *unbound; /* why ranks have no CPUs of their own; NULL or empty: they have */
    bool cpus_taken;     /* because other jobs have them */
    uint64_t model_params;
    const launch_rank_info *ranks; /* (world_size) */
    const launch_scaling_point *scaling;
    int scaling_count;
    const launch_scaling_failure *scaling_failed;
    int scaling_failed_count;
    double job_seconds; /* of the job itself, without what was measured after it */
} launch_record_end;

/* Makes and takes the directory (lock: BASE_ERR_BUSY names the other process), and changes nothing
 * in it. A directory that holds other things than a record is refused, BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_record_open(const launch_record_options *options,
                                               launch_record **record, base_error *reterr);

/* The job is ready, and its next step is first_step: moves an old record away, or removes it, and
 * opens timings.jsonl. What the job reads out of the directory (its checkpoint, say) stays readable
 * at its place.
 *
 * Again, when the job was started anew: the record goes on from first_step. Later steps, which an
 * attempt before may have reported, leave memory and timings.jsonl. */
BASE_MUST_CHECK base_status launch_record_begin(launch_record *record, uint64_t first_step,
                                                base_error *reterr);

/* Keeps the step and appends it to timings.jsonl; after begin. Where that fails, the file ends with
 * its last whole line and gets no more. Each rank's steps come in order,
 * from begin's first_step on; BASE_ERR_INVALID otherwise. */
BASE_MUST_CHECK base_status launch_record_step(launch_record *record, const launch_step *step,
                                               base_error *reterr);

/* Writes manifest.json, scaling data, plots and report.html. Goes on after a failed file and
 * returns the first error that was not told before; it says so where there is no manifest. Blocks:
 * gnuplot gets at most LAUNCH_RECORD_PLOT_SECONDS. Once, after begin: BASE_ERR_STATE otherwise. */
BASE_MUST_CHECK base_status launch_record_finish(launch_record *record,
                                                 const launch_record_end *end, base_error *reterr);

/* After finish: whether timings.jsonl has every step and every file was written. Pictures, which
 * plots.gp draws later, do not count. */
bool launch_record_is_whole(const launch_record *record);

/* Lines for the user, each with its newline: after begin, where an older record went; after finish,
 * what could not be drawn and why. Empty when there is nothing to say; owned by the record. */
const char *launch_record_notes(const launch_record *record);

/* Releases the lock and frees; where the record never began, nothing of it is left.
 * NULL is fine. */
void launch_record_close(launch_record *record);

#endif
