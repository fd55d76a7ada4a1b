/* Listens to the driver while a job runs. Called by run_job.c. */
#include "gpus/gpu_faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpus/look.h"

enum { FAULTS_MAX = 8 }; /* that are named: one fault draws others after it */

struct launch_gpu_faults {
    launch_nvml nvml;
    launch_nvml_events events;
    launch_gpus gpus; /* as they were at the beginning */
};

/* NVIDIA's document "XID Errors" has all of them. */
static const char *xid_text(unsigned long long xid)
{
    static const struct {
        unsigned long long xid;
        const char *text;
    } names[] = {
        {13, "an exception of a kernel"},
        {31, "a kernel used memory that is not mapped"},
        {43, "the GPU stopped a process's work"},
        {45, "a process's work was cleaned up after a fault"},
        {48, "a memory error of two bits"},
        {63, "a row of memory is to be replaced"},
        {64, "a row of memory could not be replaced"},
        {74, "an error of NVLink"},
        {79, "the GPU has fallen off the bus"},
        {92, "many memory errors of one bit"},
        {94, "a memory error, contained"},
        {95, "a memory error, not contained"},
        {119, "the GPU's own processor does not answer"},
        {120, "an error of the GPU's own processor"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].xid == xid) {
            return names[i].text;
        }
    }
    return "see NVIDIA's list of Xid errors";
}

launch_gpu_faults *launch_gpu_faults_open(void)
{
    launch_gpu_faults *faults = calloc(1, sizeof *faults);
    int listening = 0;
    if (faults == NULL || launch_nvml_open(&faults->nvml, NULL) != BASE_OK) {
        free(faults);
        return NULL;
    }
    const launch_nvml *nvml = &faults->nvml;
    if (launch_gpus_look(nvml, &faults->gpus, NULL) == BASE_OK &&
        nvml->events_create(&faults->events) == LAUNCH_NVML_OK) {
        for (int i = 0; i < faults->gpus.count; i++) {
            listening += nvml->events_add(faults->gpus.gpus[i].device,
                                          LAUNCH_NVML_EVENT_XID | LAUNCH_NVML_EVENT_ECC,
                                          faults->events) == LAUNCH_NVML_OK
                             ? 1
                             : 0;
        }
    }
    if (listening == 0) {
        launch_gpu_faults_close(faults);
        return NULL;
    }
    return faults;
}

static void add(char text[LAUNCH_GPU_FAULTS_BYTES], size_t *used, const launch_gpu_faults *faults,
                const launch_nvml_event *event)
{
    char what[LAUNCH_NVML_TEXT_BYTES];
    int index = 0;
    while (index + 1 < faults->gpus.count && faults->gpus.gpus[index].device != event->device) {
        index++;
    }
    if ((event->type & LAUNCH_NVML_EVENT_XID) != 0) {
        (void)snprintf(what, sizeof what, "Xid %llu: %s", event->data, xid_text(event->data));
    } else {
        (void)snprintf(what, sizeof what, "a memory error of two bits");
    }
    const int length = snprintf(text + *used, LAUNCH_GPU_FAULTS_BYTES - *used, "%sGPU %d (%s): %s",
                                *used > 0 ? "; " : "", index, faults->gpus.gpus[index].uuid, what);
    *used += length > 0 && (size_t)length < LAUNCH_GPU_FAULTS_BYTES - *used ? (size_t)length : 0;
}

const char *launch_gpu_faults_text(launch_gpu_faults *faults, char text[LAUNCH_GPU_FAULTS_BYTES])
{
    launch_nvml_event event;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0;
         i < FAULTS_MAX && faults->nvml.events_wait(faults->events, &event, 0) == LAUNCH_NVML_OK;
         i++) {
        add(text, &used, faults, &event);
    }
    text[used] = '\0';
    return text;
}

void launch_gpu_faults_close(launch_gpu_faults *faults)
{
    if (faults == NULL) {
        return;
    }
    if (faults->events != NULL) {
        (void)faults->nvml.events_free(faults->events);
    }
    launch_nvml_close(&faults->nvml);
    free(faults);
}
