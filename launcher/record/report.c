/* Writes report.html from the run, its summary and its charts. Called by record.c at the end of a
 * run. */
#include "record/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "record/run_figures.h"
#include "record/stages.h"
#include "record/trace_timeline.h"

/* "2 hosts, 4 ranks × 1 micro-batch". */
static void put_share(const launch_attempt *attempt, base_buffer *text)
{
    base_buffer_printf(text, "%d host%s, %d rank%s × %" PRId64 " micro-batch%s", attempt->hosts,
                       attempt->hosts == 1 ? "" : "s", attempt->ranks,
                       attempt->ranks == 1 ? "" : "s", attempt->micro_batches,
                       attempt->micro_batches == 1 ? "" : "es");
}

/* What happened, where more than one attempt was needed. */
static void put_attempts(const launch_record_end *end, base_buffer *text)
{
    if (end->attempt_count < 2) {
        return;
    }
    const launch_attempt *last = &end->attempts[end->attempt_count - 1];
    base_buffer_printf(text,
                       "<p class=\"sub\">It took %zu attempts (--max-restarts), the first on ",
                       end->attempt_count);
    put_share(end->attempts, text);
    base_buffer_put(text, " and the last on ");
    put_share(last, text);
    const bool planned = last[-1].planned.message[0] != '\0';
    base_buffer_put(text, planned ? "; the one before the last ended as planned, "
                                  : "; the one before the last failed: ");
    base_buffer_html(text, planned ? last[-1].planned.message : last[-1].failure.message);
    base_buffer_put(text, "</p>\n");
}

static void put_head(const launch_run *run, base_buffer *text)
{
    launch_report_begin(text, run->out, run->end->exit_status);
    base_buffer_printf(text, "<p class=\"sub\">%d process%s trained a model of ",
                       (int)run->job->job.world_size, run->job->job.world_size == 1 ? "" : "es");
    base_buffer_count(text, run->end->model_params);
    base_buffer_put(text, " parameters ");
    if (run->job->lora.rank > 0) {
        base_buffer_put(text, "(of adapters alone, ");
        base_buffer_count(text, run->end->trained_params);
        base_buffer_put(text, ") ");
    }
    base_buffer_printf(text, "for %zu step%s, in %.1f s, on ", run->summary->steps_done,
                       run->summary->steps_done == 1 ? "" : "s", run->end->job_seconds);
    launch_report_machine(text, run->info, run->started_at);
    if (run->first_step > 0) {
        base_buffer_printf(text,
                           "<p class=\"sub\">It went on after step %" PRIu64 " (--resume): the "
                           "time is of the rest.%s</p>\n",
                           run->first_step,
                           run->steps->first > 0 ? " This record does not have the steps before it."
                                                 : "");
    }
    put_attempts(run->end, text);
    if (launch_loss_grew(run->summary->loss_first, run->summary->loss_last)) {
        char message[LAUNCH_LOSS_MESSAGE_BYTES];
        launch_loss_message(run->summary->loss_first, run->summary->loss_last, message);
        launch_report_message(text, message);
    }
    launch_report_message(text, run->end->message);
    launch_report_flights(text, run->out);
    launch_report_command(text, run);
}

static void put_speedup_card(double speedup, int ranks, bool is_suspect, base_buffer *text)
{
    const bool known = isfinite(speedup);
    launch_report_card_begin(text, "Speed-up");
    base_buffer_number(text, is_suspect ? (double)NAN : speedup, 2);
    base_buffer_put(text, known && !is_suspect ? "×" : "");
    base_buffer_put(text, "</b><span class=\"more\">");
    if (known && is_suspect) {
        base_buffer_printf(text,
                           "<span class=\"bad\">says nothing: this machine was disturbed</span> "
                           "(%.2f× was measured)",
                           speedup);
    } else if (known) {
        base_buffer_printf(text, "over one process; %.0f %% efficient", 100 * speedup / ranks);
    } else {
        base_buffer_put(text, "one process was not measured");
    }
    base_buffer_put(text, "</span></div>\n");
}

static void put_speed_cards(const launch_run *run, base_buffer *text)
{
    const launch_summary *summary = run->summary;
    const int ranks = (int)run->job->job.world_size;
    launch_report_card_begin(text, "Speed");
    if (isfinite(summary->tokens_per_second)) {
        base_buffer_count(text, (unsigned long long)llround(summary->tokens_per_second));
    } else {
        base_buffer_put(text, "–");
    }
    const launch_scaling_point *own = launch_summary_point(summary, ranks);
    base_buffer_put(text, "</b><span class=\"more\">tokens per second, in the training");
    if (ranks > 1 && own != NULL && own->rounds > 0) {
        base_buffer_put(text, "; measured in turns: ");
        base_buffer_count(text, (unsigned long long)llround(own->tokens_per_second));
    }
    base_buffer_put(text, "</span></div>\n");
    if (ranks > 1) {
        const double speedup =
            own != NULL ? launch_scaling_speedup(summary->scaling, summary->scaling_count, own)
                        : NAN;
        put_speedup_card(speedup, ranks, summary->suspect[0] != '\0', text);
    }
    launch_report_card_begin(text, "Step");
    launch_report_ms(text, summary->mean_step.step_ms, 2);
    base_buffer_put(text, "</b><span class=\"more\">mean; median ");
    launch_report_ms(text, summary->step_ms.p50, 2);
    base_buffer_put(text, "; p95 ");
    launch_report_ms(text, summary->step_ms.p95, 2);
    base_buffer_put(text, "</span></div>\n");
}

/* In a pipeline most of it is the wait for messages of other stages, or for the ranks of the own one. */
static void put_wait_card(const launch_run *run, base_buffer *text)
{
    const launch_breakdown *step = &run->summary->mean_step;
    const double exposed_ms = launch_breakdown_exposed_ms(step);
    const bool stages = proto_mode_get(run->job->job.mode)->pipelined;
    const bool shards = run->job->parallel.zero >= PROTO_ZERO_GRADIENTS;
    launch_report_card_begin(text, shards                           ? "Exchange"
                                   : !stages                        ? "All-reduce"
                                   : proto_job_tensor(run->job) > 1 ? "Waiting for ranks"
                                                                    : "Waiting for stages");
    launch_report_ms(text, exposed_ms, exposed_ms < 1 ? 3 : 2);
    base_buffer_put(text, "</b><span class=\"more\">");
    if (isfinite(exposed_ms)) {
        base_buffer_printf(text, "%s; %.1f %% of a step",
                           stages   ? "mean, with the exchange"
                           : shards ? "mean, of shards; with the waits of forward and backward"
                                    : "mean, after backward",
                           launch_share_percent(exposed_ms, step->step_ms));
    }
    base_buffer_put(text, "</span></div>\n");
}

/* Whether what several ranks hold ended the same. */
static void put_equality_card(const launch_run *run, base_buffer *text)
{
    static const char *const ANSWERS[][2] = {
        {"not known", "not all ranks finished"},
        {"<span class=\"bad\">differ</span>", "the ranks ended with other bits"},
        {"<span class=\"good\">identical</span>", "to the last bit, on all ranks"},
    };
    const int answer = run->summary->byte_equivalent - LAUNCH_UNKNOWN;
    const bool equal = answer == LAUNCH_YES - LAUNCH_UNKNOWN;
    const bool shared = proto_job_tensor(run->job) > 1;
    const bool stages =
        proto_mode_get(run->job->job.mode)->pipelined && proto_job_copies(run->job) == 1 && !shared;
    launch_report_card_begin(text, stages ? "Tied matrix" : "Parameters");
    base_buffer_put(text, ANSWERS[answer][0]);
    launch_report_card_end(text, equal && stages
                                     ? "to the last bit, on the first and the last stage"
                                 : equal && shared ? "to the last bit, in all copies"
                                                   : ANSWERS[answer][1]);
}

/* How far the busiest expert of any layer is from an equal share. */
static void put_experts_card(const launch_experts *of, base_buffer *text)
{
    int busiest = 0;
    for (int i = 1; i < of->load_count; i++) {
        busiest = of->loads[i] > of->loads[busiest] ? i : busiest;
    }
    launch_report_card_begin(text, "Busiest expert");
    base_buffer_printf(text, "%.1f\xc2\xa0%%</b><span class=\"more\">",
                       100 * (double)of->loads[busiest]);
    base_buffer_printf(text,
                       "of layer %d's choices, in the last %llu steps; an equal share is "
                       "%.1f\xc2\xa0%%</span></div>\n",
                       busiest / of->count, (unsigned long long)of->steps, 100.0 / of->count);
}

/* A loss or a perplexity. Where a training diverged it may have dozens of digits. */
static void put_loss(base_buffer *text, double value)
{
    if (isfinite(value) && value >= 1e6) {
        base_buffer_printf(text, "%.4g", value); /* as the last lines of the run */
    } else {
        base_buffer_number(text, value, value >= 1e4 ? 0 : 3);
    }
}

/* What --eval found at the end. */
static void put_heldout_cards(const launch_run *run, base_buffer *text)
{
    const launch_summary *summary = run->summary;
    const bool windows = run->job->data.windows || !proto_job_heldout_has_lines(run->job);
    if (isfinite(summary->eval_loss)) {
        launch_report_card_begin(text, "Held-out loss");
        put_loss(text, summary->eval_loss);
        base_buffer_put(text, "</b><span class=\"more\">of ");
        base_buffer_count(text, summary->eval_measured);
        base_buffer_printf(text, " %s; perplexity ", windows ? "windows" : "sentences");
        put_loss(text, exp(summary->eval_loss));
        if (run->end->ranks != NULL && run->end->ranks->best_step > 0) {
            base_buffer_put(text, "; the best, after step ");
            base_buffer_count(text, run->end->ranks->best_step);
        }
        base_buffer_put(text, "</span></div>\n");
    }
    if (summary->eval_total > 0) {
        launch_report_card_begin(text, "Held-out accuracy");
        base_buffer_printf(text, "%.1f\xc2\xa0%%</b><span class=\"more\">",
                           100 * (double)summary->eval_correct / (double)summary->eval_total);
        base_buffer_count(text, summary->eval_correct);
        base_buffer_put(text, " of ");
        base_buffer_count(text, summary->eval_total);
        base_buffer_put(text, " sentences exact</span></div>\n");
    }
}

static void put_outcome_cards(const launch_run *run, base_buffer *text)
{
    const launch_summary *summary = run->summary;
    if (run->job->job.world_size > 1) {
        put_wait_card(run, text);
    }
    launch_report_card_begin(text, "Loss");
    put_loss(text, summary->loss_last);
    base_buffer_put(text, "</b><span class=\"more\">at the start ");
    put_loss(text, summary->loss_first);
    base_buffer_put(text, "</span></div>\n");
    put_heldout_cards(run, text);
    if (run->end->experts != NULL && run->end->experts->load_count > 0) {
        put_experts_card(run->end->experts, text);
    }
    if (run->job->job.world_size > 1 && launch_architecture_copies(&run->architecture, run->job)) {
        put_equality_card(run, text);
    }
}

/* What ranks exchange inside of forward and backward; NULL: nothing. */
static const char *inner_name(const proto_job *job)
{
    return proto_job_tensor(job) > 1          ? "of this, exchanging within the stage"
           : proto_job_expert_ranks(job) > 1  ? "of this, exchanging rows with experts"
           : proto_job_context_ranks(job) > 1 ? "of this, exchanging heads of attention"
                                              : NULL;
}

static void put_part_cell(base_buffer *text, const char *name, double part_ms, double step_ms)
{
    base_buffer_printf(text, "<td class=\"n\" data-part=\"%s\">", name);
    launch_report_ms(text, part_ms, 3);
    base_buffer_printf(text, " (%.1f\xc2\xa0%%)</td>", launch_share_percent(part_ms, step_ms));
}

static void put_part_row(base_buffer *text, const proto_job *job, const launch_breakdown *breakdown,
                         const char *name)
{
    const double inner_ms = launch_breakdown_inner_ms(breakdown);
    base_buffer_printf(text, "<tr><td>%s</td>", name);
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        put_part_cell(text, launch_part_name(p), breakdown->part_ms[p], breakdown->step_ms);
        if (p == LAUNCH_PART_COMPUTE && inner_name(job) != NULL) {
            put_part_cell(text, inner_name(job), inner_ms, breakdown->step_ms);
        }
    }
    base_buffer_put(text, "<td class=\"n\" data-part=\"step\">");
    launch_report_ms(text, breakdown->step_ms, 3);
    base_buffer_put(text, "</td></tr>\n");
}

static void put_part_rows(const launch_run *run, base_buffer *text)
{
    const launch_summary *summary = run->summary;
    const char *inner = inner_name(run->job);
    const int all = (int)run->job->job.world_size;
    base_buffer_put(text, inner != NULL ? "<div class=\"scroll parts tight stacked\">"
                                        : "<div class=\"scroll parts stacked\">");
    base_buffer_put(text, "<table><thead><tr><th></th>");
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        base_buffer_printf(text, "<th class=\"n\">%s</th>", launch_part_name(p));
        if (p == LAUNCH_PART_COMPUTE && inner != NULL) {
            base_buffer_printf(text, "<th class=\"n\">%s</th>", inner);
        }
    }
    base_buffer_put(text, "<th class=\"n\">step</th></tr></thead><tbody>\n");
    if (all > 1) {
        put_part_row(text, run->job, &summary->mean_step, LAUNCH_LAST_NAME);
    }
    for (int r = 0; r < all && r < LAUNCH_CHART_RANKS_MAX; r++) {
        char name[32];
        (void)snprintf(name, sizeof name, "rank %d", r);
        put_part_row(text, run->job, &summary->ranks[r], name);
    }
    base_buffer_put(text, "</tbody></table></div>");
}

/* How many steps a column of the next chart has. */
static void put_column_steps(size_t steps, base_buffer *text)
{
    const size_t least = steps / LAUNCH_CHART_COLUMNS_MAX;
    if (steps <= LAUNCH_CHART_COLUMNS_MAX) {
        return;
    }
    if (steps % LAUNCH_CHART_COLUMNS_MAX == 0) {
        base_buffer_printf(text, " Each column is the mean of %zu steps.", least);
    } else {
        base_buffer_printf(text, " Each column is the mean of %zu or %zu steps.", least, least + 1);
    }
}

static void put_time_sections(const launch_run *run, base_buffer *text)
{
    chart_figure *figure = launch_step_figure(run);
    const int all = (int)run->job->job.world_size;
    base_buffer_put(text, "<section><h2>Where every millisecond went</h2><p class=\"hintline\">The "
                          "mean step over the last half of the run");
    base_buffer_put(text, all > 1 ? ": the step&rsquo;s time, with the parts of the rank that was "
                                    "the last to arrive at the exchange in each step, because the "
                                    "others wait for that one; and each rank&rsquo;s own."
                                  : ".");
    if (launch_steps_are_uneven(run->summary)) {
        base_buffer_put(text, " ");
        launch_uneven_steps_put(run->summary, text);
    }
    if (proto_mode_get(run->job->job.mode)->on_gpus) {
        base_buffer_put(text, " The step is by the host's clock, its parts are by the GPU's, and "
                              "&ldquo;other&rdquo; is the rest.");
    }
    base_buffer_put(text, "</p>\n");
    chart_figure_svg(text, figure);
    if (all > LAUNCH_CHART_RANKS_MAX) {
        base_buffer_printf(text, "<p class=\"none\">The first %d of %d ranks.</p>\n",
                           LAUNCH_CHART_RANKS_MAX, all);
    }
    if (run->summary->steps_done > 0) {
        put_part_rows(run, text);
    }
    base_buffer_put(text,
                    "</section>\n<section><h2>Step by step</h2><p class=\"hintline\">The same "
                    "parts over the whole run.");
    put_column_steps(run->summary->steps_done, text);
    base_buffer_put(text, "</p>\n");
    chart_figure_key(text, figure);
    free(figure);
    base_buffer_put(text, "<div class=\"scroll wide\">");
    launch_chart_step_times(text, run);
    base_buffer_put(text, "</div></section>\n");
}

/* Draws a figure and frees it. */
static void put_figure(base_buffer *text, chart_figure *figure)
{
    chart_figure_svg(text, figure);
    free(figure);
}

/* What the figure of the scaling curve shows. */
static void put_scaling_caption(const launch_run *run, base_buffer *text)
{
    const launch_summary *summary = run->summary;
    base_buffer_put(text, "Tokens per second with more processes");
    base_buffer_put(text, proto_mode_get(run->job->job.mode)->pipelined
                              ? "."
                              : ", each with a batch of its own.");
    for (int i = 0; i < summary->scaling_count; i++) {
        if (summary->scaling[i].rounds > 1) {
            base_buffer_put(text, " The bars show the slowest and the fastest round.");
            break;
        }
    }
}

static void put_curves(const launch_run *run, base_buffer *text)
{
    base_buffer_put(text,
                    "<div class=\"pair\"><section><h2>What the model learned</h2>"
                    "<p class=\"hintline\">Loss per token over all ranks; lower is better.</p>"
                    "<input type=\"radio\" name=\"axis\" id=\"linear\" checked=\"checked\"/>"
                    "<label for=\"linear\">linear</label>"
                    "<input type=\"radio\" name=\"axis\" id=\"log\"/>"
                    "<label for=\"log\">logarithmic</label>\n<div class=\"linear\">");
    put_figure(text, launch_loss_figure(run, false));
    base_buffer_put(text, "</div><div class=\"log\">");
    put_figure(text, launch_loss_figure(run, true));
    base_buffer_put(text, "</div>");
    put_figure(text, launch_accuracy_figure(run));
    if (run->summary->scaling_count > 1) { /* one number of processes shows no scaling */
        base_buffer_put(text, "</section><section><h2>How it scales</h2><p class=\"hintline\">");
        put_scaling_caption(run, text);
        base_buffer_put(text, "</p>");
        put_figure(text, launch_scaling_figure(run));
    }
    base_buffer_put(text, "</section></div>\n");
}

static base_status put_page(const launch_run *run, const char *manifest, base_buffer *text,
                            base_error *reterr)
{
    put_head(run, text);
    base_buffer_put(text, "<div class=\"cards\">\n");
    put_speed_cards(run, text);
    put_outcome_cards(run, text);
    base_buffer_put(text, "</div>\n");
    launch_report_lesson(text, run->lesson_notes);
    put_time_sections(run, text);
    launch_trace_timeline(run->job, run->trace, text);
    launch_stages_report(run, text);
    put_curves(run, text);
    launch_report_ranks(run, text);
    launch_report_training_terms(text, run->job);
    const base_status status = launch_report_manifest(manifest, text, reterr);
    launch_report_end(text, run->info);
    return status;
}

base_status launch_report_save(const launch_run *run, const char *manifest, const char *directory,
                               base_error *reterr)
{
    base_buffer text = {0};
    base_status status = put_page(run, manifest, &text, reterr);
    if (status == BASE_OK) {
        status = base_buffer_save(&text, directory, "report.html", reterr);
    }
    base_buffer_fini(&text);
    return status;
}
