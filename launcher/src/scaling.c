#include "scaling.h"

#include <stdio.h>
#include <string.h>

int launch_scaling_plan(const launch_options *options, int ranks[LAUNCH_SCALING_POINTS_MAX])
{
    int count = 0;
    const proto_job *job = &options->job;
    if (!options->scaling || strcmp(job->mode, "ddp-cpu") != 0) {
        return 0;
    }
    if (options->scaling_count == 0) {
        if (job->steps >= LAUNCH_SCALING_AFTER_STEPS && job->world_size > 1) {
            ranks[count++] = 1;
        }
        return count;
    }
    for (int i = 0; i < options->scaling_count; i++) {
        bool known = options->scaling_ranks[i] == job->world_size; /* the job itself tells */
        for (int j = 0; j < count; j++) {
            known = known || ranks[j] == options->scaling_ranks[i];
        }
        if (!known) {
            ranks[count++] = options->scaling_ranks[i];
        }
    }
    return count;
}

base_status launch_scaling_measure(const launch_options *options, const char *rank_path, int ranks,
                                   launch_job_result *result, base_error *reterr)
{
    char label[64];
    proto_job job = options->job;
    job.world_size = ranks;
    job.steps = LAUNCH_SCALING_STEPS;
    job.warmup_steps = 0;
    job.eval = false;
    job.out[0] = '\0';
    (void)snprintf(label, sizeof label, "measuring %d %s: ", ranks, ranks == 1 ? "rank" : "ranks");
    const launch_job_options job_options = {
        .job = &job,
        .rank_path = rank_path,
        .bind = options->bind,
        .quiet = options->quiet,
        .label = label,
    };
    return launch_job_run(&job_options, result, reterr);
}
