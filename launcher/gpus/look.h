/* What the driver says of each GPU, read once. One thread. */
#ifndef LAUNCH_GPUS_LOOK_H
#define LAUNCH_GPUS_LOOK_H

#include <stdint.h>

#include "gpus/nvml.h"

enum { LAUNCH_GPUS_MAX = 64, LAUNCH_GPU_USERS_MAX = 64 };

/* -1, and "" in texts: the driver does not say. */
typedef struct launch_gpu {
    launch_nvml_device device;
    char name[LAUNCH_NVML_TEXT_BYTES];
    char uuid[LAUNCH_NVML_TEXT_BYTES];
    char pci[LAUNCH_NVML_TEXT_BYTES]; /* "0000:19:00.0", as in /sys/bus/pci/devices */
    int64_t numa_node;
    int64_t memory_bytes;
    int64_t memory_free_bytes;
    int64_t mig; /* 0: off */
    int64_t nvlinks;
    int64_t sm_mhz;
    int64_t memory_mhz;
    int64_t milliwatts;
    int64_t milliwatts_max;
    int64_t celsius;
    int64_t throttle;   /* a set: launch_gpu_throttle_text */
    int64_t ecc_errors; /* that could not be corrected, since the driver was loaded */
    int64_t user_count;
    launch_nvml_process users[LAUNCH_GPU_USERS_MAX];
} launch_gpu;

typedef struct launch_gpus {
    char driver[LAUNCH_NVML_TEXT_BYTES];
    int count;
    int closed; /* that are there and cannot be used, as one that is lost. CUDA does not count them */
    char closed_because[LAUNCH_NVML_TEXT_BYTES]; /* of the last one */
    launch_gpu gpus[LAUNCH_GPUS_MAX];
} launch_gpus;

/* BASE_ERR_UNSUPPORTED: there is no GPU that can be used. */
BASE_MUST_CHECK base_status launch_gpus_look(const launch_nvml *nvml, launch_gpus *found,
                                             base_error *reterr);

/* Only what changes while it works, of gpu->device: MIG, clocks, power, temperature, faults. */
void launch_gpu_look_at_state(const launch_nvml *nvml, launch_gpu *gpu);

/* What bytes take from one GPU to another: "same", "nvlink", "p2p" or "host". */
const char *launch_gpus_between(const launch_nvml *nvml, const launch_gpu *a, const launch_gpu *b);

/* Why a GPU does not clock higher, as "power cap, hot"; "nothing" for none. */
const char *launch_gpu_throttle_text(int64_t reasons, char text[LAUNCH_NVML_TEXT_BYTES]);

#endif
