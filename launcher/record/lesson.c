/* Writes lesson_notes: a paragraph that explains this run's speed from its own figures. Warnings, and then what the run gained and why
 * no more, come first, because the page folds all but the first sentences. Called by record.c. */
#include <inttypes.h>
#include <math.h>

#include "record/run.h"
#include "record/stages.h"

/* Differences below this share of a step are called noise, because the machine may be shared. */
static const double NOISE_SHARE = 0.03;
/* of a loss: something that explains so much of it is called its cause */
static const double EVIDENT_SHARE = 0.5;
static const double STEAL_SHARE = 0.01; /* of CPU time: above this, the host also serves others */
/* load per core: from here on the machine counts as busy */
static const double BUSY_SHARE = 0.5;

static void put_ms(base_buffer *text, double ms)
{
    base_buffer_number(text, ms, ms < 1 ? 3 : 2);
    base_buffer_put(text, " ms");
}

static const char LOCAL_EXCHANGE[] = "exchanging losses, and now and then what ranks have changed";

static const char MUON_EXCHANGE[] = "exchanging gradients, and the matrices that Muon has updated";

/* The parts of the mean step. */
static void put_step(const launch_run *run, base_buffer *text)
{
    static const char *const WORDS[LAUNCH_PARTS] = {
        [LAUNCH_PART_COMPUTE] = "forward and backward",
        [LAUNCH_PART_OVERLAPPED] = "all-reduce calls while backward ran",
        [LAUNCH_PART_EXCHANGE] = "exchanging gradients after it",
        [LAUNCH_PART_WAITING] = "waiting for the last rank to get there",
        [LAUNCH_PART_OPTIMIZER] = "AdamW",
        [LAUNCH_PART_OTHER] = "other work",
    };
    const launch_breakdown *step = &run->summary->mean_step;
    const bool alone = run->job->job.world_size == 1;
    bool first = true;
    const bool stages = proto_mode_get(run->job->job.mode)->pipelined;
    const bool shards = run->job->parallel.zero >= PROTO_ZERO_GRADIENTS;
    const bool local = proto_job_is_local(run->job);
    const bool muon = run->job->train.optimizer == PROTO_OPTIMIZER_MUON;
    base_buffer_put(text, "The mean step took ");
    put_ms(text, step->step_ms);
    base_buffer_put(text, alone ? "" : ", in the rank that arrived last");
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        if (!(step->part_ms[p] > 0)) {
            continue;
        }
        base_buffer_put(text, first ? ": " : p == LAUNCH_PARTS - 1 ? " and " : ", ");
        put_ms(text, step->part_ms[p]);
        base_buffer_printf(text, " (%.1f %%) of %s",
                           launch_share_percent(step->part_ms[p], step->step_ms),
                           shards && p == LAUNCH_PART_EXCHANGE   ? "exchanging shards"
                           : local && p == LAUNCH_PART_EXCHANGE  ? LOCAL_EXCHANGE
                           : muon && p == LAUNCH_PART_EXCHANGE   ? MUON_EXCHANGE
                           : muon && p == LAUNCH_PART_OPTIMIZER  ? "Muon and AdamW"
                           : !stages || p != LAUNCH_PART_WAITING ? WORDS[p]
                           : proto_job_tensor(run->job) > 1      ? "waiting for other ranks"
                                                                 : "waiting for other stages");
        first = false;
    }
    base_buffer_put(text, ". ");
    if (!stages && step->others_waiting_ms > 0) {
        base_buffer_printf(text, "The other rank%s waited for it in the all-reduce, ",
                           run->job->job.world_size > 2 ? "s" : "");
        put_ms(text, step->others_waiting_ms);
        base_buffer_put(text, " in the mean. ");
    }
}

/* What ranks that share batches exchange before attention and behind it. */
static void put_context_ranks(const launch_run *run, base_buffer *text)
{
    const launch_breakdown *step = &run->summary->mean_step;
    const int ranks = (int)proto_job_context_ranks(run->job);
    if (ranks == 1 || !(step->step_ms > 0)) {
        return;
    }
    base_buffer_printf(text,
                       "%d ranks share the tokens of each batch. Of forward and backward, "
                       "exchanging heads with each other around attention took ",
                       ranks);
    put_ms(text, step->context_ms);
    base_buffer_printf(text, " (%.1f %% of the step), waiting for each other included. ",
                       launch_share_percent(step->context_ms, step->step_ms));
}

/* What ranks that share out the experts exchange in front of them and behind. */
static void put_expert_ranks(const launch_run *run, base_buffer *text)
{
    const launch_breakdown *step = &run->summary->mean_step;
    const int ranks = (int)proto_job_expert_ranks(run->job);
    if (ranks == 1 || !(step->step_ms > 0)) {
        return;
    }
    base_buffer_printf(text,
                       "%d ranks share out the experts. Of forward and backward, sending rows to "
                       "experts and back took ",
                       ranks);
    put_ms(text, step->expert_ms);
    base_buffer_printf(text, " (%.1f %% of the step), waiting for each other included. ",
                       launch_share_percent(step->expert_ms, step->step_ms));
    const size_t first = run->summary->measured_first;
    const double busiest =
        launch_steps_busiest_rank(run->steps, first, run->summary->steps_done - first);
    if (isfinite(busiest)) {
        base_buffer_printf(text,
                           "The rank whose experts got the most rows had %.2f times the mean of "
                           "all; the others of a group wait for the one with the most. ",
                           busiest);
    }
}

/* How much of the all-reduce ran behind backward. */
static void put_overlap(const launch_run *run, base_buffer *text)
{
    const launch_breakdown *step = &run->summary->mean_step;
    const double total_ms = launch_breakdown_allreduce_ms(step);
    const double overlapped_ms = step->part_ms[LAUNCH_PART_OVERLAPPED];
    if (!(total_ms > 0)) {
        return;
    }
    base_buffer_put(text, "Inside the collective calls the all-reduce took ");
    put_ms(text, total_ms);
    if (overlapped_ms > 0) {
        base_buffer_printf(text, ", %.0f %% of it while backward still ran. ",
                           launch_share_percent(overlapped_ms, total_ms));
    } else {
        base_buffer_put(text, ", none of it while backward still ran. ");
    }
}

/* One rank alone and all ranks of the job, measured in turns. */
typedef struct comparison {
    const launch_scaling_point *one;
    const launch_scaling_point *all;
    double speedup;
    double longer_ms;             /* how much longer a step of all ranks takes than one of one
                                   * rank; NaN: that says nothing */
    double more_ms[LAUNCH_PARTS]; /* the same by part, of the last to arrive */
    double more_cpu_ms;           /* CPU time of forward and backward; NaN: not known */
    double later_ms;              /* how much later than the mean of all ranks the last one arrives,
                                   * which is a part of its computing */
    bool is_noise;                /* the rounds differ by as much among themselves */
} comparison;

static comparison compare(const launch_run *run, const launch_scaling_point *one)
{
    const launch_summary *summary = run->summary;
    comparison made = {
        .one = one,
        .all = launch_summary_point(summary, (int)run->job->job.world_size),
    };
    made.speedup = launch_scaling_speedup(summary->scaling, summary->scaling_count, made.all);
    made.longer_ms = made.all->mean_step.step_ms - one->mean_step.step_ms;
    made.more_cpu_ms = made.all->mean_step.compute_cpu_ms - one->mean_step.compute_cpu_ms;
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        made.more_ms[p] = made.all->mean_step.part_ms[p] - one->mean_step.part_ms[p];
    }
    made.later_ms = made.all->mean_step.others_waiting_ms * (made.all->ranks - 1) / made.all->ranks;
    made.is_noise =
        made.longer_ms <= NOISE_SHARE * one->mean_step.step_ms ||
        made.all->tokens_per_second_high >= made.all->ranks * one->tokens_per_second_low;
    if (proto_job_context_ranks(run->job) > 1) {
        made.longer_ms = NAN; /* of a part of a batch, beside a whole one */
    }
    return made;
}

static void put_speed(base_buffer *text, const launch_scaling_point *point)
{
    base_buffer_printf(text, "%.0f tokens/s", point->tokens_per_second);
    if (isfinite(point->tokens_per_second_low) && isfinite(point->tokens_per_second_high)) {
        base_buffer_printf(text, " (%.0f to %.0f in %d rounds)", point->tokens_per_second_low,
                           point->tokens_per_second_high, point->rounds);
    }
}

/* The comparison with one process: speed-up and efficiency. Only the speeds if the machine was disturbed. */
static void put_speedup(const comparison *found, bool is_suspect, base_buffer *text)
{
    const int ranks = found->all->ranks;
    base_buffer_put(text, found->all->rounds > 0 ? "Measured in turns after the training, " : "");
    base_buffer_printf(text, "%d processes handled ", ranks);
    put_speed(text, found->all);
    base_buffer_put(text, " where one handled ");
    put_speed(text, found->one);
    if (is_suspect) {
        base_buffer_put(text, ". ");
        return;
    }
    base_buffer_printf(text, ": %.2f times as many, %.0f %% of the ideal %d. ", found->speedup,
                       100 * found->speedup / ranks, ranks);
}

/* What each rank's step gained in length. */
static void put_longer(const comparison *found, base_buffer *text)
{
    const launch_breakdown *one = &found->one->mean_step;
    const launch_breakdown *all = &found->all->mean_step;
    if (!isfinite(found->longer_ms)) {
        return;
    }
    base_buffer_put(text,
                    "Every rank has its own batch, so scaling would be ideal if a step took as "
                    "long as alone, ");
    put_ms(text, one->step_ms);
    if (found->is_noise) {
        base_buffer_put(text, "; it took no longer, within the noise of these measurements. ");
        return;
    }
    base_buffer_put(text, "; it took ");
    put_ms(text, found->longer_ms);
    base_buffer_printf(
        text,
        " more. Forward and backward took %.2f ms alone and take %.2f ms now, of the "
        "rank that arrives last; ",
        one->part_ms[LAUNCH_PART_COMPUTE], all->part_ms[LAUNCH_PART_COMPUTE]);
    base_buffer_put(text, "the all-reduce, which one process never does, costs ");
    put_ms(text, launch_breakdown_allreduce_ms(all));
    base_buffer_put(text, ", and the other ranks wait for the last one for ");
    put_ms(text, all->others_waiting_ms);
    base_buffer_put(text, ". ");
}

static bool is_overloaded(const launch_run *run)
{
    return run->info->load_before > run->info->cpus_online;
}

/* Whether other work had the cores that this run needed. */
static bool is_contended(const launch_run *run)
{
    return run->end->cpus_taken || is_overloaded(run);
}

/* The likeliest cause of a loss, if it is outside of this run. */
static void put_contention(const launch_run *run, base_buffer *text)
{
    const launch_run_info *info = run->info;
    const char *s = info->cpus_online == 1 ? "" : "s";
    if (run->end->cpus_taken) {
        base_buffer_printf(text,
                           "Other jobs held CPUs that these ranks were to have (%s), so the ranks "
                           "were not bound and took turns with them: the likely cause. ",
                           run->end->unbound);
    }
    if (is_overloaded(run)) {
        base_buffer_printf(text,
                           "%s before this run began, the machine had more work than cores (load "
                           "%.1f on %d core%s), so ranks waited for their turn%s. ",
                           run->end->cpus_taken ? "Also" : "Already", info->load_before,
                           info->cpus_online, s, run->end->cpus_taken ? "" : ": the likely cause");
    }
}

/* How much longer than alone the rank computes without a CPU: the time that exceeds its CPU time. NaN:
 * not known. */
static double without_core_ms(const comparison *found)
{
    return found->more_ms[LAUNCH_PART_COMPUTE] + found->more_ms[LAUNCH_PART_OVERLAPPED] -
           found->more_cpu_ms;
}

/* Why forward and backward take longer than alone, as far as there is evidence. */
static void put_slower_compute(const launch_run *run, const comparison *found, base_buffer *text)
{
    const double wall_ms =
        found->more_ms[LAUNCH_PART_COMPUTE] + found->more_ms[LAUNCH_PART_OVERLAPPED];
    const double without_ms = without_core_ms(found);
    const double steal = run->info->steal_share;
    base_buffer_put(text, "slower forward and backward, ");
    if (!isfinite(found->more_cpu_ms)) {
        base_buffer_put(text, "probably because cores that work at once share the memory, the "
                              "last-level cache and the power budget; the ranks' CPU time, which "
                              "would tell that from waiting for a core, was not measured.");
    } else if (without_ms > EVIDENT_SHARE * wall_ms) {
        base_buffer_put(text, "because a rank was without a core for ");
        put_ms(text, without_ms);
        base_buffer_put(text, " a step longer than alone (elapsed time less its CPU time): other "
                              "work or other ranks had the cores.");
    } else if (steal > STEAL_SHARE) {
        base_buffer_printf(text,
                           "probably because the host of this virtual machine gave %.1f %% of the "
                           "CPU time to others (steal time).",
                           100 * steal);
    } else {
        base_buffer_printf(text,
                           "and it is the cores that were slower: CPU time rose from %.2f ms to "
                           "%.2f ms a step",
                           found->one->mean_step.compute_cpu_ms,
                           found->all->mean_step.compute_cpu_ms);
        base_buffer_put(text, isfinite(steal) ? ", with no steal time to speak of" : "");
        base_buffer_put(text, ". Cores that work at once share the memory, the last-level cache "
                              "and the power budget.");
    }
}

/* The causes of a loss: what the ranks had to share. Returns whether other work was named. */
static bool put_cause(const launch_run *run, const comparison *found, base_buffer *text)
{
    const int ranks = found->all->ranks;
    const int cores = run->info->cpus_allowed;
    const double exchange_ms =
        found->more_ms[LAUNCH_PART_OVERLAPPED] + found->more_ms[LAUNCH_PART_EXCHANGE];
    const double waiting_ms = found->later_ms;
    const double compute_ms = found->more_ms[LAUNCH_PART_COMPUTE] - found->later_ms;
    if (ranks > cores && found->speedup <= cores) {
        base_buffer_printf(text,
                           "%d ranks share %d core%s, so they take turns and more processes cannot "
                           "add speed: the ideal here is %d times one process, not %d.",
                           ranks, cores, cores == 1 ? "" : "s", cores, ranks);
        return false;
    }
    if (!isfinite(found->longer_ms) || found->is_noise) {
        return false; /* the loss is within the noise */
    }
    if (found->speedup <= 1) {
        base_buffer_put(text, "More processes were slower than one here: a step took so much "
                              "longer that the extra batches did not make up for it. ");
    }
    put_contention(run, text);
    base_buffer_put(text, is_contended(run) ? "Beside that, the largest loss is "
                                            : "The largest loss is ");
    if (compute_ms >= exchange_ms && compute_ms >= waiting_ms) {
        put_slower_compute(run, found, text);
    } else if (exchange_ms >= waiting_ms && proto_job_is_local(run->job)) {
        base_buffer_printf(text,
                           "the exchange of %.2f MB every %" PRId64
                           " steps; --local-steps can make it rarer.",
                           (double)run->end->trained_params * sizeof(float) / 1e6,
                           proto_job_local_steps(run->job));
    } else if (exchange_ms >= waiting_ms) {
        base_buffer_printf(text,
                           "the exchange of %.2f MB of gradients a step; a larger batch would "
                           "spread it over more tokens.",
                           (double)run->end->trained_params * sizeof(float) / 1e6);
    } else {
        base_buffer_put(text, "waiting: in each step all ranks wait for the one that ends backward "
                              "last");
        if (without_core_ms(found) > EVIDENT_SHARE * waiting_ms) {
            base_buffer_put(text, ", which was without a core for ");
            put_ms(text, without_core_ms(found));
            base_buffer_put(text, " a step longer than alone (elapsed time less its CPU time)");
        }
        base_buffer_put(text, ".");
    }
    return is_contended(run);
}

/* Between two sentences there is one space, and none at the end of the last. */
static void trim(base_buffer *text)
{
    while (text->length_bytes > 0 && text->data[text->length_bytes - 1] == ' ') {
        text->data[--text->length_bytes] = '\0';
    }
}

static void put_space(base_buffer *text)
{
    trim(text);
    base_buffer_put(text, text->length_bytes > 0 ? " " : "");
}

/* Why there is no comparison. */
static void put_not_measured(const launch_run *run, base_buffer *text)
{
    const launch_record_end *end = run->end;
    const char *reason = NULL;
    for (int i = 0; i < end->scaling_failed_count; i++) {
        reason = end->scaling_failed[i].ranks == 1 ? end->scaling_failed[i].reason : reason;
    }
    base_buffer_printf(text, "%d processes together handled %.0f tokens/s. ",
                       (int)run->job->job.world_size, run->summary->tokens_per_second);
    if (reason != NULL) {
        base_buffer_printf(text,
                           "Measuring one process alone failed (%s), so their speed-up is not "
                           "known.",
                           reason);
    } else {
        base_buffer_put(text,
                        "One process alone was not measured, so their speed-up is not known.");
    }
}

/* A warning if other work had the machine, unless the text says so already. */
static void put_load(const launch_run *run, base_buffer *text)
{
    const double load = run->info->load_before;
    if (run->end->cpus_taken) {
        base_buffer_printf(text,
                           "The ranks had no CPUs of their own, which other jobs held (%s), so "
                           "these times say less than they could. ",
                           run->end->unbound);
    }
    if (load > BUSY_SHARE * run->info->cpus_online) {
        base_buffer_printf(text,
                           "The machine was busy with other work when this run began (load %.1f on "
                           "%d core%s), so these times say less than they could. ",
                           load, run->info->cpus_online, run->info->cpus_online == 1 ? "" : "s");
    }
}

/* What several ranks gained over one, and why no more; then what that took of a step. */
static void put_against_one(const launch_run *run, base_buffer *text)
{
    const launch_scaling_point *one = launch_summary_point(run->summary, 1);
    if (one == NULL || !(one->tokens_per_second > 0)) {
        put_load(run, text);
        put_not_measured(run, text);
        put_space(text);
        return;
    }
    const comparison found = compare(run, one);
    const bool is_suspect = run->summary->suspect[0] != '\0';
    base_buffer cause = {0};
    const bool named = !is_suspect && put_cause(run, &found, &cause);
    if (!named) {
        put_load(run, text);
    }
    put_speedup(&found, is_suspect, text);
    base_buffer_put(text, cause.data != NULL ? cause.data : "");
    text->failed = text->failed || cause.failed;
    base_buffer_fini(&cause);
    put_space(text);
    if (!is_suspect) {
        put_longer(&found, text);
    }
}

void launch_lesson_write(const launch_run *run, base_buffer *text)
{
    const launch_summary *summary = run->summary;
    const int ranks = (int)run->job->job.world_size;
    if (summary->steps_done == 0 || !isfinite(summary->tokens_per_second)) {
        base_buffer_put(text, "No step was finished by every rank, so nothing was measured.");
        return;
    }
    base_buffer_put(text, summary->suspect);
    put_space(text);
    if (launch_steps_are_uneven(summary)) {
        launch_uneven_steps_put(summary, text);
        put_space(text);
    }
    if (proto_mode_get(run->job->job.mode)->pipelined) {
        put_load(run, text);
        launch_stages_lesson(run, text);
        put_space(text);
        put_step(run, text);
    } else if (ranks == 1) {
        put_load(run, text);
        base_buffer_printf(text,
                           "One process alone handled %.0f tokens/s; it has nobody to exchange "
                           "gradients with. --ranks 2 shows what a second process adds. ",
                           summary->tokens_per_second);
        put_step(run, text);
    } else {
        put_against_one(run, text);
        put_step(run, text);
        put_context_ranks(run, text);
        put_expert_ranks(run, text);
        put_overlap(run, text);
    }
    trim(text);
}
