/* The few functions of NVML, the library of NVIDIA's driver, that the launcher calls. The CUDA
 * toolkit has no nvml.h everywhere, so they are declared here, as the driver's ABI has them. The
 * library is loaded when it is needed; it touches no GPU's state. One thread. */
#ifndef LAUNCH_GPUS_NVML_H
#define LAUNCH_GPUS_NVML_H

#include "base/status.h"

typedef struct nvmlDevice_st *launch_nvml_device;
typedef struct nvmlEventSet_st *launch_nvml_events;

typedef struct launch_nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} launch_nvml_memory;

typedef struct launch_nvml_process {
    unsigned pid;
    unsigned long long used_bytes; /* all ones: not known */
    unsigned gpu_instance;
    unsigned compute_instance;
} launch_nvml_process;

typedef struct launch_nvml_pci {
    char legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned ids[2];
    char text[32]; /* "00000000:19:00.0" */
} launch_nvml_pci;

typedef struct launch_nvml_event {
    launch_nvml_device device;
    unsigned long long type;
    unsigned long long data; /* of an Xid: its number */
    unsigned gpu_instance;
    unsigned compute_instance;
} launch_nvml_event;

enum {
    LAUNCH_NVML_OK = 0,
    LAUNCH_NVML_NVLINKS = 18, /* of a GPU, at most */
    LAUNCH_NVML_P2P_READ = 0, /* what nvmlDeviceGetP2PStatus is asked about */
    LAUNCH_NVML_P2P_NVLINK = 2,
    LAUNCH_NVML_CLOCK_SM = 1, /* what nvmlDeviceGetClockInfo is asked about */
    LAUNCH_NVML_CLOCK_MEMORY = 2,
    LAUNCH_NVML_TEMPERATURE_GPU = 0,
    LAUNCH_NVML_ECC_UNCORRECTED = 1,
    LAUNCH_NVML_ECC_VOLATILE = 0, /* since the driver was loaded */
    LAUNCH_NVML_EVENT_ECC = 0x2,  /* of two bits */
    LAUNCH_NVML_EVENT_XID = 0x8,
    LAUNCH_NVML_TEXT_BYTES = 96,
};

/* All return 0 on success. */
typedef struct launch_nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int result);
    int (*driver_version)(char *text, unsigned size_bytes);
    int (*count)(unsigned *count);
    int (*device)(unsigned index, launch_nvml_device *device);
    int (*name)(launch_nvml_device device, char *text, unsigned size_bytes);
    int (*uuid)(launch_nvml_device device, char *text, unsigned size_bytes);
    int (*memory)(launch_nvml_device device, launch_nvml_memory *memory);
    int (*mig_mode)(launch_nvml_device device, unsigned *now, unsigned *pending);
    int (*nvlink_state)(launch_nvml_device device, unsigned link, unsigned *active);
    int (*p2p_status)(launch_nvml_device a, launch_nvml_device b, int what, int *status);
    int (*processes)(launch_nvml_device device, unsigned *count, launch_nvml_process *processes);
    int (*pci)(launch_nvml_device device, launch_nvml_pci *pci);
    int (*clock)(launch_nvml_device device, int which, unsigned *mhz);
    int (*power)(launch_nvml_device device, unsigned *milliwatts);
    int (*power_limit)(launch_nvml_device device, unsigned *milliwatts);
    int (*temperature)(launch_nvml_device device, int which, unsigned *celsius);
    int (*throttle_reasons)(launch_nvml_device device, unsigned long long *reasons);
    int (*ecc_errors)(launch_nvml_device device, int kind, int since, unsigned long long *count);
    int (*events_create)(launch_nvml_events *events);
    int (*events_add)(launch_nvml_device device, unsigned long long types,
                      launch_nvml_events events);
    int (*events_wait)(launch_nvml_events events, launch_nvml_event *event, unsigned timeout_ms);
    int (*events_free)(launch_nvml_events events);
    void *handle;
} launch_nvml;

/* Loads the library and begins. BASE_ERR_UNSUPPORTED: no driver here, or it does not work. */
BASE_MUST_CHECK base_status launch_nvml_open(launch_nvml *nvml, base_error *reterr);
void launch_nvml_close(launch_nvml *nvml);

#endif
