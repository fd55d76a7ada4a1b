/* Writes lesson_notes of an inference run from its own figures. Warnings come first, then what the ranks gain, because the page folds
 * all but the first sentences. Called by inference.c for the manifest and the report. */
#include "record/inference_lesson.h"

#include <math.h>

static const double EVEN = 0.03;        /* speeds that differ by less are the same */
static const double BUSY_SHARE = 0.5;   /* load per CPU from which a machine counts as busy */
static const double STEAL_SHARE = 0.01; /* of CPU time: from here on the host has others to serve */

static void put_ms(base_buffer *text, double ms)
{
    base_buffer_number(text, ms, ms < 1 ? 4 : 2);
    base_buffer_put(text, " ms");
}

void launch_inference_put_reduces(const launch_inference_figures *figures, base_buffer *text)
{
    const double texts = launch_inference_texts_a_step(figures);
    const bool whole = fabs(texts - round(texts)) < 0.05;
    base_buffer_number(text, launch_inference_reduces_a_step(figures), 0);
    base_buffer_put(text, " all-reduces a step, for ");
    base_buffer_number(text, texts, whole ? 0 : 1);
    base_buffer_put(text, whole && round(texts) == 1 ? " text"
                          : whole                    ? " texts"
                                                     : " texts on average");
}

/* The parts of a token's time, as the mean of all ranks. */
static void put_token(const launch_inference_figures *of, base_buffer *text)
{
    const launch_inference_rank *mean = &of->mean;
    base_buffer_printf(text, " %s token of this model (%.2f M parameters) takes %d %s ",
                       of->rounds > 1 ? "In the first round, which alone is taken apart, a" : "A",
                       of->parameters / 1e6, of->rank_count,
                       of->rank_count == 1 ? "rank" : "ranks");
    put_ms(text, mean->step_ms);
    if (of->rank_count == 1) {
        base_buffer_put(text, ", and nothing is exchanged.");
        return;
    }
    base_buffer_put(text, ": ");
    put_ms(text, mean->compute_ms);
    base_buffer_put(text, " of computing, and ");
    put_ms(text, mean->all_reduce_ms + mean->gather_ms);
    base_buffer_printf(text, " (%.1f %%) in exchanges",
                       100 * launch_inference_exchange_share(mean));
    if (isfinite(mean->reduce_waiting_ms)) {
        base_buffer_put(text, ", of which ");
        put_ms(text, mean->reduce_transfer_ms + mean->gather_transfer_ms);
        base_buffer_put(text, " move bytes and ");
        put_ms(text, mean->reduce_waiting_ms + mean->gather_waiting_ms);
        base_buffer_put(text, " are waiting for another rank");
    }
    base_buffer_put(text, ".");
}

/* What ranks exchange for a token, and who is late. */
static void put_exchanges(const launch_inference_figures *of, base_buffer *text)
{
    base_buffer_put(text, " There are ");
    launch_inference_put_reduces(of, text);
    base_buffer_printf(text, ": for each token %.0f bytes.", of->all_reduce_bytes);
    if (of->slowest >= 0) {
        const launch_inference_rank *slowest = &of->ranks[of->slowest];
        base_buffer_printf(text,
                           " Rank %d is the slowest in %.0f of %.0f steps, and costs the "
                           "others ",
                           of->slowest, slowest->slowest_in_steps, slowest->steps);
        put_ms(text, slowest->held_up_ms);
        base_buffer_put(text, " a token.");
    }
}

/* How many times as fast the ranks are as one. */
static void put_speedup(const launch_inference_figures *of, base_buffer *text)
{
    const bool even = fabs(of->speedup - 1) < EVEN;
    const bool faster = of->speedup > 1;
    base_buffer_put(text, " The time from one token of a text to the next is ");
    put_ms(text, of->tp.per_token_ms.median);
    base_buffer_put(text, ", on one rank alone ");
    put_ms(text, of->single.per_token_ms.median);
    if (of->rounds > 1) {
        base_buffer_printf(text, " (medians of %d rounds)", of->rounds);
    }
    if (even) {
        base_buffer_put(text, ": no difference that these figures can show.");
    } else {
        base_buffer_printf(text, ": the ranks together are %.2f times as %s.",
                           faster ? of->speedup : 1 / of->speedup, faster ? "fast" : "slow");
    }
}

/* Why: cutting the model saves computing, and exchanging costs time. */
static void put_saving(const launch_inference_figures *of, base_buffer *text)
{
    const double single_ms = 1000 / of->single.first_tokens_per_s;
    const double saved_ms = single_ms - of->mean.compute_ms;
    const double cost_ms = of->mean.all_reduce_ms + of->mean.gather_ms;
    if (!isfinite(saved_ms)) {
        return;
    }
    base_buffer_put(text, of->rounds > 1 ? " In the first round a rank alone spends "
                                         : " Alone, a rank spends ");
    put_ms(text, single_ms);
    base_buffer_put(text, " on a token; together, each computes for ");
    put_ms(text, of->mean.compute_ms);
    base_buffer_put(text, saved_ms > 0 ? ", which saves " : ", which is no saving (");
    put_ms(text, saved_ms > 0 ? saved_ms : -saved_ms);
    base_buffer_put(text,
                    saved_ms > 0 ? ", and the exchanges cost " : " more), and the exchanges cost ");
    put_ms(text, cost_ms);
    base_buffer_put(text, saved_ms > cost_ms ? ": less than is saved." : ": more than is saved.");
}

static void put_curve(const launch_inference_figures *of, base_buffer *text)
{
    const launch_curve *curve = &of->curve;
    const launch_curve_point *first = NULL;
    const launch_curve_point *last = NULL;
    for (int i = 0; i < curve->point_count; i++) {
        const launch_curve_point *point = &curve->points[i];
        if (isfinite(point->single_ms) && isfinite(point->tp_ms)) {
            first = first == NULL ? point : first;
            last = point;
        }
    }
    base_buffer_put(text, " What a rank need not read grows with the square of the width, what is "
                          "exchanged with the width alone: larger models gain more.");
    if (first != NULL && first != last) {
        base_buffer_printf(
            text,
            " Models of %.0f layers show it here: at d_model %.0f, %d ranks are %.2f times as fast "
            "as one, at d_model %.0f %.2f times.",
            curve->layers, first->d_model, curve->ranks, first->single_ms / first->tp_ms,
            last->d_model, last->single_ms / last->tp_ms);
    }
    if (isfinite(curve->crossover_d_model)) {
        base_buffer_printf(text, " They draw level at d_model %.0f", curve->crossover_d_model);
        if (isfinite(curve->predicted_crossover_d_model)) {
            base_buffer_printf(text, "; the cost model says %.0f",
                               curve->predicted_crossover_d_model);
        }
        base_buffer_put(text, ".");
    } else if (launch_curve_no_crossover(curve) != NULL) {
        base_buffer_printf(text, " %s", launch_curve_no_crossover(curve));
    }
}

static void put_replicas(const launch_inference_figures *of, base_buffer *text)
{
    const double replicas = of->replicas.tokens_per_s.median;
    const double together = of->tp.tokens_per_s.median;
    if (!isfinite(replicas) || !isfinite(together)) {
        return;
    }
    const bool replicas_win = replicas > together;
    base_buffer_printf(text,
                       " As replicas the ranks draw %.0f tokens/s, as one tensor-parallel model "
                       "%.0f: for many prompts %s",
                       replicas, together,
                       replicas_win ? "replicas are the better choice, as long as the model fits "
                                      "on a rank"
                                    : "tensor parallelism is the better choice, too");
    base_buffer_put(text, of->tp.per_token_ms.median < of->replicas.per_token_ms.median
                              ? "; tensor parallel, each text comes sooner."
                              : ", and tensor parallel no text comes sooner.");
}

/* Ranks wait for a rank that has no core, and each exchange then takes as long as that. */
static void tell_machine(const launch_run_info *info, base_buffer *text)
{
    if (info->load_before > BUSY_SHARE * info->cpus_allowed) {
        base_buffer_printf(text,
                           " Before the run the machine's load was %.1f, on %d CPUs: other work "
                           "used them, and these figures are not what the ranks can do alone.",
                           info->load_before, info->cpus_allowed);
    }
    if (info->steal_share > STEAL_SHARE) {
        base_buffer_printf(text,
                           " The virtual machine's host gave %.1f %% of its CPU time to others.",
                           100 * info->steal_share);
    }
}

void launch_inference_lesson(const launch_inference_figures *figures, const char *suspect,
                             const launch_run_info *info, base_buffer *text)
{
    const bool several = figures->rank_count > 1;
    const bool compared = several && isfinite(figures->speedup);
    base_buffer body = {0};
    if (suspect != NULL) {
        base_buffer_printf(&body, " The speed-up is suspect: %s", suspect);
    }
    tell_machine(info, &body);
    if (compared) {
        put_speedup(figures, &body);
        put_saving(figures, &body);
    }
    put_token(figures, &body);
    if (several && !compared) {
        base_buffer_put(&body,
                        " Without --baseline nothing says whether that is faster than one rank.");
    }
    if (several) {
        put_exchanges(figures, &body);
        put_curve(figures, &body);
        put_replicas(figures, &body);
    }
    base_buffer_put(text, body.data != NULL ? body.data + 1 : ""); /* without the first space */
    text->failed = text->failed || body.failed;
    base_buffer_fini(&body);
}
