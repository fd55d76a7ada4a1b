/* Whether NVLinks join the GPUs of a job, for its record. Called by cli/run_job.c. */
#include <stdlib.h>
#include <string.h>

#include "gpus/gpus.h"
#include "gpus/look.h"

static const launch_gpu *find(const launch_gpus *found, const char *uuid)
{
    for (int i = 0; i < found->count; i++) {
        if (strcmp(found->gpus[i].uuid, uuid) == 0) {
            return &found->gpus[i];
        }
    }
    return NULL;
}

/* As launch_gpus_nvlink. */
static int joined(const launch_nvml *nvml, const launch_gpus *found, const char *const *uuids,
                  int count)
{
    int all = 1;
    for (int i = 0; i < count; i++) {
        const launch_gpu *gpu = find(found, uuids[i]);
        if (gpu == NULL) {
            return -1;
        }
        all = count == 1 && gpu->nvlinks == 0 ? 0 : all;
        for (int j = 0; j < i; j++) {
            const char *between = launch_gpus_between(nvml, gpu, find(found, uuids[j]));
            all = strcmp(between, "nvlink") != 0 ? 0 : all;
        }
    }
    return all;
}

int launch_gpus_nvlink(const char *const *uuids, int count)
{
    launch_nvml nvml;
    int answer = -1;
    launch_gpus *found = calloc(1, sizeof *found);
    if (found != NULL && launch_nvml_open(&nvml, NULL) == BASE_OK) {
        if (launch_gpus_look(&nvml, found, NULL) == BASE_OK) {
            answer = joined(&nvml, found, uuids, count);
        }
        launch_nvml_close(&nvml);
    }
    free(found);
    return answer;
}
