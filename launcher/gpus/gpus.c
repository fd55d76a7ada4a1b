/* Prints the table of GPUs and the matrix of their links. Called by cli.c. */
#include "gpus/gpus.h"

#include <stdbool.h>

#include "gpus/nvml.h"

enum { GPUS_MAX = 64, PROCESSES_MAX = 64 };

typedef struct gpus {
    launch_nvml nvml;
    unsigned count;
    launch_nvml_device devices[GPUS_MAX];
} gpus;

static base_status find_gpus(gpus *found, base_error *reterr)
{
    const launch_nvml *nvml = &found->nvml;
    int result = nvml->count(&found->count);
    if (result != LAUNCH_NVML_OK || found->count == 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the NVIDIA driver has no GPU%s%s",
                         result != LAUNCH_NVML_OK ? ": " : "",
                         result != LAUNCH_NVML_OK ? nvml->error_text(result) : "");
    }
    found->count = found->count < GPUS_MAX ? found->count : GPUS_MAX;
    for (unsigned i = 0; i < found->count; i++) {
        result = nvml->device(i, &found->devices[i]);
        if (result != LAUNCH_NVML_OK) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED, "GPU %u: %s", i,
                             nvml->error_text(result));
        }
    }
    return BASE_OK;
}

static void print_memory(const gpus *found, unsigned gpu, FILE *stream)
{
    launch_nvml_memory memory;
    if (found->nvml.memory(found->devices[gpu], &memory) != LAUNCH_NVML_OK) {
        (void)fprintf(stream, "  memory -\n");
        return;
    }
    (void)fprintf(stream, "  memory %llu MiB, %llu MiB free\n", memory.total >> 20,
                  memory.free >> 20);
}

static void print_mig(const gpus *found, unsigned gpu, FILE *stream)
{
    unsigned now = 0;
    unsigned pending = 0;
    const char *mode = "-";
    if (found->nvml.mig_mode(found->devices[gpu], &now, &pending) == LAUNCH_NVML_OK) {
        mode = now != 0 ? "on" : "off";
    }
    (void)fprintf(stream, "  MIG %s\n", mode);
}

static unsigned active_links(const gpus *found, unsigned gpu)
{
    unsigned links = 0;
    for (unsigned link = 0; link < LAUNCH_NVML_NVLINKS; link++) {
        unsigned active = 0;
        const int result = found->nvml.nvlink_state(found->devices[gpu], link, &active);
        links += result == LAUNCH_NVML_OK && active != 0 ? 1 : 0;
    }
    return links;
}

static void print_users(const gpus *found, unsigned gpu, FILE *stream)
{
    launch_nvml_process processes[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX;
    if (found->nvml.processes(found->devices[gpu], &count, processes) != LAUNCH_NVML_OK ||
        count > PROCESSES_MAX) {
        (void)fprintf(stream, "  used by -\n");
        return;
    }
    (void)fprintf(stream, "  used by %s", count == 0 ? "nobody" : "");
    for (unsigned i = 0; i < count; i++) {
        (void)fprintf(stream, "%spid %u", i == 0 ? "" : ", ", processes[i].pid);
    }
    (void)fprintf(stream, "\n");
}

static void print_gpu(const gpus *found, unsigned gpu, FILE *stream)
{
    char name[LAUNCH_NVML_TEXT_BYTES];
    char uuid[LAUNCH_NVML_TEXT_BYTES];
    const launch_nvml_device device = found->devices[gpu];
    const bool named = found->nvml.name(device, name, sizeof name) == LAUNCH_NVML_OK;
    const bool known = found->nvml.uuid(device, uuid, sizeof uuid) == LAUNCH_NVML_OK;
    (void)fprintf(stream, "GPU %u: %s, %s\n", gpu, named ? name : "-", known ? uuid : "-");
    print_memory(found, gpu, stream);
    print_mig(found, gpu, stream);
    (void)fprintf(stream, "  NVLinks %u\n", active_links(found, gpu));
    print_users(found, gpu, stream);
}

/* What bytes take from one GPU to the other. */
static const char *path_between(const gpus *found, unsigned a, unsigned b)
{
    int nvlink = 1;
    int read = 1;
    if (a == b) {
        return "same";
    }
    if (found->nvml.p2p_status(found->devices[a], found->devices[b], LAUNCH_NVML_P2P_NVLINK,
                               &nvlink) == LAUNCH_NVML_OK &&
        nvlink == 0) {
        return "nvlink";
    }
    return found->nvml.p2p_status(found->devices[a], found->devices[b], LAUNCH_NVML_P2P_READ,
                                  &read) == LAUNCH_NVML_OK &&
                   read == 0
               ? "p2p"
               : "host";
}

static void print_matrix(const gpus *found, FILE *stream)
{
    (void)fprintf(stream, "between GPUs: nvlink; p2p: over PCIe; host: through memory\n    ");
    for (unsigned b = 0; b < found->count; b++) {
        (void)fprintf(stream, " %6u", b);
    }
    for (unsigned a = 0; a < found->count; a++) {
        (void)fprintf(stream, "\n%4u", a);
        for (unsigned b = 0; b < found->count; b++) {
            (void)fprintf(stream, " %6s", path_between(found, a, b));
        }
    }
    (void)fprintf(stream, "\n");
}

base_status launch_gpus_print(FILE *stream, base_error *reterr)
{
    gpus found;
    char driver[LAUNCH_NVML_TEXT_BYTES];
    base_status status = launch_nvml_open(&found.nvml, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = find_gpus(&found, reterr);
    if (status == BASE_OK) {
        const bool known = found.nvml.driver_version(driver, sizeof driver) == LAUNCH_NVML_OK;
        (void)fprintf(stream, "driver %s\n", known ? driver : "-");
        for (unsigned gpu = 0; gpu < found.count; gpu++) {
            print_gpu(&found, gpu, stream);
        }
        if (found.count > 1) {
            print_matrix(&found, stream);
        }
    }
    launch_nvml_close(&found.nvml);
    return status;
}
