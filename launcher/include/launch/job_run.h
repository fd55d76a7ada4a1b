/* Runs one job: starts its ranks, lets them find each other, watches them, and ends them.
 *
 * launch_job_run is the whole life of a job on this host. It runs the job itself and the short jobs
 * of the scaling curve. While it runs, SIGINT, SIGTERM, SIGHUP and SIGCHLD are blocked and belong
 * to it. Called from one thread. It blocks until every rank has ended. No process, pipe or socket
 * is left, whatever happens. */
#ifndef LAUNCH_JOB_RUN_H
#define LAUNCH_JOB_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "launch/feed.h"
#include "launch/hosts.h"
#include "launch/limits.h"
#include "proto/job.h"
#include "proto/pin.h"
#include "record/record.h"

struct launch_job_result;

typedef struct launch_job_options {
    const proto_job *job;
    const char *root;      /* of JOB.json's relative paths; NULL or "": none */
    const char *rank_path; /* the rank program, or the user's */
    /* Arguments of a user's program, ended by NULL. It may join (libcoll does that). If it has not
     * joined, it need not say why it exits. NULL: the rank program runs. */
    char *const *program;
    const launch_hosts_options *hosts; /* node 0 of several; NULL: this host alone */
    const launch_place *place;         /* of this launcher; NULL: nothing has started it */
    const proto_file *files;           /* (file_count) that other hosts may fetch */
    int file_count;
    struct launch_steps
        *steps; /* the ranks' steps are added to these, which may have earlier ones up to
                                 * that of Ready; NULL: they are forgotten when the job is over */
    struct launch_lease *lease; /* of a mode that may cost money; NULL: the ranks get none */
    int attempt;                /* for which the lease is redeemed, once all hosts are there */
    bool tried_again;           /* a failure of this attempt may be followed by another one */
    /* Asked once, with the result of a job that has ended: whether another attempt follows, so that the other
     * hosts stay. NULL: none does. */
    bool (*goes_on)(void *user, const struct launch_job_result *result);
    /* Whether the job would have more ranks on so many hosts: then it ends at its next checkpoint, once these are
     * there. NULL: hosts that come wait until it has ended. */
    bool (*would_grow)(void *user, int hosts);
    int host_count; /* of `hosts`, that take part: the others wait; 0: all */
    int min_hosts;  /* the job may be shared out anew among so many; 0: not */
    /* The other hosts as one attempt leaves them to the next; the first one finds NULL there. Of `hosts` alone. */
    struct launch_head **kept_head;
    const char *log_dir; /* each rank's output goes to log_dir/rank-N.log as well; NULL: no */
    bool bind;           /* ranks get CPUs of their own if there are enough */
    bool quiet;          /* no progress, and only stderr of the ranks' output */
    const char *label;   /* stands before the progress: "measuring 1 rank: "; only stderr of the
                        * ranks' output */
    /* Called once, when all ranks are ready. No rank has trained or saved anything before. An error
     * ends the job, which then counts as not ready. */
    base_status (*on_ready)(void *user, base_error *reterr);
    /* Called for each step of each rank, in the ranks' order. An error ends the job. */
    base_status (*on_step)(void *user, const launch_step *step, base_error *reterr);
    /* Called for each generated text, in the order of their index. */
    void (*on_output)(void *user, uint64_t index, const char *text);
    /* Called for each further piece of the text of a job with one prompt. on_output has the whole
     * text afterwards. */
    void (*on_piece)(void *user, const char *text);
    const launch_feed *feed; /* of requests that come while the job runs; NULL: none do */
    /* Called with the ranks' flight records after a failure, and when SIGUSR1 has asked for them;
     * cause is then "". They are JSON texts by rank; NULL: none came. */
    void (*on_flights)(void *user, const char *const *records, int ranks, const char *cause);
    /* Called for each rank after a failure with the end of what it has written; NULL: it is not
     * kept. */
    void (*on_tail)(void *user, int rank, const char *text, size_t bytes);
    void *user;
} launch_job_options;

enum { LAUNCH_NAME_BYTES = 257 };

/* How a job went. */
typedef struct launch_job_result {
    int exit_status;  /* 0; the first failing rank's code; 128 + a signal */
    int stop_signal;  /* the SIGINT, SIGTERM or SIGHUP that ended it early; else 0 */
    base_error cause; /* the first cause of failure; an empty message: none */
    bool fails_again; /* the same job would: its input is wrong, or it has no room */
    bool started;     /* ranks were */
    bool goes_on;     /* another attempt follows */
    bool paused;      /* the ranks have ended with a checkpoint, for hosts that wait */
    char hosts_joining[LAUNCH_NAME_BYTES]; /* then, which; empty: they have left meanwhile */
    int hosts_present; /* not all hosts are: with at least min_hosts, only so many; else 0 */
    char hosts_absent[LAUNCH_NAME_BYTES]; /* then, which are not */
    int world_size;                       /* of `ranks` */
    bool ready;                           /* all ranks were about to train */
    uint64_t first_step; /* of the checkpoint from which the training went on; else 0 */
    uint64_t model_params;
    uint64_t trained_params; /* the same, or those of its adapters */
    char transport[LAUNCH_NAME_BYTES];
    char algorithm[LAUNCH_NAME_BYTES];
    char instruction_set[LAUNCH_NAME_BYTES];
    char unbound[LAUNCH_NAME_BYTES]; /* why ranks have no CPUs of their own; empty: they have
                                      * them */
    bool cpus_taken;                 /* because other jobs have them */
    launch_rank_info *ranks;         /* (world_size) */
    launch_experts *experts;         /* NULL: the model has none, or rank 0 has not finished */
    int64_t steps_done;              /* with those before first_step */
    double loss_first;               /* NaN when there was no step, as below */
    double loss_last;
    double tokens_per_second; /* over the second half of the steps */
    double allreduce_ms_p50;
    double allreduce_ms_p95;
    size_t steps_measured; /* of that half */
    launch_breakdown mean_step;
    double wall_seconds;
} launch_job_result;

/* Runs the job. The status is the launcher's own: BASE_OK also if a rank failed, which is in the
 * result. The result is filled in either case, and freed with launch_job_result_fini. */
BASE_MUST_CHECK base_status launch_job_run(const launch_job_options *options,
                                           launch_job_result *result, base_error *reterr);
void launch_job_result_fini(launch_job_result *result);

#endif
