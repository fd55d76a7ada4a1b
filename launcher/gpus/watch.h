/* What happens to this computer's GPUs while a job runs: the Xid errors that the driver reports,
 * memory errors that it could not correct, and how high clocks, power and temperature went. One
 * thread. */
#ifndef LAUNCH_GPUS_WATCH_H
#define LAUNCH_GPUS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct launch_gpu_watch launch_gpu_watch;

enum { LAUNCH_GPU_FAULTS_BYTES = 512, LAUNCH_GPU_SLOWED_BYTES = 96 };

/* The highest values that were sampled; -1: not known. */
typedef struct launch_gpu_peak {
    int64_t sm_mhz;
    int64_t milliwatts;
    int64_t celsius;
    char slowed_by[LAUNCH_GPU_SLOWED_BYTES]; /* all reasons that came up; "nothing" */
} launch_gpu_peak;

/* From now on. NULL: there is no driver, or no GPU. */
launch_gpu_watch *launch_gpu_watch_open(void);

/* Reads the GPUs' state, at most once a second. NULL is fine. */
void launch_gpu_watch_sample(launch_gpu_watch *watch);

/* What has gone wrong since with the GPUs of these UUIDs, with count 0 with any, as "GPU 0 (GPU-…): Xid 79: the GPU has
 * fallen off the bus". "": nothing, as without a watch. */
const char *launch_gpu_watch_faults(launch_gpu_watch *watch, const char *const *uuids, int count,
                                    char text[LAUNCH_GPU_FAULTS_BYTES]);

/* False: it was not sampled, or there is no such GPU. */
bool launch_gpu_watch_peak(const launch_gpu_watch *watch, const char *uuid, launch_gpu_peak *peak);

/* NULL is fine. */
void launch_gpu_watch_close(launch_gpu_watch *watch);

#endif
