/* The record of an inference run: manifest.json, report.html and the scaling curve, beside the
 * results.json and timings.jsonl that rank 0 has written. */
#ifndef LAUNCH_INFERENCE_H
#define LAUNCH_INFERENCE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "record/record.h"
#include "record/run_info.h"

/* What the launcher knows of the run itself. */
typedef struct launch_inference {
    const proto_job *job;
    int argc; /* the launcher's own command line */
    char **argv;
    char started_at[BASE_TIMESTAMP_BYTES]; /* this and the next two: by begin */
    double load_before;
    launch_cpu_times cpu_before;
    double job_seconds;
    int exit_status;
    const char *message;           /* why the job did not do all of its work; "": it did */
    const launch_rank_info *ranks; /* (world_size), NULL: not known */
    const launch_cost *cost;       /* NULL: the mode is free */
    launch_answer nvlink;
} launch_inference;

/* Notes when the run began, and what the machine did before it. */
void launch_inference_begin(launch_inference *run);

/* Whether a record of an inference may be written there: into an empty directory, in place of an older one, or
 * of the beginning of one that its launcher's death has left. Files of other names stay as they are. BASE_ERR_INVALID:
 * it has the record of a training, or files that are no record and that this one would write over. */
BASE_MUST_CHECK base_status launch_inference_check_out(const char *out, base_error *reterr);

/* Makes the directory if it is missing, and locks it until *lock_fd is closed. BASE_ERR_BUSY: another
 * run writes there. BASE_ERR_INVALID: as above. */
BASE_MUST_CHECK base_status launch_inference_lock(const char *out, int *lock_fd,
                                                  base_error *reterr);

/* Reads OUT/results.json. Writes OUT/manifest.json and report.html; with a curve scaling-curve.dat
 * and scaling-curve.svg. lines: what a comparison and a curve have shown, a line for each. */
BASE_MUST_CHECK base_status launch_inference_write(const launch_inference *run, base_buffer *lines,
                                                   base_error *reterr);

/* What a speed-up is judged by. */
typedef struct launch_inference_claim {
    double speedup;
    double parameters;
    int ranks;
    bool network;       /* between the ranks */
    double cache_bytes; /* of the processor's last-level cache; 0: not known */
    double apart;       /* launch_inference_apart; NaN: not known */
} launch_inference_claim;

/* Says why a speed-up is not credible; NULL: it is. Pure. */
const char *launch_inference_suspect(const launch_inference_claim *claim);

#endif
