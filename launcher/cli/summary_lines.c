/* Prints the last lines of a run: loss, speed, equality of parameters, held-out accuracy, scaling.
 * Called by cli.c when the job has ended. */
#include "cli/summary_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "job/writer.h"
#include "record/architecture.h"
#include "record/scaling_point.h"

/* What --eval found, and in which file. The ranks have summed the loss already. */
static void print_heldout(const proto_job *job, const launch_job_result *result)
{
    const int ranks = (int)job->job.world_size;
    uint64_t total = 0;
    uint64_t correct = 0;
    double loss = NAN;
    for (int rank = 0; result->ranks != NULL && rank < ranks; rank++) {
        total += result->ranks[rank].eval_total;
        correct += result->ranks[rank].eval_correct;
        if (result->ranks[rank].eval_measured > 0) {
            loss = result->ranks[rank].eval_loss;
        }
    }
    if (isfinite(loss)) {
        launch_writer_result("held-out loss: %.4f (perplexity %.4g) on %s\n", loss, exp(loss),
                             job->data.heldout);
    }
    if (total > 0) {
        launch_writer_result("held-out exact match: %" PRIu64 "/%" PRIu64 " (%.1f %%) on %s\n",
                             correct, total, 100.0 * (double)correct / (double)total,
                             job->data.heldout);
    }
}

/* What drafts have saved. Ranks that hold one model together have counted the same. */
static void print_drafts(const proto_job *job, const launch_job_result *result)
{
    const bool together = proto_mode_get(job->job.mode)->tensor_parallel;
    const int ranks = together ? 1 : (int)job->job.world_size;
    uint64_t drawn = 0;
    uint64_t drafted = 0;
    uint64_t accepted = 0;
    for (int rank = 0; rank < ranks; rank++) {
        drawn += result->ranks[rank].tokens_drawn;
        drafted += result->ranks[rank].tokens_drafted;
        accepted += result->ranks[rank].tokens_accepted;
    }
    if (drawn > 0) {
        base_log(BASE_LOG_INFO,
                 "drafts: %" PRIu64 " tokens, %" PRIu64
                 " of them accepted; %.2f tokens of a text a step",
                 drafted, accepted, (double)drawn / (double)(drawn - accepted));
    }
}

/* Whether all ranks ended with the same parameters. NULL: not known. */
static const char *byte_equal(const launch_job_result *result, int ranks)
{
    bool equal = true;
    for (int rank = 0; rank < ranks; rank++) {
        if (!result->ranks[rank].finished) {
            return NULL;
        }
        equal = equal && result->ranks[rank].byte_equal;
        equal = equal && memcmp(result->ranks[rank].params_sha256, result->ranks[0].params_sha256,
                                PROTO_DIGEST_BYTES) == 0;
    }
    return equal ? "yes" : "NO";
}

/* "2 pipelines of 2 stages of 2 ranks, 2 to a batch": what trained, as far as there is more than one of it. */
static void describe_pipelines(const proto_job *job, char *text, size_t size_bytes)
{
    const int replicas = (int)proto_job_copies(job);
    const int stages = (int)proto_job_stages(job);
    char pipelines[32] = "";
    char ranks[32] = "";
    char shared[32] = "";
    if (replicas > 1) {
        (void)snprintf(pipelines, sizeof pipelines, "%d pipelines of ", replicas);
    }
    if (proto_job_tensor(job) > 1) {
        (void)snprintf(ranks, sizeof ranks, " of %d ranks", (int)proto_job_tensor(job));
    }
    if (proto_job_context_ranks(job) > 1) {
        (void)snprintf(shared, sizeof shared, ", %d to a batch", (int)proto_job_context_ranks(job));
    }
    (void)snprintf(text, size_bytes, "%s%d %s%s%s", pipelines, stages,
                   stages == 1 ? "stage" : "stages", ranks, shared);
}

/* Of what all ranks that hold the same are byte-equal. */
static const char *equal_parts(const proto_job *job)
{
    if (!proto_mode_get(job->job.mode)->pipelined) {
        return proto_job_expert_ranks(job) > 1 ? "parameters byte-equal on all ranks that have them"
                                               : "parameters byte-equal on all ranks";
    }
    if (proto_job_tensor(job) > 1) {
        return "parameters byte-equal in all copies";
    }
    return proto_job_copies(job) > 1 ? "parameters byte-equal in all pipelines"
                                     : "both copies of the tied matrix byte-equal";
}

/* What --keep-best and --patience did. All ranks say the same. */
static void print_best(const proto_job *job, const launch_job_result *result)
{
    const launch_rank_info *info = result->ranks;
    if (info->stopped_early) {
        launch_writer_result("stopped early after step %" PRId64 " of %" PRId64 ": %" PRId64
                             " %s no lower held-out loss (--patience)\n",
                             result->steps_done, job->train.steps, job->train.patience,
                             job->train.patience == 1 ? "evaluation has found"
                                                      : "evaluations in a row have found");
    }
    if (info->best_step > 0) {
        launch_writer_result("the model is that after step %" PRIu64
                             ", with the lowest held-out loss: %.4f\n",
                             info->best_step, info->best_loss);
    } else if (job->train.keep_best) {
        launch_writer_result("no evaluation was made (--eval-every %" PRId64
                             "): the model is the last step's, whatever its held-out loss\n",
                             job->infer.eval_every);
    }
}

static void print_training(const launch_options *options, const launch_job_result *result)
{
    const int ranks = (int)options->job.job.world_size;
    const int64_t steps = result->steps_done - (int64_t)result->first_step;
    if (steps > 0) {
        launch_writer_result("loss: %.4f -> %.4f in %" PRId64 " steps\n", result->loss_first,
                             result->loss_last, steps);
    }
    print_best(&options->job, result);
    const bool stages = proto_mode_get(options->job.job.mode)->pipelined;
    if (isfinite(result->tokens_per_second) && stages) {
        char pipelines[96];
        describe_pipelines(&options->job, pipelines, sizeof pipelines);
        launch_writer_result("speed: %.0f tokens/s on %s\n", result->tokens_per_second, pipelines);
    } else if (isfinite(result->tokens_per_second)) {
        launch_writer_result("speed: %.0f tokens/s on %d %s; all-reduce p50 %.3f ms, p95 %.3f ms\n",
                             result->tokens_per_second, ranks, ranks == 1 ? "rank" : "ranks",
                             result->allreduce_ms_p50, result->allreduce_ms_p95);
    }
    const char *equal = byte_equal(result, ranks);
    launch_architecture architecture;
    launch_architecture_find(&options->job.model, &architecture);
    if (equal != NULL && ranks > 1 && launch_architecture_copies(&architecture, &options->job)) {
        launch_writer_result("%s: %s\n", equal_parts(&options->job), equal);
    }
}

static void print_point(const launch_scaling *scaling, const launch_scaling_point *point,
                        bool suspect)
{
    const double speedup = launch_scaling_speedup(scaling->points, scaling->point_count, point);
    char times[64] = "";
    if (point->ranks > 1 && isfinite(speedup) && suspect) {
        (void)snprintf(times, sizeof times, "; the speed-up says nothing");
    } else if (point->ranks > 1 && isfinite(speedup)) {
        (void)snprintf(times, sizeof times, ", %.2f x one rank", speedup);
    }
    launch_writer_result("measured: %.0f tokens/s on %d %s (%.0f to %.0f in %d rounds)%s\n",
                         point->tokens_per_second, point->ranks,
                         point->ranks == 1 ? "rank" : "ranks", point->tokens_per_second_low,
                         point->tokens_per_second_high, point->rounds, times);
}

/* The points, and why they say nothing if that is so. */
static void print_scaling(const launch_scaling *scaling)
{
    char suspect[LAUNCH_SUSPECT_BYTES];
    launch_scaling_suspect(scaling->points, scaling->point_count, suspect);
    for (int i = 0; i < scaling->point_count; i++) {
        print_point(scaling, &scaling->points[i], suspect[0] != '\0');
    }
    if (suspect[0] != '\0') {
        launch_writer_result("suspect: %s\n", suspect);
    }
}

void launch_summary_print(const launch_options *options, const launch_job_result *result,
                          const launch_scaling *scaling, bool recorded)
{
    const bool training = proto_mode_get(options->job.job.mode)->trains;
    if (result->ranks == NULL) {
        return;
    }
    if (!options->quiet && training) {
        print_training(options, result);
        print_scaling(scaling);
    }
    if (!options->quiet && options->job.infer.speculate > 0) {
        print_drafts(&options->job, result);
    }
    if (options->job.infer.eval) {
        print_heldout(&options->job, result);
    }
    if (!options->quiet && recorded) {
        launch_writer_result("record: %s\n", options->job.output.directory);
    }
}
