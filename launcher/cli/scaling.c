/* Measures the scaling curve after the job, and decides which numbers of ranks it has. Called by
 * run_job.c, and by plan.c for --dry-run. */
#include "cli/scaling.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"

static int add_number(int number, int ranks[LAUNCH_SCALING_POINTS_MAX], int count)
{
    for (int i = 0; i < count; i++) {
        if (ranks[i] == number) {
            return count;
        }
    }
    if (count < LAUNCH_SCALING_POINTS_MAX) {
        ranks[count++] = number;
    }
    return count;
}

int launch_scaling_plan(const launch_options *options, int ranks[LAUNCH_SCALING_POINTS_MAX])
{
    int count = 0;
    const proto_job *job = &options->job;
    const int own = (int)job->job.world_size;
    if (!options->scaling || !proto_mode_get(job->job.mode)->trains ||
        proto_mode_costs_money(job->job.mode) || /* its token is for one job */
        (options->scaling_count == 0 && job->train.steps < LAUNCH_SCALING_AFTER_STEPS)) {
        return 0;
    }
    count = add_number(own, ranks, count); /* is measured in any case */
    if (options->scaling_count == 0) {
        count = add_number(1, ranks, count);
    }
    for (int i = 0; i < options->scaling_count; i++) {
        count = add_number(options->scaling_ranks[i], ranks, count);
    }
    return count > 1 ? count : 0;
}

static base_status run_once(const launch_options *options, const char *rank_path, int ranks,
                            launch_job_result *result, base_error *reterr)
{
    char label[64];
    proto_job job = options->job;
    job.job.world_size = ranks;
    job.train.steps = LAUNCH_SCALING_STEPS;
    job.train.warmup_steps = 0;
    job.train.save_every = 0;
    job.train.resume = false;
    job.infer.eval = false;
    job.infer.eval_every = 0;
    job.output.directory[0] = '\0';
    (void)snprintf(label, sizeof label, "measuring %d %s: ", ranks, ranks == 1 ? "rank" : "ranks");
    const launch_job_options job_options = {
        .job = &job,
        .root = options->root,
        .rank_path = rank_path,
        .bind = options->bind,
        .quiet = options->quiet,
        .label = label,
    };
    return launch_job_run(&job_options, result, reterr);
}

/* Adds a round to a point: the average of its rounds, weighted by their time. */
static void add_round(launch_scaling_point *point, const launch_job_result *result)
{
    const double speed = result->tokens_per_second;
    const double before_ms = point->steps > 0 ? point->slowest.step_ms * (double)point->steps : 0;
    const double now_ms = result->slowest.step_ms * (double)result->steps_measured;
    const double tokens = point->tokens_per_second * before_ms + speed * now_ms;
    if (point->rounds == 0) {
        point->slowest = result->slowest;
        point->tokens_per_second_low = speed;
        point->tokens_per_second_high = speed;
    } else {
        point->slowest = launch_breakdown_mean(&point->slowest, (double)point->steps,
                                               &result->slowest, (double)result->steps_measured);
        point->tokens_per_second_low = fmin(point->tokens_per_second_low, speed);
        point->tokens_per_second_high = fmax(point->tokens_per_second_high, speed);
    }
    point->tokens_per_second = tokens / (before_ms + now_ms);
    point->steps += result->steps_measured;
    point->rounds++;
}

/* Notes a measurement that failed. It is logged here, and stands in the record. */
static void note_failure(launch_scaling *scaling, int ranks, const char *reason)
{
    launch_scaling_failure *failure = &scaling->failures[scaling->failure_count++];
    failure->ranks = ranks;
    (void)snprintf(failure->reason, sizeof failure->reason, "%s", reason);
    base_log(BASE_LOG_WARNING, "measuring %d %s failed: %s", ranks, ranks == 1 ? "rank" : "ranks",
             failure->reason);
}

/* Runs one measurement. Returns whether it gave a round. */
static bool measure_round(const launch_options *options, const char *rank_path,
                          launch_scaling *scaling, launch_scaling_point *point)
{
    base_error error = {0};
    launch_job_result result = {0};
    bool measured = false;
    const base_status status = run_once(options, rank_path, point->ranks, &result, &error);
    if (result.stop_signal != 0) {
        scaling->stop_signal = result.stop_signal;
        scaling->stopped_at = point->ranks;
        note_failure(scaling, point->ranks, "stopped");
    } else if (status != BASE_OK) {
        note_failure(scaling, point->ranks, error.message);
    } else if (result.cause.message[0] != '\0') {
        note_failure(scaling, point->ranks, result.cause.message);
    } else if (!isfinite(result.tokens_per_second)) {
        note_failure(scaling, point->ranks, "no step was finished by every rank");
    } else {
        add_round(point, &result);
        measured = true;
    }
    launch_job_result_fini(&result);
    return measured;
}

/* Keeps the points that were measured in this round. */
static void keep_measured(launch_scaling *scaling, const bool *measured)
{
    const int count = scaling->point_count;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (measured[i]) {
            scaling->points[kept++] = scaling->points[i];
        }
    }
    scaling->point_count = kept;
}

/* Says what takes so long after the last step. */
static void announce(const launch_options *options, const int *ranks, int count)
{
    char list[LAUNCH_SCALING_POINTS_MAX * 8] = "";
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        const char *between = i == 0 ? "" : i == count - 1 ? " and " : ", ";
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%d", between, ranks[i]);
    }
    if (count > 0 && !options->quiet) {
        base_log(BASE_LOG_INFO,
                 "now %d rounds of %d steps each on %s ranks, to compare their speed "
                 "(--no-scaling: without)",
                 LAUNCH_SCALING_ROUNDS, LAUNCH_SCALING_STEPS, list);
    }
}

void launch_scaling_measure(const launch_options *options, const char *rank_path,
                            launch_scaling *scaling)
{
    int ranks[LAUNCH_SCALING_POINTS_MAX];
    scaling->point_count = launch_scaling_plan(options, ranks);
    announce(options, ranks, scaling->point_count);
    for (int i = 0; i < scaling->point_count; i++) {
        scaling->points[i] = (launch_scaling_point){.ranks = ranks[i]};
    }
    for (int round = 0; round < LAUNCH_SCALING_ROUNDS && scaling->stop_signal == 0; round++) {
        bool measured[LAUNCH_SCALING_POINTS_MAX] = {false};
        const int count = scaling->point_count;
        for (int i = 0; i < count; i++) {
            measured[i] = scaling->stop_signal == 0
                              ? measure_round(options, rank_path, scaling, &scaling->points[i])
                              : scaling->points[i].rounds > 0;
        }
        keep_measured(scaling, measured);
    }
}
