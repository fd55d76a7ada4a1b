/* An NVML with two GPUs, for test_gpus.c: a library that the launcher loads in place of the driver's.
 * FAKE_NVML in the environment makes it fail: "broken" at the beginning, "none" has no GPU,
 * "lost" cannot open its GPUs, "first lost" one of them, "xid" reports that a GPU is lost. GPU 1 says little of itself. "emulated" has the GPUs of the
 * emulator (tests/gpu/node). */
#include <stdlib.h>
#include <string.h>

#include "gpus/nvml.h"

enum { NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15 };

struct nvmlDevice_st {
    unsigned index;
};

static struct nvmlDevice_st devices[] = {{0}, {1}};

#define EXPORT __attribute__((visibility("default")))

static int is_set_to(const char *value)
{
    const char *set = getenv("FAKE_NVML");
    return set != NULL && strcmp(set, value) == 0;
}

static void put(char *text, unsigned size_bytes, const char *value)
{
    if (strlen(value) < size_bytes) {
        memcpy(text, value, strlen(value) + 1);
    }
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
    return is_set_to("broken") ? DRIVER_NOT_LOADED : 0;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
    return 0;
}

EXPORT const char *nvmlErrorString(int result);
EXPORT const char *nvmlErrorString(int result)
{
    return result == DRIVER_NOT_LOADED ? "Driver Not Loaded"
           : result == GPU_IS_LOST     ? "GPU is lost"
                                       : "?";
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size_bytes);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size_bytes)
{
    put(text, size_bytes, "580.65.06");
    return 0;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = is_set_to("none") ? 0 : 2;
    return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, launch_nvml_device *device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, launch_nvml_device *device)
{
    *device = &devices[index];
    return is_set_to("lost") || (is_set_to("first lost") && index == 0) ? GPU_IS_LOST : 0;
}

EXPORT int nvmlDeviceGetName(launch_nvml_device device, char *text, unsigned size_bytes);
EXPORT int nvmlDeviceGetName(launch_nvml_device device, char *text, unsigned size_bytes)
{
    (void)device;
    put(text, size_bytes, "NVIDIA H200");
    return 0;
}

EXPORT int nvmlDeviceGetUUID(launch_nvml_device device, char *text, unsigned size_bytes);
EXPORT int nvmlDeviceGetUUID(launch_nvml_device device, char *text, unsigned size_bytes)
{
    static const char *const uuids[] = {"GPU-aaaa", "GPU-bbbb"};
    static const char *const emulated[] = {"GPU-30000000-0000-0000-0000-000000000000",
                                           "GPU-31000000-0000-0000-0000-000000000000"};
    put(text, size_bytes, (is_set_to("emulated") ? emulated : uuids)[device->index]);
    return 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(launch_nvml_device device, launch_nvml_memory *memory);
EXPORT int nvmlDeviceGetMemoryInfo(launch_nvml_device device, launch_nvml_memory *memory)
{
    *memory = (launch_nvml_memory){
        .total = 144ULL << 30, .free = (144ULL - device->index) << 30, .used = 0};
    return 0;
}

EXPORT int nvmlDeviceGetMigMode(launch_nvml_device device, unsigned *now, unsigned *pending);
EXPORT int nvmlDeviceGetMigMode(launch_nvml_device device, unsigned *now, unsigned *pending)
{
    *now = 0;
    *pending = 0;
    return device->index == 0 ? 0 : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetNvLinkState(launch_nvml_device device, unsigned link, unsigned *active);
EXPORT int nvmlDeviceGetNvLinkState(launch_nvml_device device, unsigned link, unsigned *active)
{
    *active = link < 12;
    return device->index == 0 ? 0 : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetP2PStatus(launch_nvml_device a, launch_nvml_device b, int what,
                                  int *status);
EXPORT int nvmlDeviceGetP2PStatus(launch_nvml_device a, launch_nvml_device b, int what, int *status)
{
    (void)b;
    *status = what == LAUNCH_NVML_P2P_NVLINK && a->index == 1 ? 1 : 0;
    return 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(launch_nvml_device device, unsigned *count,
                                                   launch_nvml_process *processes);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(launch_nvml_device device, unsigned *count,
                                                   launch_nvml_process *processes)
{
    *count = device->index == 0 ? 0 : 2;
    for (unsigned i = 0; i < *count; i++) {
        processes[i] = (launch_nvml_process){.pid = 41 + i};
    }
    return 0;
}

EXPORT int nvmlDeviceGetPciInfo_v3(launch_nvml_device device, launch_nvml_pci *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(launch_nvml_device device, launch_nvml_pci *pci)
{
    *pci = (launch_nvml_pci){.domain = 0xfffe, .bus = 0x19, .device = device->index};
    return device->index == 0 ? 0 : NOT_SUPPORTED;
}

/* GPU 1 has none of the numbers that are asked for one at a time. */
static int number(launch_nvml_device device, unsigned value, unsigned *to)
{
    *to = value;
    return device->index == 0 ? 0 : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetClockInfo(launch_nvml_device device, int which, unsigned *mhz);
EXPORT int nvmlDeviceGetClockInfo(launch_nvml_device device, int which, unsigned *mhz)
{
    return number(device, which == LAUNCH_NVML_CLOCK_SM ? 1980 : 3201, mhz);
}

EXPORT int nvmlDeviceGetPowerUsage(launch_nvml_device device, unsigned *milliwatts);
EXPORT int nvmlDeviceGetPowerUsage(launch_nvml_device device, unsigned *milliwatts)
{
    return number(device, 691000, milliwatts);
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(launch_nvml_device device, unsigned *milliwatts);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(launch_nvml_device device, unsigned *milliwatts)
{
    return number(device, 700000, milliwatts);
}

EXPORT int nvmlDeviceGetTemperature(launch_nvml_device device, int which, unsigned *celsius);
EXPORT int nvmlDeviceGetTemperature(launch_nvml_device device, int which, unsigned *celsius)
{
    return number(device, which == LAUNCH_NVML_TEMPERATURE_GPU ? 71 : 0, celsius);
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(launch_nvml_device device,
                                                     unsigned long long *reasons);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(launch_nvml_device device,
                                                     unsigned long long *reasons)
{
    *reasons = 0x4 | 0x20;
    return device->index == 0 ? 0 : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetTotalEccErrors(launch_nvml_device device, int kind, int since,
                                       unsigned long long *count);
EXPORT int nvmlDeviceGetTotalEccErrors(launch_nvml_device device, int kind, int since,
                                       unsigned long long *count)
{
    *count = kind == LAUNCH_NVML_ECC_UNCORRECTED && since == LAUNCH_NVML_ECC_VOLATILE ? 3 : 0;
    return device->index == 0 ? 0 : NOT_SUPPORTED;
}

/* ---- events ---- */

static int events_pending;

EXPORT int nvmlEventSetCreate(launch_nvml_events *events);
EXPORT int nvmlEventSetCreate(launch_nvml_events *events)
{
    *events = (launch_nvml_events)(void *)&events_pending;
    return 0;
}

EXPORT int nvmlDeviceRegisterEvents(launch_nvml_device device, unsigned long long types,
                                    launch_nvml_events events);
EXPORT int nvmlDeviceRegisterEvents(launch_nvml_device device, unsigned long long types,
                                    launch_nvml_events events)
{
    (void)events;
    if (device->index != 0 && (types & LAUNCH_NVML_EVENT_ECC) != 0) {
        return NOT_SUPPORTED; /* and none of them is registered */
    }
    events_pending += is_set_to("xid") && (types & LAUNCH_NVML_EVENT_XID) != 0 ? 1 : 0;
    return 0;
}

EXPORT int nvmlEventSetWait_v2(launch_nvml_events events, launch_nvml_event *event,
                               unsigned timeout_ms);
EXPORT int nvmlEventSetWait_v2(launch_nvml_events events, launch_nvml_event *event,
                               unsigned timeout_ms)
{
    (void)events;
    (void)timeout_ms;
    if (events_pending == 0) {
        return TIMEOUT;
    }
    *event = (launch_nvml_event){.device = &devices[events_pending - 1]};
    event->type = events_pending == 1 ? LAUNCH_NVML_EVENT_ECC : LAUNCH_NVML_EVENT_XID;
    event->data = 79;
    events_pending--;
    return 0;
}

EXPORT int nvmlEventSetFree(launch_nvml_events events);
EXPORT int nvmlEventSetFree(launch_nvml_events events)
{
    (void)events;
    return 0;
}
