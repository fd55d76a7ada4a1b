/* The limits of processes and threads: ulimit -u, and pids.max of the control groups. */
#ifndef LAUNCH_PROCESSES_H
#define LAUNCH_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* How many processes and threads this launcher may still start, and by which limit: "ulimit -u", or
 * "pids.max of the control group"; INT64_MAX: there is no limit. All paths are below root, which is ""
 * but in tests. Takes a few milliseconds where ulimit -u is limited. */
int64_t launch_processes_left(const char *root, const char **limit);

/* Whether that is enough for this launcher and `ranks` ranks of this host, which run the rank program or
 * another one. Call it before ZeroMQ is used: where that gets no thread, it ends the process.
 * BASE_ERR_LIMIT: it is not. */
BASE_MUST_CHECK base_status launch_processes_check(int64_t ranks, bool program, base_error *reterr);

#endif
