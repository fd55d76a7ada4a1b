/* What a job on GPUs adds to its result: how they are joined, and what the driver has said of them.
 * Called by run_job.c. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/run_job.h"
#include "gpus/gpus.h"
#include "gpus/watch.h"

/* Of the GPUs that ranks have named. Returns how many there are. */
static int collect_uuids(const launch_job_result *result, int64_t ranks,
                         const char *uuids[BASE_COLL_RANKS_MAX])
{
    int count = 0;
    for (int64_t rank = 0; result->ranks != NULL && rank < ranks; rank++) {
        if (result->ranks[rank].gpu.uuid[0] != '\0' && count < BASE_COLL_RANKS_MAX) {
            uuids[count++] = result->ranks[rank].gpu.uuid;
        }
    }
    return count;
}

launch_answer launch_cli_find_nvlink(const launch_job_result *result, int64_t ranks)
{
    const char *uuids[BASE_COLL_RANKS_MAX];
    const int count = collect_uuids(result, ranks, uuids);
    return count > 0 ? (launch_answer)launch_gpus_nvlink(uuids, count) : LAUNCH_UNKNOWN;
}

void launch_cli_take_watch(launch_cli_run *run)
{
    base_error *cause = &run->result.cause;
    char faults[LAUNCH_GPU_FAULTS_BYTES];
    launch_gpu_peak peak;
    const char *uuids[BASE_COLL_RANKS_MAX];
    const int named = collect_uuids(&run->result, run->options->job.job.world_size, uuids);
    /* a rank that has failed before it named its GPU may have failed of that GPU's fault */
    const int count = named == (int)run->options->job.job.world_size ? named : 0;
    const int ranks = run->result.ranks != NULL ? (int)run->options->job.job.world_size : 0;
    if (launch_gpu_watch_faults(run->gpus, uuids, count, faults)[0] != '\0' &&
        cause->message[0] != '\0') {
        base_text_append(cause->message, sizeof cause->message, "; %s", faults);
    } else if (faults[0] != '\0') {
        base_log(BASE_LOG_WARNING, "%s", faults);
    }
    for (int rank = 0; rank < ranks; rank++) {
        launch_gpu_info *gpu = &run->result.ranks[rank].gpu;
        if (launch_gpu_watch_peak(run->gpus, gpu->uuid, &peak)) {
            gpu->sampled = true;
            gpu->sm_mhz_max = peak.sm_mhz;
            gpu->milliwatts_max = peak.milliwatts;
            gpu->celsius_max = peak.celsius;
            (void)snprintf(gpu->slowed_by, sizeof gpu->slowed_by, "%s", peak.slowed_by);
        }
    }
    launch_gpu_watch_close(run->gpus);
    run->gpus = NULL;
}
