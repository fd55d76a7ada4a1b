/* Measures the scaling curve after the job, and decides which numbers of ranks it has. Called by
 * run_job.c, and by plan.c for --dry-run. */
#include "cli/scaling.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

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

int64_t launch_scaling_steps(const proto_job *job)
{
    const int64_t local = proto_job_local_steps(job);
    return (LAUNCH_SCALING_STEPS + local - 1) / local * local;
}

int launch_scaling_plan(const launch_options *options, int ranks[LAUNCH_SCALING_POINTS_MAX])
{
    int count = 0;
    const proto_job *job = &options->job;
    const int own = (int)job->job.world_size;
    if (!options->scaling || !proto_mode_get(job->job.mode)->trains ||
        proto_mode_costs_money(job->job.mode) || /* its token is for one job */
        (options->scaling_count == 0 && (job->train.steps < LAUNCH_SCALING_AFTER_STEPS ||
                                         launch_scaling_steps(job) > LAUNCH_SCALING_AFTER_STEPS))) {
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

proto_job launch_scaling_job(const proto_job *job, int ranks)
{
    proto_job point = *job;
    point.job.world_size = ranks;
    while (ranks % proto_job_tensor(&point) != 0) {
        point.parallel.tensor /= 2;
    }
    while (
        proto_job_context_ranks(&point) > 1 &&
        (ranks % (proto_job_tensor(&point) * proto_job_context_ranks(&point)) != 0 ||
         point.model.heads % (proto_job_tensor(&point) * proto_job_context_ranks(&point)) != 0)) {
        point.parallel.context_ranks--;
    }
    while (ranks % proto_job_expert_ranks(&point) != 0) {
        point.parallel.expert_ranks /= 2;
    }
    if (point.train.micro_batches > 1 && !proto_is_power_of_two(ranks)) {
        point.parallel.expert_ranks = 0; /* it needs a power of two then */
    }
    if (ranks % (proto_job_stages(&point) * proto_job_tensor(&point) *
                 proto_job_context_ranks(&point)) !=
        0) {
        point.parallel.stages = 0; /* one pipeline */
    }
    if (proto_mode_get(point.job.mode)->pipelined && proto_job_copies(&point) == 1) {
        point.parallel.algorithm = PROTO_ALGORITHM_AUTO; /* of sums that there are none of */
    }
    return point;
}

static base_status run_once(const launch_options *options, const char *rank_path, int ranks,
                            launch_job_result *result, base_error *reterr)
{
    char label[64];
    proto_job job = launch_scaling_job(&options->job, ranks);
    job.train.steps = launch_scaling_steps(&job);
    job.train.warmup_steps = 0;
    job.train.save_every = 0;
    job.train.resume = false;
    job.infer.eval = false;
    job.infer.eval_every = 0;
    job.train.keep_best = false;
    job.train.patience = 0;
    job.output.directory[0] = '\0';
    job.output.trace = 0;
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

/* Adds a round to a point. */
static void add_round(launch_scaling *scaling, int index, const launch_job_result *result)
{
    launch_scaling_point *point = &scaling->points[index];
    scaling->rounds[index][point->rounds] = (launch_scaling_round){
        .tokens_per_second = result->tokens_per_second,
        .steps = result->steps_measured,
        .mean_step = result->mean_step,
    };
    *point = launch_scaling_point_of(point->ranks, scaling->rounds[index], point->rounds + 1);
}

/* Notes a measurement that failed, in the record, and logs it unless the user has stopped it. */
static void note_failure(launch_scaling *scaling, int ranks, const char *reason)
{
    launch_scaling_failure *failure = &scaling->failures[scaling->failure_count++];
    failure->ranks = ranks;
    (void)snprintf(failure->reason, sizeof failure->reason, "%s", reason);
    if (scaling->stop_signal == 0) {
        base_log(BASE_LOG_WARNING, "measuring %d %s failed: %s", ranks,
                 ranks == 1 ? "rank" : "ranks", failure->reason);
    }
}

/* Runs one measurement. Returns whether it gave a round. */
static bool measure_round(const launch_options *options, const char *rank_path,
                          launch_scaling *scaling, int index)
{
    const int ranks = scaling->points[index].ranks;
    base_error error = {0};
    launch_job_result result = {0};
    bool measured = false;
    const base_status status = run_once(options, rank_path, ranks, &result, &error);
    if (result.stop_signal != 0) {
        scaling->stop_signal = result.stop_signal;
        scaling->stopped_at = ranks;
        note_failure(scaling, ranks, "stopped");
    } else if (status != BASE_OK) {
        note_failure(scaling, ranks, error.message);
    } else if (result.cause.message[0] != '\0') {
        note_failure(scaling, ranks, result.cause.message);
    } else if (!isfinite(result.tokens_per_second)) {
        note_failure(scaling, ranks, "no step was finished by every rank");
    } else {
        add_round(scaling, index, &result);
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
            scaling->points[kept] = scaling->points[i];
            memcpy(scaling->rounds[kept++], scaling->rounds[i], sizeof scaling->rounds[i]);
        }
    }
    scaling->point_count = kept;
}

/* Says what takes so long after the last step. */
static void announce(const launch_options *options, const int *ranks, int count)
{
    char list[LAUNCH_SCALING_POINTS_MAX * 8] = "";
    for (int i = 0; i < count; i++) {
        const char *between = i == 0 ? "" : i == count - 1 ? " and " : ", ";
        base_text_append(list, sizeof list, "%s%d", between, ranks[i]);
    }
    if (count > 0 && !options->quiet) {
        base_log(BASE_LOG_INFO,
                 "now %d rounds of %" PRId64 " steps each on %s ranks, to compare their speed "
                 "(--no-scaling: without)",
                 LAUNCH_SCALING_ROUNDS, launch_scaling_steps(&options->job), list);
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
            measured[i] = scaling->stop_signal == 0 ? measure_round(options, rank_path, scaling, i)
                                                    : scaling->points[i].rounds > 0;
        }
        keep_measured(scaling, measured);
    }
}
