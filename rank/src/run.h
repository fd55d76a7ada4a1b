/* The life of one rank process. */
#ifndef RANK_RUN_H
#define RANK_RUN_H

#include <stdint.h>

/* Joins the job, runs its mode, reports a failure. Returns the process's exit code. */
int rank_worker_run(int64_t started_ns);

#endif
