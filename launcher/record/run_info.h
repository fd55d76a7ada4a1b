/* What is written down of the machine, the build and the data file. */
#ifndef LAUNCH_RUN_INFO_H
#define LAUNCH_RUN_INFO_H

#include <stdint.h>

#include "base/limits.h"
#include "proto/digest.h"
#include "record/file_digest.h"

enum { LAUNCH_INFO_BYTES = 256 };

typedef struct launch_run_info {
    char host[BASE_HOSTNAME_BYTES];
    char cpu[LAUNCH_INFO_BYTES];    /* the model's name; empty when unknown */
    char kernel[LAUNCH_INFO_BYTES]; /* "Linux 6.1.0-18-amd64 x86_64" */
    int cpus_online;
    int cpus_allowed; /* this process may run on; at least 1 */
    uint64_t memory_bytes;
    double load_before; /* 1-minute load average before the run; NaN when unknown */
    double steal_share; /* of all CPU time during the run, taken by the host of this virtual
                         * machine; NaN when unknown */
    char data_path[BASE_PATH_BYTES]; /* relative to the current directory where it lies below it */
    uint64_t data_bytes;
    char data_sha256[PROTO_DIGEST_HEX_BYTES]; /* empty when the file could not be read */
    const char *version;
    const char *git_commit;
    const char *compiler;
    const char *compiler_flags;
    const char *sanitizers; /* empty: none */
} launch_run_info;

/* The machine's 1-minute load average; NaN when it cannot be known. */
double launch_load_average(void);

/* What the machine's CPUs have done since it started, in ticks. */
typedef struct launch_cpu_times {
    uint64_t all; /* 0: not known */
    uint64_t stolen;
} launch_cpu_times;

launch_cpu_times launch_cpu_times_now(void);

/* The share that was stolen between two moments; NaN when it cannot be known. */
double launch_steal_share(launch_cpu_times before, launch_cpu_times after);

/* Looks everything up but load_before and steal_share; what cannot be found out is left empty.
 * data: finished. */
void launch_run_info_gather(launch_run_info *info, const launch_file_digest *data);

#endif
