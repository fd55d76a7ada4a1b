/* report.html of an inference run: the texts, where a token's time went on each rank, and how it
 * scales. Called by inference.c at the end of a job. */
#include "record/inference_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/inference_lesson.h"
#include "record/report.h"
#include "record/trace_timeline.h"

enum {
    PROMPTS_SHOWN = 256,
    PARTS = 5,
    TERMS_OF_ONE_RANK = 5, /* the first ones; the others are of exchanges */
};

static const double TEXTS_TOGETHER = 1.05; /* a step has several texts if it has more */

/* The parts of a token's time on a rank, and the colour of each. */
static const struct {
    const char *name;
    const char *colour;
} parts[PARTS] = {
    {"computing", "compute"},           {"all-reduce, moving bytes", "exchange"},
    {"all-reduce, waiting", "waiting"}, {"exchange of candidates", "optimizer"},
    {"all-reduce", "exchange"}, /* if the two above are not known */
};

static void parts_of(const launch_inference_rank *rank, double ms[PARTS])
{
    const bool known = isfinite(rank->reduce_waiting_ms);
    ms[0] = rank->compute_ms;
    ms[1] = known ? rank->reduce_transfer_ms : 0;
    ms[2] = known ? rank->reduce_waiting_ms : 0;
    ms[3] = rank->gather_ms;
    ms[4] = known ? 0 : rank->all_reduce_ms;
}

static void put_ms_cell(base_buffer *text, double ms)
{
    base_buffer_put(text, "<td class=\"n\">");
    launch_report_ms(text, ms, ms < 1 ? 4 : 2);
    base_buffer_put(text, "</td>");
}

static void put_head(const launch_inference_view *view, base_buffer *text)
{
    const launch_inference *run = view->run;
    const int ranks = (int)run->job->job.world_size;
    const size_t prompts = json_array_size(json_object_get(view->results, "prompts"));
    const launch_run line = {.argc = run->argc, .argv = run->argv};
    launch_report_begin(text, run->job->output.directory, run->exit_status);
    base_buffer_printf(text,
                       "<p class=\"sub\">%d process%s answered %zu prompt%s with one model of ",
                       ranks, ranks == 1 ? "" : "es", prompts, prompts == 1 ? "" : "s");
    base_buffer_count(text, (unsigned long long)view->figures->parameters);
    base_buffer_printf(text, " parameters%s, in %.1f s, on ",
                       ranks == 1 ? "" : ", cut between them", run->job_seconds);
    launch_report_machine(text, view->info, run->started_at);
    launch_report_message(text, run->message);
    launch_report_flights(text, run->job->output.directory);
    launch_report_command(text, &line);
}

static void put_speed_cards(const launch_inference_figures *of, base_buffer *text)
{
    const double shown_ms = of->tp.per_token_ms.median;
    launch_report_card_begin(text, "Token");
    launch_report_ms(text, shown_ms, shown_ms < 1 ? 3 : 2);
    launch_report_card_end(text, of->rounds > 1
                                     ? "from one token of a text to the next; median of the rounds"
                                     : "from one token of a text to the next; mean");
    launch_report_card_begin(text, "First token");
    launch_report_ms(text, of->tp.ttft_ms, 2);
    launch_report_card_end(text, "from the prompt's first step; mean");
    launch_report_card_begin(text, "Speed");
    base_buffer_number(text, of->tp.tokens_per_s.median, 0);
    launch_report_card_end(text, "tokens per second, of all texts");
}

/* Of several ranks over one. */
static void put_speedup_card(const launch_inference_figures *of, const char *suspect,
                             base_buffer *text)
{
    char more[128];
    if (of->rank_count < 2) {
        return;
    }
    launch_report_card_begin(text, "Speed-up");
    base_buffer_number(text, suspect != NULL ? (double)NAN : of->speedup, 2);
    base_buffer_put(text, isfinite(of->speedup) && suspect == NULL ? "×" : "");
    if (suspect != NULL) {
        (void)snprintf(more, sizeof more,
                       "<span class=\"bad\">suspect, see below</span> (%.2f× was measured)",
                       of->speedup);
    } else if (of->rounds > 1) {
        (void)snprintf(more, sizeof more, "of a token's time, over one rank; median of %d rounds",
                       of->rounds);
    } else {
        (void)snprintf(more, sizeof more, "%s",
                       isfinite(of->speedup) ? "of a token's time, over one rank"
                                             : "one rank was not measured (--baseline)");
    }
    launch_report_card_end(text, more);
}

static void put_exchange_cards(const launch_inference_figures *of, base_buffer *text)
{
    char more[128];
    base_buffer reduces = {0};
    if (of->rank_count < 2) {
        return;
    }
    const launch_inference_rank *mean = &of->mean;
    launch_report_card_begin(text, "Communication");
    base_buffer_number(text, 100 * launch_inference_exchange_share(mean), 1);
    base_buffer_put(text, "\xc2\xa0%");
    base_buffer_put(&reduces, "of the ranks' time; ");
    launch_inference_put_reduces(of, &reduces);
    launch_report_card_end(text, reduces.failed ? "" : reduces.data);
    base_buffer_fini(&reduces);
    launch_report_card_begin(text, "Waited for most");
    if (of->slowest >= 0) {
        base_buffer_printf(text, "rank %d", of->slowest);
        (void)snprintf(more, sizeof more, "costs the others %.4f ms a token",
                       of->ranks[of->slowest].held_up_ms);
    } else {
        base_buffer_put(text, "–");
        (void)snprintf(more, sizeof more, "not known");
    }
    launch_report_card_end(text, more);
}

static void put_draft_card(const launch_inference_rank *mean, base_buffer *text)
{
    char more[128];
    (void)snprintf(more, sizeof more,
                   "of %.0f drafted tokens were right; %.2f tokens of a text a step", mean->drafted,
                   mean->tokens_per_step);
    launch_report_card_begin(text, "Drafts");
    base_buffer_number(text, 100 * mean->accepted / mean->drafted, 1);
    base_buffer_put(text, mean->drafted > 0 ? "\xc2\xa0%" : "");
    launch_report_card_end(text, more);
}

static void put_bars(const launch_inference_figures *of, base_buffer *text)
{
    chart_figure *figure = chart_figure_make("Mean time of a token by rank, in parts",
                                             "ms per token", "ms", PARTS, LAUNCH_CHART_RANKS_MAX);
    if (figure == NULL) {
        text->failed = true;
        return;
    }
    figure->width = CHART_WIDTH;
    for (int p = 0; p < PARTS; p++) {
        (void)chart_figure_add(figure, parts[p].name, parts[p].colour, CHART_STROKE_BAR);
    }
    for (int r = 0; r < of->rank_count && r < LAUNCH_CHART_RANKS_MAX; r++) {
        char name[16];
        double ms[PARTS];
        (void)snprintf(name, sizeof name, "rank %d", r);
        parts_of(&of->ranks[r], ms);
        chart_figure_add_row(figure, name, ms);
    }
    chart_figure_svg(text, figure);
    free(figure);
}

/* What a rank alone does not do. */
static void put_exchange_cells(const launch_inference_rank *rank, base_buffer *text)
{
    put_ms_cell(text, rank->reduce_transfer_ms);
    put_ms_cell(text, rank->reduce_waiting_ms);
    put_ms_cell(text, rank->gather_ms);
    base_buffer_put(text, "<td class=\"n\">");
    if (isfinite(rank->slowest_in_steps)) {
        base_buffer_printf(text, "%.0f of %.0f steps", rank->slowest_in_steps, rank->steps);
    } else {
        base_buffer_put(text, "–");
    }
    base_buffer_put(text, "</td>");
    put_ms_cell(text, rank->held_up_ms);
}

static void put_rank_rows(const launch_inference_view *view, base_buffer *text)
{
    const launch_inference_figures *of = view->figures;
    const bool several = of->rank_count > 1;
    base_buffer_put(text,
                    "<div class=\"scroll wide parts\"><table><thead><tr><th class=\"n\">rank</th>"
                    "<th class=\"n\">first token</th><th class=\"n\">a token, mean</th>"
                    "<th class=\"n\">computing</th>");
    base_buffer_put(text, several ? "<th class=\"n\">moving bytes</th><th class=\"n\">waiting</th>"
                                    "<th class=\"n\">candidates</th><th class=\"n\">slowest in</th>"
                                    "<th class=\"n\">cost to others</th>"
                                  : "");
    base_buffer_put(text, "<th class=\"n\">weights</th><th class=\"n\">cache</th>"
                          "<th class=\"n\">peak memory</th></tr></thead><tbody>\n");
    for (int r = 0; r < of->rank_count; r++) {
        const launch_inference_rank *rank = &of->ranks[r];
        base_buffer_printf(text, "<tr><td class=\"n\">%d</td>", r);
        put_ms_cell(text, rank->ttft_ms);
        put_ms_cell(text, rank->per_token_ms);
        put_ms_cell(text, rank->compute_ms);
        if (several) {
            put_exchange_cells(rank, text);
        }
        base_buffer_printf(text,
                           "<td class=\"n\">%.2f MB</td><td class=\"n\">%.2f MB</td>"
                           "<td class=\"n\">%.0f MB</td></tr>\n",
                           rank->weight_bytes / 1e6, rank->cache_bytes / 1e6,
                           rank->max_rss_bytes / 1e6);
    }
    base_buffer_put(text, "</tbody></table></div>");
}

static void put_ranks(const launch_inference_view *view, base_buffer *text)
{
    base_buffer_printf(
        text,
        "<section><h2>Where a token's time went</h2><p class=\"hintline\">On each "
        "rank, for each token that was drawn%s.%s The peak of memory "
        "is from before the comparison and the curve.</p>",
        view->figures->rounds > 1 ? ", in the first round, which may differ from the medians above"
                                  : "",
        launch_inference_texts_a_step(view->figures) > TEXTS_TOGETHER
            ? " Several texts are drawn in one step, so that this is less than from one token of a "
              "text to the next."
            : "");
    put_bars(view->figures, text);
    put_rank_rows(view, text);
    base_buffer_put(text, "</section>\n");
}

static void put_side(base_buffer *text, const char *name, const launch_inference_side *side)
{
    base_buffer_printf(text, "<tr><td>%s</td>", name);
    put_ms_cell(text, side->ttft_ms);
    put_ms_cell(text, side->per_token_ms.median);
    put_ms_cell(text, side->per_token_ms.low);
    put_ms_cell(text, side->per_token_ms.high);
    base_buffer_put(text, "<td class=\"n\">");
    base_buffer_number(text, side->tokens_per_s.median, 0);
    base_buffer_put(text, "</td><td class=\"n\">");
    base_buffer_number(text, side->tokens, 0);
    base_buffer_put(text, "</td></tr>\n");
}

static void put_comparison(const launch_inference_view *view, base_buffer *text)
{
    const launch_inference_figures *of = view->figures;
    const char *reason = json_string_value(json_object_get(view->results, "baseline_null_because"));
    if (!isfinite(of->single.per_token_ms.median) && reason == NULL) {
        return;
    }
    base_buffer_put(text,
                    "<section><h2>Beside one rank, and replicas</h2><p class=\"hintline\">The "
                    "same prompts, drawn by each of the three");
    if (of->rounds > 1) {
        base_buffer_printf(text,
                           " in turns, in %d rounds. Medians over the rounds; a tenth of them is "
                           "below low, and a tenth above high. First tokens are of the first round",
                           of->rounds);
    }
    base_buffer_put(text, ".</p><div class=\"scroll wide\"><table><thead><tr><th></th>"
                          "<th class=\"n\">first token</th><th class=\"n\">a token, mean</th>"
                          "<th class=\"n\">low</th><th class=\"n\">high</th>"
                          "<th class=\"n\">tokens/s</th><th class=\"n\">tokens</th></tr></thead>"
                          "<tbody>\n");
    put_side(text, "tensor parallel", &of->tp);
    put_side(text, "one rank alone", &of->single);
    put_side(text, "replicas: a whole model on each rank", &of->replicas);
    base_buffer_put(text, "</tbody></table></div>");
    if (reason != NULL) {
        base_buffer_put(text, "<p class=\"none\">");
        base_buffer_html(text, reason);
        base_buffer_put(text, "</p>");
    }
    base_buffer_put(text, "</section>\n");
}

static const double MARGIN =
    1.25; /* of the curve's axes, as a factor beyond the outermost points */

chart_figure *launch_curve_figure(const launch_curve *curve)
{
    const bool measured = isfinite(curve->crossover_d_model);
    double low = 0;
    double high = 0;
    chart_figure *figure =
        chart_figure_make("Time of a token against the width of the model", "d_model",
                          "ms for a token", 4, LAUNCH_CURVE_POINTS_MAX);
    if (figure == NULL) {
        return NULL;
    }
    chart_series *const series[] = {
        chart_figure_add(figure, "one rank, predicted", "exchange", CHART_STROKE_DASHED),
        chart_figure_add(figure, "one rank, measured", "exchange", CHART_STROKE_POINTS),
        chart_figure_add(figure, "all ranks, predicted", "accent", CHART_STROKE_DASHED),
        chart_figure_add(figure, "all ranks, measured", "accent", CHART_STROKE_POINTS),
    };
    figure->nothing = "Nothing was measured.";
    figure->width = CHART_WIDTH;
    figure->height = 330;
    figure->x = (chart_axis){.logarithmic = true, .tick = 1, .mark_count = curve->point_count};
    for (int i = 0; i < curve->point_count; i++) {
        const launch_curve_point *point = &curve->points[i];
        const double ms[] = {point->predicted_single_ms, point->single_ms, point->predicted_tp_ms,
                             point->tp_ms};
        figure->x.marks[i] = point->d_model;
        for (int s = 0; s < figure->series_count; s++) {
            chart_point *at = chart_series_add(series[s], point->d_model, ms[s]);
            (void)snprintf(at->hint, sizeof at->hint, "%s: %g at %g", series[s]->name, at->y,
                           at->x);
        }
    }
    chart_figure_keep_positive(figure);
    if (chart_figure_range(figure, &low, &high)) {
        figure->x.low = log10(curve->points[0].d_model / MARGIN);
        figure->x.high = log10(curve->points[curve->point_count - 1].d_model * MARGIN);
        figure->y = chart_axis_log(low / MARGIN, high * MARGIN);
    }
    figure->mark_x = measured ? curve->crossover_d_model : curve->predicted_crossover_d_model;
    if (isfinite(figure->mark_x)) {
        (void)snprintf(figure->mark_label, sizeof figure->mark_label, "crossover%s: d_model %.0f",
                       measured ? "" : " (predicted)", figure->mark_x);
    }
    return figure;
}

static void put_curve(const launch_inference_view *view, base_buffer *text)
{
    const launch_curve *curve = &view->figures->curve;
    if (curve->point_count == 0) {
        return;
    }
    chart_figure *figure = launch_curve_figure(curve);
    base_buffer_printf(text,
                       "<section><h2>How it scales with the width</h2><p class=\"hintline\">Models "
                       "of %.0f layers, on one rank and on %d. The prediction is the weights over "
                       "the speed at which a rank reads so many bytes, and the all-reduces by this "
                       "job's link: %.1f µs, %.1f GB/s.</p>",
                       curve->layers, curve->ranks, curve->latency_us, curve->link_gb_per_s);
    chart_figure_svg(text, figure);
    free(figure);
    if (launch_curve_no_crossover(curve) != NULL) {
        base_buffer_printf(text, "<p class=\"none\">%s</p>", launch_curve_no_crossover(curve));
    }
    size_t index = 0;
    json_t *point = NULL;
    json_array_foreach(json_object_get(json_object_get(view->results, "curve"), "points"), index,
                       point)
    {
        const char *reason = json_string_value(json_object_get(point, "null_because"));
        if (reason != NULL) {
            base_buffer_printf(text, "<p class=\"none\">d_model %.0f was not measured: ",
                               launch_inference_number(point, "d_model"));
            base_buffer_html(text, reason);
            base_buffer_put(text, "</p>");
        }
    }
    base_buffer_put(text, "</section>\n");
}

/* single: the same prompt on one rank; NULL: it was not measured. */
static void put_prompt(base_buffer *text, const json_t *prompt, const json_t *single)
{
    const json_t *each = json_object_get(prompt, "per_token_ms");
    const char *asked = json_string_value(json_object_get(prompt, "prompt"));
    const char *answer = json_string_value(json_object_get(prompt, "text"));
    const char *finish = json_string_value(json_object_get(prompt, "finish_reason"));
    base_buffer_put(text, "<tr><td>");
    base_buffer_html(text, asked != NULL ? asked : "");
    base_buffer_put(text, "</td><td class=\"answer\">");
    base_buffer_html(text, answer != NULL ? answer : "");
    if (finish != NULL && strcmp(finish, "cancelled") == 0) {
        base_buffer_put(text, " <span class=\"none\">(cancelled)</span>");
    }
    base_buffer_printf(text, "</td><td class=\"n\">%zu</td>",
                       json_array_size(json_object_get(prompt, "token_ids")));
    put_ms_cell(text, launch_inference_number(prompt, "ttft_ms"));
    put_ms_cell(text, launch_inference_number(each, "mean"));
    put_ms_cell(text, launch_inference_number(each, "p50"));
    put_ms_cell(text, launch_inference_number(each, "p95"));
    if (single != NULL) {
        put_ms_cell(text, launch_inference_number(json_object_get(single, "per_token_ms"), "mean"));
        base_buffer_put(text, json_is_true(json_object_get(single, "same_tokens"))
                                  ? "<td class=\"good\">the same</td>"
                                  : "<td class=\"bad\">others</td>");
    }
    base_buffer_put(text, "</tr>\n");
}

static void put_prompts(const launch_inference_view *view, base_buffer *text)
{
    const json_t *prompts = json_object_get(view->results, "prompts");
    const json_t *single = json_object_get(json_object_get(view->results, "single"), "prompts");
    const size_t all = json_array_size(prompts);
    base_buffer_put(text, "<section><h2>Prompts and texts</h2>");
    base_buffer_put(text, view->figures->rounds > 1
                              ? "<p class=\"hintline\">Times are of the first round.</p>"
                              : "");
    base_buffer_put(text, "<div class=\"scroll wide\"><table><thead><tr>"
                          "<th>prompt</th><th>text</th><th class=\"n\">tokens</th>"
                          "<th class=\"n\">first token</th><th class=\"n\">a token, mean</th>"
                          "<th class=\"n\">p50</th><th class=\"n\">p95</th>");
    if (single != NULL) {
        base_buffer_put(text, "<th class=\"n\">on one rank, mean</th><th>its tokens</th>");
    }
    base_buffer_put(text, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < all && i < PROMPTS_SHOWN; i++) {
        put_prompt(text, json_array_get(prompts, i), json_array_get(single, i));
    }
    base_buffer_put(text, "</tbody></table></div>");
    if (all > PROMPTS_SHOWN) {
        base_buffer_printf(text, "<p class=\"none\">The first %d of %zu; results.json has all.</p>",
                           PROMPTS_SHOWN, all);
    }
    base_buffer_put(text, "</section>\n");
}

base_status launch_inference_report(const launch_inference_view *view, base_buffer *text,
                                    base_error *reterr)
{
    static const launch_term terms[] = {
        {"Rank", "One of the processes that hold the model together, numbered from 0."},
        {"Step", "All ranks compute the next token of every text that is being drawn, or a piece "
                 "of a prompt."},
        {"First token", "From the first step that computes for a prompt to its first token."},
        {"Drafts",
         "Tokens that were guessed from the text so far (--speculate), or by a small model "
         "(--draft). One that is right saves a step."},
        {"p50, p95", "50 %, and 95 %, of the values are below."},
        /* TERMS_OF_ONE_RANK */
        {"All-reduce", "Each rank has a part of a sum; after it every rank has the whole. Two for "
                       "each layer, and one for the embedding."},
        {"Waiting", "From a rank's entering an exchange until the last rank has entered it."},
        {"Moving bytes", "The rest of its time in the all-reduces."},
        {"Exchange of candidates", "At the end of a step the ranks show each other their best "
                                   "tokens, with the waiting for that."},
        {"Slowest rank", "The one that enters exchanges last: in a step, the one for which the "
                         "others have waited longest."},
        {"Crossover", "The width from which on all ranks together draw a token sooner than one."},
    };
    put_head(view, text);
    base_buffer_put(text, "<div class=\"cards\">\n");
    put_speed_cards(view->figures, text);
    put_speedup_card(view->figures, view->suspect, text);
    put_exchange_cards(view->figures, text);
    if (view->run->job->infer.speculate > 0) {
        put_draft_card(&view->figures->mean, text);
    }
    base_buffer_put(text, "</div>\n");
    launch_report_lesson(text, view->lesson_notes);
    put_prompts(view, text);
    put_ranks(view, text);
    launch_trace_timeline(view->run->job, view->trace, text);
    put_comparison(view, text);
    put_curve(view, text);
    launch_report_terms(text, terms,
                        view->figures->rank_count > 1 ? sizeof terms / sizeof terms[0]
                                                      : TERMS_OF_ONE_RANK);
    const base_status status = launch_report_manifest(view->manifest, text, reterr);
    launch_report_end(text, view->info);
    return status;
}
