/* Runs a job's attempts: which failure is followed by another one, and what is kept of each. Called by
 * run_job.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/exitcode.h"
#include "base/grow.h"
#include "base/log.h"
#include "cli/run_job.h"
#include "cli/share.h"
#include "proto/checkpoints.h"

enum { ATTEMPTS_AT_FIRST = 4 };

/* A token may allow fewer than --max-restarts, or more. */
static int attempts_max(const launch_cli_run *run)
{
    const int asked = (int)run->options->max_restarts + 1 + run->pauses;
    const int allowed = run->lease != NULL ? launch_lease_attempts_max(run->lease) : asked;
    return allowed < asked ? allowed : asked;
}

bool launch_cli_has_restarts(const launch_cli_run *run)
{
    return run->attempt < attempts_max(run);
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

bool launch_cli_would_grow(void *user, int hosts)
{
    const launch_cli_run *run = user;
    launch_share share;
    BASE_ASSERT(run->lease == NULL); /* a token limits attempts; --min-nodes goes with none */
    return launch_share_find(run->whole, (int)run->options->hosts.nodes, hosts, &share) &&
           share.ranks > run->options->job.job.world_size;
}

/* Says how a training that ended early goes on. */
static void say_resume(const launch_cli_run *run)
{
    const proto_job *job = &run->options->job;
    bool found = false;
    uint64_t step = 0;
    if (run->result.exit_status != 0 && run->recording && job->train.save_every > 0 &&
        proto_checkpoints_newest(job->output.directory, &found, &step, NULL) == BASE_OK && found) {
        base_log(BASE_LOG_INFO, "%sthe same command%s%s goes on after step %" PRIu64,
                 run->result.fails_again ? "once that is mended, " : "",
                 job->train.resume         ? ""
                 : run->options->overwrite ? " with --resume in place of --overwrite"
                                           : " with --resume",
                 /* this one is bound to the launch that has redeemed it */
                 run->options->budget.token[0] != '\0' ? " and another token" : "", step);
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

/* The ranks and micro-batches of the next attempt, on so many hosts. */
static void share_out(launch_cli_run *run, const launch_share *share)
{
    run->host_count = share->hosts;
    run->options->job.job.world_size = share->ranks;
    run->options->job.train.micro_batches = share->micro_batches;
    run->options->job.parallel.expert_ranks = share->expert_ranks;
}

/* Says with what a job goes on when hosts are missing. */
static void say_share(const launch_cli_run *run, const launch_share *share)
{
    const proto_job *job = &run->options->job;
    const launch_job_result *result = &run->result;
    const bool several = strchr(result->hosts_absent, ',') != NULL;
    char from[48] = "";
    bool found = false;
    uint64_t step = 0;
    if (proto_checkpoints_newest(job->output.directory, &found, &step, NULL) == BASE_OK && found) {
        (void)snprintf(from, sizeof from, " from step %" PRIu64, step);
    }
    base_log(BASE_LOG_WARNING,
             "attempt %d of at most %d: %s %s missing; %s with %d %s, %d %s x %" PRId64 " %s%s",
             run->attempt, attempts_max(run), result->hosts_absent, several ? "are" : "is",
             found ? "going on" : "beginning", share->hosts, share->hosts == 1 ? "host" : "hosts",
             share->ranks, share->ranks == 1 ? "rank" : "ranks", share->micro_batches,
             share->micro_batches == 1 ? "micro-batch" : "micro-batches", from);
}

/* One attempt: on all hosts, or where some do not come, on those that do. */
static base_status run_attempt(launch_cli_run *run)
{
    const proto_job *whole = run->whole;
    const int nodes = (int)run->options->hosts.nodes;
    launch_share share = {nodes, (int)whole->job.world_size, whole->train.micro_batches,
                          whole->parallel.expert_ranks};
    share_out(run, &share);
    base_status status = launch_cli_run_once(run);
    while (status == BASE_OK && run->result.goes_on && run->result.hosts_present > 0) {
        const bool found = launch_share_find(whole, nodes, run->result.hosts_present, &share);
        BASE_ASSERT(found); /* as for --min-nodes, which the options' check has tried */
        say_share(run, &share);
        share_out(run, &share);
        launch_job_result_fini(&run->result);
        status = launch_cli_run_once(run);
    }
    return status;
}

/* For the record. Without memory it lacks the attempt. */
static void note_attempt(launch_cli_run *run)
{
    const launch_job_result *result = &run->result;
    launch_attempt *grown = base_grow(run->attempts, run->attempt_count, &run->attempt_capacity,
                                      ATTEMPTS_AT_FIRST, sizeof *grown);
    if (grown == NULL) {
        return;
    }
    run->attempts = grown;
    run->attempts[run->attempt_count++] =
        (launch_attempt){.number = run->attempt,
                         .hosts = run->host_count,
                         .ranks = (int)run->options->job.job.world_size,
                         .micro_batches = run->options->job.train.micro_batches,
                         .expert_ranks = proto_job_expert_ranks(&run->options->job),
                         .ready = result->ready,
                         .first_step = result->first_step,
                         .failure = result->cause};
}

/* The attempt has ended for hosts that wait. */
static void note_pause(launch_cli_run *run)
{
    const launch_job_result *result = &run->result;
    base_error why;
    const bool gone = result->hosts_joining[0] == '\0';
    (void)snprintf(why.message, sizeof why.message, "at the checkpoint of step %" PRId64 ", for %s",
                   result->steps_done, gone ? "a host that has left again" : result->hosts_joining);
    if (run->attempt_count > 0) { /* that of this attempt */
        run->attempts[run->attempt_count - 1].planned = why;
    }
    run->pauses++;
    base_log(BASE_LOG_INFO,
             "ended as planned, %s: starting again from there with all hosts that are there: "
             "attempt %d of at most %d (nothing has failed, so it uses up no restart)",
             why.message, run->attempt + 1, attempts_max(run));
}

void launch_cli_run_attempts(launch_cli_run *run)
{
    static proto_job whole; /* large */
    whole = run->options->job;
    run->whole = &whole;
    for (int attempt = 1;; attempt++) {
        run->attempt = attempt;
        const base_status status = run_attempt(run);
        discard_partial_checkpoint(run);
        note_attempt(run);
        if (status != BASE_OK || !run->result.goes_on) {
            say_resume(run);
            return;
        }
        if (run->result.paused) {
            note_pause(run);
        } else {
            base_log(BASE_LOG_WARNING, "starting again: attempt %d of at most %d", attempt + 1,
                     attempts_max(run));
        }
        keep_result(run);
    }
}
