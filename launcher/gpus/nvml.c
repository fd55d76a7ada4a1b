/* Loads NVML and finds its functions. Called by gpus.c and watch.c. */
#include "gpus/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char library_name[] = "libnvidia-ml.so.1";

/* Where containers have the driver's libraries, which the dynamic linker may not know. */
static const char *const places[] = {"", "/usr/local/nvidia/lib64/", "/usr/lib/wsl/lib/"};

static const struct {
    const char *name;
    size_t offset; /* of the function in launch_nvml */
} functions[] = {
    {"nvmlInit_v2", offsetof(launch_nvml, init)},
    {"nvmlShutdown", offsetof(launch_nvml, shutdown)},
    {"nvmlErrorString", offsetof(launch_nvml, error_text)},
    {"nvmlSystemGetDriverVersion", offsetof(launch_nvml, driver_version)},
    {"nvmlDeviceGetCount_v2", offsetof(launch_nvml, count)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(launch_nvml, device)},
    {"nvmlDeviceGetName", offsetof(launch_nvml, name)},
    {"nvmlDeviceGetUUID", offsetof(launch_nvml, uuid)},
    {"nvmlDeviceGetMemoryInfo", offsetof(launch_nvml, memory)},
    {"nvmlDeviceGetMigMode", offsetof(launch_nvml, mig_mode)},
    {"nvmlDeviceGetNvLinkState", offsetof(launch_nvml, nvlink_state)},
    {"nvmlDeviceGetP2PStatus", offsetof(launch_nvml, p2p_status)},
    {"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(launch_nvml, processes)},
    {"nvmlDeviceGetPciInfo_v3", offsetof(launch_nvml, pci)},
    {"nvmlDeviceGetClockInfo", offsetof(launch_nvml, clock)},
    {"nvmlDeviceGetPowerUsage", offsetof(launch_nvml, power)},
    {"nvmlDeviceGetEnforcedPowerLimit", offsetof(launch_nvml, power_limit)},
    {"nvmlDeviceGetTemperature", offsetof(launch_nvml, temperature)},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(launch_nvml, throttle_reasons)},
    {"nvmlDeviceGetTotalEccErrors", offsetof(launch_nvml, ecc_errors)},
    {"nvmlEventSetCreate", offsetof(launch_nvml, events_create)},
    {"nvmlDeviceRegisterEvents", offsetof(launch_nvml, events_add)},
    {"nvmlEventSetWait_v2", offsetof(launch_nvml, events_wait)},
    {"nvmlEventSetFree", offsetof(launch_nvml, events_free)},
};

static base_status find_functions(launch_nvml *nvml, base_error *reterr)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(nvml->handle, functions[i].name);
        if (found == NULL) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "the NVIDIA driver is too old: its %s has no %s", library_name,
                             functions[i].name);
        }
        memcpy((char *)nvml + functions[i].offset, &found, sizeof found);
    }
    return BASE_OK;
}

base_status launch_nvml_open(launch_nvml *nvml, base_error *reterr)
{
    memset(nvml, 0, sizeof *nvml);
    for (size_t i = 0; nvml->handle == NULL && i < sizeof places / sizeof *places; i++) {
        char path[LAUNCH_NVML_TEXT_BYTES];
        (void)snprintf(path, sizeof path, "%s%s", places[i], library_name);
        nvml->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (nvml->handle == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "no NVIDIA driver: there is no %s",
                         library_name);
    }
    base_status status = find_functions(nvml, reterr);
    const int result = status == BASE_OK ? nvml->init() : LAUNCH_NVML_OK;
    if (result != LAUNCH_NVML_OK) {
        status = base_fail(reterr, BASE_ERR_UNSUPPORTED, "the NVIDIA driver does not work: %s",
                           nvml->error_text(result));
    }
    if (status != BASE_OK) {
        (void)dlclose(nvml->handle);
        nvml->handle = NULL;
    }
    return status;
}

void launch_nvml_close(launch_nvml *nvml)
{
    if (nvml->handle != NULL) {
        (void)nvml->shutdown();
        (void)dlclose(nvml->handle);
        nvml->handle = NULL;
    }
}
