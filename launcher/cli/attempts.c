/* Runs a job's attempts: which failure is followed by another one, and what is kept of each. Called by
 * run_job.c. */
#include <inttypes.h>
#include <stdio.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "cli/run_job.h"
#include "proto/checkpoints.h"

bool launch_cli_has_restarts(const launch_cli_run *run)
{
    const int attempts_max = run->lease != NULL ? launch_lease_attempts_max(run->lease)
                                                : (int)run->options->max_restarts + 1;
    return run->attempt <= run->options->max_restarts && run->attempt < attempts_max;
}

bool launch_cli_goes_on(void *user, const launch_job_result *result)
{
    const launch_cli_run *run = user;
    const int status = result->exit_status;
    /* a program's exit codes are its own */
    const bool refused =
        run->options->program == NULL &&
        (result->fails_again || status == BASE_EXIT_USAGE || status == BASE_EXIT_OVER_CAP ||
         status == BASE_EXIT_REFUSED || status == BASE_EXIT_BAD_TOKEN);
    return status != 0 && result->started && !refused && result->stop_signal == 0 &&
           launch_cli_has_restarts(run);
}

/* Says how a training that ended early goes on. */
static void say_resume(const launch_cli_run *run)
{
    const proto_job *job = &run->options->job;
    bool found = false;
    uint64_t step = 0;
    if (run->result.exit_status != 0 && run->recording && job->train.save_every > 0 &&
        proto_checkpoints_newest(job->output.directory, &found, &step, NULL) == BASE_OK && found) {
        base_log(BASE_LOG_INFO, "%sthe same command%s goes on after step %" PRIu64,
                 run->result.fails_again ? "once that is mended, " : "",
                 job->train.resume         ? ""
                 : run->options->overwrite ? " with --resume in place of --overwrite"
                                           : " with --resume",
                 step);
    }
}

/* What is left of a checkpoint that was being written takes room, and nobody reads it. After a good end
 * it may be of a launcher that was killed. */
static void discard_partial_checkpoint(const launch_cli_run *run)
{
    const proto_job *job = &run->options->job;
    base_error error;
    if (run->recording && job->train.save_every > 0 &&
        proto_checkpoint_discard_partial(job->output.directory, &error) != BASE_OK) {
        base_log(BASE_LOG_WARNING, "a part of a checkpoint is left: %s", error.message);
    }
}

/* Of an attempt that is followed by another: the record is about the last one that was ready. */
static void keep_result(launch_cli_run *run)
{
    if (run->result.ready) {
        launch_job_result_fini(&run->earlier);
        run->earlier = run->result;
    } else {
        launch_job_result_fini(&run->result);
    }
}

void launch_cli_run_attempts(launch_cli_run *run)
{
    for (int attempt = 1;; attempt++) {
        run->attempt = attempt;
        const base_status status = launch_cli_run_once(run);
        discard_partial_checkpoint(run);
        if (status != BASE_OK || !run->result.goes_on) {
            say_resume(run);
            return;
        }
        base_log(BASE_LOG_WARNING, "starting again: attempt %d of at most %d", attempt + 1,
                 (int)run->options->max_restarts + 1);
        keep_result(run);
    }
}
