/* Asks the driver about each GPU. Called by gpus.c, nvlink.c and watch.c. */
#include "gpus/look.h"

#include <stdio.h>
#include <string.h>

#include "base/kernel_file.h"
#include "base/text.h"

/* The kernel's name of the device, and the memory that it is nearest to. */
static void look_at_pci(const launch_nvml *nvml, launch_gpu *gpu)
{
    launch_nvml_pci pci;
    gpu->numa_node = -1;
    if (nvml->pci(gpu->device, &pci) != LAUNCH_NVML_OK) {
        return;
    }
    (void)snprintf(gpu->pci, sizeof gpu->pci, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    (void)base_kernel_number(&gpu->numa_node, "", "/sys/bus/pci/devices/%s/numa_node", gpu->pci);
}

static int64_t active_links(const launch_nvml *nvml, launch_nvml_device device)
{
    int64_t links = 0;
    for (unsigned link = 0; link < LAUNCH_NVML_NVLINKS; link++) {
        unsigned active = 0;
        const int result = nvml->nvlink_state(device, link, &active);
        links += result == LAUNCH_NVML_OK && active != 0 ? 1 : 0;
    }
    return links;
}

static void look_at_memory(const launch_nvml *nvml, launch_gpu *gpu)
{
    launch_nvml_memory memory;
    unsigned count = LAUNCH_GPU_USERS_MAX;
    gpu->memory_bytes = -1;
    gpu->memory_free_bytes = -1;
    gpu->user_count = -1;
    if (nvml->memory(gpu->device, &memory) == LAUNCH_NVML_OK) {
        gpu->memory_bytes = (int64_t)memory.total;
        gpu->memory_free_bytes = (int64_t)memory.free;
    }
    if (nvml->processes(gpu->device, &count, gpu->users) == LAUNCH_NVML_OK &&
        count <= LAUNCH_GPU_USERS_MAX) {
        gpu->user_count = count;
    }
}

static int64_t known(int result, unsigned value)
{
    return result == LAUNCH_NVML_OK ? (int64_t)value : -1;
}

void launch_gpu_look_at_state(const launch_nvml *nvml, launch_gpu *gpu)
{
    unsigned value = 0;
    unsigned pending = 0;
    unsigned long long wide = 0;
    const launch_nvml_device device = gpu->device;
    int result = nvml->mig_mode(device, &value, &pending);
    gpu->mig = known(result, value);
    result = nvml->clock(device, LAUNCH_NVML_CLOCK_SM, &value);
    gpu->sm_mhz = known(result, value);
    result = nvml->clock(device, LAUNCH_NVML_CLOCK_MEMORY, &value);
    gpu->memory_mhz = known(result, value);
    result = nvml->power(device, &value);
    gpu->milliwatts = known(result, value);
    result = nvml->power_limit(device, &value);
    gpu->milliwatts_max = known(result, value);
    result = nvml->temperature(device, LAUNCH_NVML_TEMPERATURE_GPU, &value);
    gpu->celsius = known(result, value);
    result = nvml->throttle_reasons(device, &wide);
    gpu->throttle = result == LAUNCH_NVML_OK ? (int64_t)wide : -1;
    result = nvml->ecc_errors(device, LAUNCH_NVML_ECC_UNCORRECTED, LAUNCH_NVML_ECC_VOLATILE, &wide);
    gpu->ecc_errors = result == LAUNCH_NVML_OK ? (int64_t)wide : -1;
}

static void look_at(const launch_nvml *nvml, launch_gpu *gpu)
{
    if (nvml->name(gpu->device, gpu->name, sizeof gpu->name) != LAUNCH_NVML_OK) {
        gpu->name[0] = '\0';
    }
    if (nvml->uuid(gpu->device, gpu->uuid, sizeof gpu->uuid) != LAUNCH_NVML_OK) {
        gpu->uuid[0] = '\0';
    }
    gpu->nvlinks = active_links(nvml, gpu->device);
    look_at_pci(nvml, gpu);
    look_at_memory(nvml, gpu);
    launch_gpu_look_at_state(nvml, gpu);
}

base_status launch_gpus_look(const launch_nvml *nvml, launch_gpus *found, base_error *reterr)
{
    unsigned count = 0;
    memset(found, 0, sizeof *found);
    int result = nvml->count(&count);
    if (result != LAUNCH_NVML_OK || count == 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the NVIDIA driver has no GPU%s%s",
                         result != LAUNCH_NVML_OK ? ": " : "",
                         result != LAUNCH_NVML_OK ? nvml->error_text(result) : "");
    }
    if (nvml->driver_version(found->driver, sizeof found->driver) != LAUNCH_NVML_OK) {
        found->driver[0] = '\0';
    }
    for (unsigned i = 0; i < count && found->count < LAUNCH_GPUS_MAX; i++) {
        launch_gpu *gpu = &found->gpus[found->count];
        result = nvml->device(i, &gpu->device);
        if (result == LAUNCH_NVML_OK) {
            look_at(nvml, gpu);
            found->count++;
        } else {
            found->closed++;
            (void)snprintf(found->closed_because, sizeof found->closed_because, "%s",
                           nvml->error_text(result));
        }
    }
    return found->count > 0 ? BASE_OK
                            : base_fail(reterr, BASE_ERR_UNSUPPORTED, "no GPU can be used: %s",
                                        found->closed_because);
}

const char *launch_gpus_between(const launch_nvml *nvml, const launch_gpu *a, const launch_gpu *b)
{
    int nvlink = 1;
    int read = 1;
    if (a == b) {
        return "same";
    }
    if (nvml->p2p_status(a->device, b->device, LAUNCH_NVML_P2P_NVLINK, &nvlink) == LAUNCH_NVML_OK &&
        nvlink == 0) {
        return "nvlink";
    }
    return nvml->p2p_status(a->device, b->device, LAUNCH_NVML_P2P_READ, &read) == LAUNCH_NVML_OK &&
                   read == 0
               ? "p2p"
               : "host";
}

const char *launch_gpu_throttle_text(int64_t reasons, char text[LAUNCH_NVML_TEXT_BYTES])
{
    static const struct {
        int64_t bit;
        const char *name;
    } names[] = {
        {0x2, "clock setting"}, {0x4, "power cap"},    {0x8, "hardware slowdown"}, {0x20, "hot"},
        {0x40, "too hot"},      {0x80, "power brake"}, {0x10, "slower neighbour"},
    }; /* 0x1: idle, 0x100: a display's clock */
    text[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (reasons > 0 && (reasons & names[i].bit) != 0) {
            base_text_append(text, LAUNCH_NVML_TEXT_BYTES, "%s%s", text[0] != '\0' ? ", " : "",
                             names[i].name);
        }
    }
    if (text[0] == '\0') {
        (void)snprintf(text, LAUNCH_NVML_TEXT_BYTES, "%s", reasons < 0 ? "-" : "nothing");
    }
    return text;
}
