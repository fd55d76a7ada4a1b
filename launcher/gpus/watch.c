/* Listens to the driver while a job runs. Called by run_job.c. */
#include "gpus/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "gpus/look.h"

enum {
    FAULTS_MAX = 8, /* that are named: one fault draws others after it */
    EVENTS_MAX = 4096,
};

struct launch_gpu_watch {
    launch_nvml nvml;
    launch_nvml_events events; /* NULL: the driver reports none */
    int64_t sampled_ns;        /* 0: never */
    launch_gpus gpus;          /* with the highest values of their states */
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

static void listen(launch_gpu_watch *watch)
{
    const launch_nvml *nvml = &watch->nvml;
    if (nvml->events_create(&watch->events) != LAUNCH_NVML_OK) {
        watch->events = NULL;
        return;
    }
    for (int i = 0; i < watch->gpus.count; i++) { /* a GPU may have none of them */
        launch_nvml_device device = watch->gpus.gpus[i].device;
        /* a GPU without ECC takes no events if these are among them */
        if (nvml->events_add(device, LAUNCH_NVML_EVENT_XID | LAUNCH_NVML_EVENT_ECC,
                             watch->events) != LAUNCH_NVML_OK) {
            (void)nvml->events_add(device, LAUNCH_NVML_EVENT_XID, watch->events);
        }
    }
}

launch_gpu_watch *launch_gpu_watch_open(void)
{
    launch_gpu_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL || launch_nvml_open(&watch->nvml, NULL) != BASE_OK) {
        free(watch);
        return NULL;
    }
    if (launch_gpus_look(&watch->nvml, &watch->gpus, NULL) != BASE_OK) {
        launch_gpu_watch_close(watch);
        return NULL;
    }
    listen(watch);
    return watch;
}

static int64_t higher(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void launch_gpu_watch_sample(launch_gpu_watch *watch)
{
    const int64_t now_ns = base_now_ns();
    if (watch == NULL || (watch->sampled_ns != 0 && now_ns - watch->sampled_ns < BASE_NS_PER_S)) {
        return;
    }
    const bool first = watch->sampled_ns == 0;
    watch->sampled_ns = now_ns;
    for (int i = 0; i < watch->gpus.count; i++) {
        launch_gpu *kept = &watch->gpus.gpus[i];
        launch_gpu now = {.device = kept->device};
        launch_gpu_look_at_state(&watch->nvml, &now);
        kept->sm_mhz = first ? now.sm_mhz : higher(kept->sm_mhz, now.sm_mhz);
        kept->milliwatts = first ? now.milliwatts : higher(kept->milliwatts, now.milliwatts);
        kept->celsius = first ? now.celsius : higher(kept->celsius, now.celsius);
        kept->throttle = first || now.throttle < 0 || kept->throttle < 0
                             ? now.throttle
                             : kept->throttle | now.throttle;
    }
}

bool launch_gpu_watch_peak(const launch_gpu_watch *watch, const char *uuid, launch_gpu_peak *peak)
{
    for (int i = 0; watch != NULL && watch->sampled_ns != 0 && i < watch->gpus.count; i++) {
        const launch_gpu *gpu = &watch->gpus.gpus[i];
        if (strcmp(gpu->uuid, uuid) == 0) {
            *peak = (launch_gpu_peak){
                .sm_mhz = gpu->sm_mhz, .milliwatts = gpu->milliwatts, .celsius = gpu->celsius};
            (void)launch_gpu_throttle_text(gpu->throttle, peak->slowed_by);
            return true;
        }
    }
    return false;
}

static void add(char text[LAUNCH_GPU_FAULTS_BYTES], const launch_gpu_watch *watch, int index,
                const launch_nvml_event *event)
{
    char what[LAUNCH_NVML_TEXT_BYTES];
    if ((event->type & LAUNCH_NVML_EVENT_XID) != 0) {
        (void)snprintf(what, sizeof what, "Xid %llu: %s", event->data, xid_text(event->data));
    } else {
        (void)snprintf(what, sizeof what, "a memory error of two bits");
    }
    base_text_append(text, LAUNCH_GPU_FAULTS_BYTES, "%sGPU %d (%s): %s",
                     text[0] != '\0' ? "; " : "", index, watch->gpus.gpus[index].uuid, what);
}

/* -1: of none of these. */
static int index_of(const launch_gpu_watch *watch, launch_nvml_device device,
                    const char *const *uuids, int count)
{
    int index = 0;
    while (index < watch->gpus.count && watch->gpus.gpus[index].device != device) {
        index++;
    }
    bool wanted = count == 0;
    for (int i = 0; index < watch->gpus.count && i < count; i++) {
        wanted = wanted || strcmp(watch->gpus.gpus[index].uuid, uuids[i]) == 0;
    }
    return index < watch->gpus.count && wanted ? index : -1;
}

const char *launch_gpu_watch_faults(launch_gpu_watch *watch, const char *const *uuids, int count,
                                    char text[LAUNCH_GPU_FAULTS_BYTES])
{
    launch_nvml_event event;
    int faults = 0;
    text[0] = '\0';
    for (int i = 0;
         watch != NULL && watch->events != NULL && i < EVENTS_MAX && faults < FAULTS_MAX &&
         watch->nvml.events_wait(watch->events, &event, 0) == LAUNCH_NVML_OK;
         i++) {
        const int index = index_of(watch, event.device, uuids, count);
        if (index >= 0) {
            add(text, watch, index, &event);
            faults++;
        }
    }
    return text;
}

void launch_gpu_watch_close(launch_gpu_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    if (watch->events != NULL) {
        (void)watch->nvml.events_free(watch->events);
    }
    launch_nvml_close(&watch->nvml);
    free(watch);
}
