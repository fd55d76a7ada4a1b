/* What one rank process does, between joining and leaving: its common parts, and one function per
 * mode. */
#ifndef RANK_WORKER_H
#define RANK_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/coll.h"
#include "proto/client.h"
#include "rank/data.h"
#include "rank/gate.h"
#include "rank/generate.h"
#include "rank/model.h"
#include "rank/tokenizer.h"

/* What every mode needs. Made by worker_run, borrowed by the modes. */
typedef struct rank_worker {
    proto_identity identity;
    proto_client *client;
    coll_context *context; /* NULL for a single generating rank */
    int64_t started_ns;    /* when the process started, monotonic */
    uint64_t step;         /* for failure reports */
    bool reports;          /* joining has begun: the launcher hears of a failure */
    rank_pass *pass;       /* of a mode that may cost money; else NULL */
    int exit_code;         /* to leave with after a failure */
} rank_worker;

/* Joins the job, runs its mode, reports a failure. Returns the process's exit code. */
int rank_worker_run(int64_t started_ns);

/* Accuracy on job.heldout, this rank's share, with parameters that are already there. */
BASE_MUST_CHECK base_status rank_worker_evaluate(const rank_worker *worker,
                                                 const rank_generate_options *options,
                                                 uint64_t *total, uint64_t *correct,
                                                 base_error *reterr);

/* A should_stop for generating and evaluating: the launcher has asked to end. user: the worker. */
bool rank_worker_should_stop(void *user);

/* Peak resident memory of this process in bytes. */
uint64_t rank_worker_max_rss_bytes(void);

#endif
