/* lesson_notes: what this run teaches, told from its own figures. */
#include <math.h>
#include <stdlib.h>

#include "record/run.h"

/* Differences below this share of a step are noise on a shared machine, and said to be. */
static const double NOISE_SHARE = 0.03;
static const double BUSY_SHARE = 0.5; /* load per core from which a machine counts as busy */

static void put_ms(launch_text *text, double ms)
{
    launch_text_number(text, ms, ms < 1 ? 3 : 2);
    launch_text_put(text, " ms");
}

/* Where the median step of this run went. */
static void tell_step(const launch_run *run, launch_text *text)
{
    const launch_summary *summary = run->summary;
    const double step_ms = summary->step_ms.p50;
    launch_text_put(text, "The median step took ");
    put_ms(text, step_ms);
    launch_text_put(text, ": ");
    put_ms(text, summary->compute_ms.p50);
    launch_text_printf(text, " (%.1f %%) of forward and backward, ",
                       launch_share_percent(summary->compute_ms.p50, step_ms));
    put_ms(text, summary->exposed_ms.p50);
    launch_text_printf(text, " (%.1f %%) of waiting for the all-reduce and ",
                       launch_share_percent(summary->exposed_ms.p50, step_ms));
    put_ms(text, summary->optimizer_ms.p50);
    launch_text_printf(text, " (%.1f %%) of AdamW. ",
                       launch_share_percent(summary->optimizer_ms.p50, step_ms));
}

/* How much of the all-reduce ran behind backward. */
static void tell_overlap(const launch_run *run, launch_text *text)
{
    const double total_ms = run->summary->allreduce_ms.p50;
    const double exposed_ms = run->summary->exposed_ms.p50;
    if (!(total_ms > 0)) {
        return;
    }
    launch_text_put(text, "Inside the collective calls the all-reduce took ");
    put_ms(text, total_ms);
    if (exposed_ms < total_ms) {
        launch_text_printf(text, ", %.0f %% of it while backward still ran. ",
                           launch_share_percent(total_ms - exposed_ms, total_ms));
    } else {
        launch_text_put(text, ", none of it while backward still ran. ");
    }
}

/* The comparison with one process: speed-up, efficiency, and what each rank's step gained. */
static void tell_scaling(const launch_run *run, const launch_scaling_point *one, launch_text *text)
{
    const launch_summary *summary = run->summary;
    const int ranks = (int)run->job->world_size;
    const double speedup = summary->tokens_per_second / one->tokens_per_second;
    launch_text_printf(text,
                       "%d processes handled %.0f tokens/s where one handled %.0f: %.2f times as "
                       "many, %.0f %% of the ideal %d. ",
                       ranks, summary->tokens_per_second, one->tokens_per_second, speedup,
                       100 * speedup / ranks, ranks);
    const double longer_ms = summary->step_ms.p50 - one->step_ms_p50;
    const double compute_ms = summary->compute_ms.p50 - one->compute_ms_p50;
    if (!isfinite(longer_ms) || !isfinite(compute_ms)) {
        return;
    }
    launch_text_put(text,
                    "Every rank has its own batch, so scaling would be ideal if a step took as "
                    "long as alone, ");
    put_ms(text, one->step_ms_p50);
    if (longer_ms <= NOISE_SHARE * one->step_ms_p50) {
        launch_text_put(text, "; it took no longer, within the noise of a shared machine. ");
        return;
    }
    launch_text_put(text, "; it took ");
    put_ms(text, longer_ms);
    launch_text_printf(text,
                       " more. Forward and backward took %.2f ms alone and take %.2f ms now; ",
                       one->compute_ms_p50, summary->compute_ms.p50);
    launch_text_put(text, "waiting for the all-reduce, which one process never does, costs ");
    put_ms(text, summary->exposed_ms.p50);
    launch_text_put(text, ". ");
}

static bool is_overloaded(const launch_run *run)
{
    return run->facts->load_before > run->facts->cpus_online;
}

/* Other work had the cores that this run needed. */
static bool is_contended(const launch_run *run)
{
    return run->end->cpus_taken || is_overloaded(run);
}

/* The likeliest cause of a loss, where there is one outside of this run. */
static void tell_contention(const launch_run *run, launch_text *text)
{
    const launch_facts *facts = run->facts;
    const char *s = facts->cpus_online == 1 ? "" : "s";
    if (run->end->cpus_taken) {
        launch_text_printf(text,
                           "Other jobs held CPUs that these ranks were to have (%s), so the ranks "
                           "were not bound and took turns with them: the likely cause. ",
                           run->end->unbound);
    }
    if (is_overloaded(run)) {
        launch_text_printf(text,
                           "%s before this run began, the machine had more work than cores (load "
                           "%.1f on %d core%s), so ranks waited for their turn%s. ",
                           run->end->cpus_taken ? "Also" : "Already", facts->load_before,
                           facts->cpus_online, s, run->end->cpus_taken ? "" : ": the likely cause");
    }
}

/* Why: what the ranks had to share. Whether other work was named. */
static bool tell_cause(const launch_run *run, const launch_scaling_point *one, launch_text *text)
{
    const launch_summary *summary = run->summary;
    const int ranks = (int)run->job->world_size;
    const int cores = run->facts->cpus_allowed;
    const double lost_compute_ms = summary->compute_ms.p50 - one->compute_ms_p50;
    const double speedup = summary->tokens_per_second / one->tokens_per_second;
    if (ranks > cores && speedup <= cores) {
        launch_text_printf(text,
                           "%d ranks share %d core%s, so they take turns and more processes cannot "
                           "add speed: the ideal here is %d times one process, not %d.",
                           ranks, cores, cores == 1 ? "" : "s", cores, ranks);
        return false;
    }
    if (!isfinite(lost_compute_ms) ||
        !(summary->step_ms.p50 > (1 + NOISE_SHARE) * one->step_ms_p50)) {
        return false; /* nothing was lost that could be told from noise */
    }
    if (summary->tokens_per_second <= one->tokens_per_second) {
        launch_text_put(text,
                        "More processes were slower than one here: what a step gained in length "
                        "outweighs the extra batches. ");
    }
    tell_contention(run, text);
    launch_text_put(text,
                    is_contended(run) ? "Beside that, the larger loss is " : "The larger loss is ");
    if (summary->exposed_ms.p50 > lost_compute_ms) {
        launch_text_printf(text,
                           "the exchange of %.2f MB of gradients a step; a larger batch would "
                           "spread it over more tokens.",
                           (double)run->end->model_params * sizeof(float) / 1e6);
    } else {
        launch_text_put(text, "that cores which work at once share the memory, the last-level "
                              "cache and the power budget, so each computes slower than alone.");
    }
    return is_contended(run);
}

/* Sentences end with a space; the last one need not. */
static void trim(launch_text *text)
{
    while (text->length_bytes > 0 && text->data[text->length_bytes - 1] == ' ') {
        text->data[--text->length_bytes] = '\0';
    }
}

/* Why there is nothing to compare with. */
static void tell_not_measured(const launch_run *run, launch_text *text)
{
    const launch_record_end *end = run->end;
    const char *reason = NULL;
    for (int i = 0; i < end->scaling_failed_count; i++) {
        reason = end->scaling_failed[i].ranks == 1 ? end->scaling_failed[i].reason : reason;
    }
    launch_text_printf(text, "%d processes together handled %.0f tokens/s. ",
                       (int)run->job->world_size, run->summary->tokens_per_second);
    if (reason != NULL) {
        launch_text_printf(text,
                           "Measuring one process alone failed (%s), so their speed-up is not "
                           "known.",
                           reason);
    } else {
        launch_text_put(text,
                        "One process alone was not measured, so their speed-up is not known.");
    }
}

/* Whether other work on the machine was told to be the cause. */
static bool tell_against_one(const launch_run *run, launch_text *text)
{
    const launch_scaling_point *one = launch_summary_point(run->summary, 1);
    if (one == NULL || !(one->tokens_per_second > 0)) {
        tell_not_measured(run, text);
        return false;
    }
    tell_scaling(run, one, text);
    return tell_cause(run, one, text);
}

/* A warning where other work had the machine, unless that is told already. */
static void tell_load(const launch_run *run, launch_text *text)
{
    const double load = run->facts->load_before;
    if (run->end->cpus_taken) {
        launch_text_printf(text,
                           " The ranks had no CPUs of their own, which other jobs held (%s), so "
                           "these times say less than they could.",
                           run->end->unbound);
    }
    if (load > BUSY_SHARE * run->facts->cpus_online) {
        launch_text_printf(
            text,
            " The machine was busy with other work when this run began (load %.1f on "
            "%d core%s), so these times say less than they could.",
            load, run->facts->cpus_online, run->facts->cpus_online == 1 ? "" : "s");
    }
}

void launch_lesson_write(const launch_run *run, launch_text *text)
{
    const launch_summary *summary = run->summary;
    const int ranks = (int)run->job->world_size;
    bool told = false;
    if (summary->steps_done == 0 || !isfinite(summary->tokens_per_second)) {
        launch_text_put(text, "No step was finished by every rank, so nothing was measured.");
        return;
    }
    tell_step(run, text);
    if (ranks == 1) {
        launch_text_printf(text,
                           "One process alone handled %.0f tokens/s; it has nobody to exchange "
                           "gradients with. --ranks 2 shows what a second process adds.",
                           summary->tokens_per_second);
    } else {
        tell_overlap(run, text);
        told = tell_against_one(run, text);
    }
    trim(text);
    if (!told) {
        tell_load(run, text);
    }
}
