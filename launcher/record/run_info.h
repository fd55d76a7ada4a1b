/* What the record says of the machine, the build and the data file. */
#ifndef LAUNCH_RUN_INFO_H
#define LAUNCH_RUN_INFO_H

#include <stddef.h>
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
    int cpus_allowed; /* that this process may run on; at least 1 */
    uint64_t memory_bytes;
    double load_before; /* 1-minute load average before the run; NaN: not known */
    double steal_share; /* share of all CPU time during the run that the host of this virtual
                         * machine took; NaN: not known */
    char data_path[BASE_PATH_BYTES]; /* relative if it is below the current directory */
    uint64_t data_bytes;
    char data_sha256[PROTO_DIGEST_HEX_BYTES]; /* empty: the file could not be read */
    const char *version;
    const char *git_commit;
    const char *compiler;
    const char *compiler_flags;
    const char *sanitizers; /* empty: none */
} launch_run_info;

/* The machine's 1-minute load average; NaN: not known. */
double launch_load_average(void);

/* CPU time of the machine since it started, in ticks. */
typedef struct launch_cpu_times {
    uint64_t all; /* 0: not known */
    uint64_t stolen;
} launch_cpu_times;

launch_cpu_times launch_cpu_times_now(void);

/* The share that was stolen between two moments; NaN: not known. */
double launch_steal_share(launch_cpu_times before, launch_cpu_times after);

/* Fills in everything except load_before and steal_share. What cannot be found out stays empty.
 * data: finished. */
void launch_run_info_gather(launch_run_info *info, const launch_file_digest *data);

#endif
