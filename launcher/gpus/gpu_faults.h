/* Faults of GPUs while a job runs: the Xid errors that the driver reports, and memory errors that it
 * could not correct. One thread. */
#ifndef LAUNCH_GPUS_GPU_FAULTS_H
#define LAUNCH_GPUS_GPU_FAULTS_H

#include <stddef.h>

typedef struct launch_gpu_faults launch_gpu_faults;

enum { LAUNCH_GPU_FAULTS_BYTES = 512 };

/* From now on. NULL: there is no driver, no GPU, or none that reports. */
launch_gpu_faults *launch_gpu_faults_open(void);

/* What has come since, as "GPU 0 (GPU-…): Xid 79: it has fallen off the bus". "": nothing. */
const char *launch_gpu_faults_text(launch_gpu_faults *faults, char text[LAUNCH_GPU_FAULTS_BYTES]);

/* NULL is fine. */
void launch_gpu_faults_close(launch_gpu_faults *faults);

#endif
