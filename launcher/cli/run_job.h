/* A job with its record, lease and results. Private to cli/. */
#ifndef LAUNCH_RUN_JOB_H
#define LAUNCH_RUN_JOB_H

#include <stdbool.h>

#include "budget/lease.h"
#include "cli/rank_logs.h"
#include "cli/scaling.h"
#include "launch/job_run.h"
#include "launch/options.h"
#include "record/inference.h"
#include "record/record.h"

typedef struct launch_cli_run {
    launch_options *options; /* where hosts are missing, with the ranks of the present attempt */
    const char *rank_path;
    int argc;
    char **argv;
    char engine[LAUNCH_PLACE_TEXT_BYTES]; /* what has started this launcher; empty: the user */
    launch_record *record;                /* NULL: the job has no record */
    bool recording;                       /* the record has begun, so its directory is this job's */
    bool streamed;       /* stdout shows the beginning of a text whose end has not come */
    launch_lease *lease; /* of a mode that may cost money */
    launch_cost cost;    /* with a lease */
    int attempt;         /* the present one, from 1 */
    int pauses;          /* attempts that have ended for hosts that waited, and without a failure */
    const proto_job *whole;   /* the job on all hosts */
    int host_count;           /* that take part in it; 0: all */
    launch_attempt *attempts; /* (attempt_count) that have ended */
    size_t attempt_count;
    size_t attempt_capacity;
    launch_job_result result;      /* of the last attempt */
    launch_job_result earlier;     /* of the last one before that was ready; ranks NULL: none */
    struct launch_gpu_watch *gpus; /* while a job on GPUs runs */
    struct launch_head *head;      /* the other hosts, between two attempts */
    launch_scaling scaling;
    base_error flights; /* the line about the flight records, which follows the error's */
    launch_rank_logs rank_logs;
    proto_file *files; /* (file_count) that other hosts may fetch */
    int file_count;
} launch_cli_run;

/* Logs the error; BASE_EXIT_ERROR. */
int launch_report_error(const base_error *error);

/* Whether NVLinks join the GPUs of a result's ranks. */
launch_answer launch_cli_find_nvlink(const launch_job_result *result, int64_t ranks);

/* What the driver has said while the job ran: a failure's cause gets the GPUs' faults, and the ranks'
 * GPUs how high they went. Ends the watch. */
void launch_cli_take_watch(launch_cli_run *run);

/* ---- run_record.c ---- */

/* Opens the record of a training. Other modes' ranks write all there is. */
BASE_MUST_CHECK base_status launch_cli_open_record(launch_cli_run *run, base_error *reterr);

/* Of launch_job_options, with a launch_cli_run: checks the disk's room, and begins the record. */
BASE_MUST_CHECK base_status launch_cli_on_ready(void *user, base_error *reterr);

/* Writes the record of a training that was ready. */
BASE_MUST_CHECK base_status launch_cli_finish_record(launch_cli_run *run, base_error *reterr);

/* Adds to the ranks' results how the job ended. begun: what was known before the job. */
BASE_MUST_CHECK base_status launch_cli_finish_inference(const launch_cli_run *run,
                                                        const launch_inference *begun,
                                                        base_error *reterr);

/* ---- attempts.c ---- */

/* Runs the job, again after each failure as long as that may help. The result is the last attempt's. */
void launch_cli_run_attempts(launch_cli_run *run);

/* Whether a failure of the present attempt may be followed by another one. */
bool launch_cli_has_restarts(const launch_cli_run *run);

/* Of launch_job_options, with a launch_cli_run: whether a job that ended so is started again. It is not if the
 * user ended it, if it never began, or if it would be refused again. */
bool launch_cli_goes_on(void *user, const launch_job_result *result);

/* Of launch_job_options, with a launch_cli_run: whether the job would have more ranks on so many hosts. */
bool launch_cli_would_grow(void *user, int hosts);

/* ---- run_job.c ---- */

/* Runs one attempt. If the launcher itself fails, that is in the result as well. */
BASE_MUST_CHECK base_status launch_cli_run_once(launch_cli_run *run);

/* Opens the record, runs the job with its restarts, measures scaling, writes the record, and prints
 * the summary. Returns the exit status. Frees what run owns. */
int launch_run_job(launch_cli_run *run);

#endif
