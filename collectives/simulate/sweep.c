/* Simulates every algorithm for rising numbers of ranks, and plots the times beside the cost
 * model's; or traces one. Called by coll-simulate's main.c. */
#include "sweep.h"

#include <stdlib.h>

#include "chart/picture.h"
#include "cost/layout.h"
#include "ringfence/coll_error.h"
#include "trace_draw.h"

/* Room for the tables of coll_hosts. */
typedef struct host_tables {
    uint16_t host_of[SIMULATE_RANKS_MAX];
    uint16_t words[COLL_HOSTS_WORDS(SIMULATE_RANKS_MAX)];
} host_tables;

/* *hosts lives as long as *tables. */
static void share_out(int ranks, int ranks_per_host, host_tables *tables, coll_hosts *hosts)
{
    for (int rank = 0; rank < ranks; rank++) {
        tables->host_of[rank] = (uint16_t)(rank / ranks_per_host);
    }
    coll_hosts_make(hosts, tables->host_of, ranks, tables->words);
}

static coll_status run_row(const sweep_options *options, sweep_row *row, coll_error *reterr)
{
    host_tables tables;
    coll_hosts hosts;
    coll_layout layout;
    share_out(row->ranks, options->ranks_per_host, &tables, &hosts);
    coll_cost_layout(&hosts, &layout);
    for (int i = COLL_ALGORITHM_RING; i <= COLL_ALGORITHM_LAST; i++) {
        const coll_plan plan = {.algorithm = (coll_algorithm)i,
                                .kind = options->kind,
                                .ranks = row->ranks,
                                .hosts = &hosts};
        simulate_result result;
        const coll_status status =
            simulate_run(&plan, &options->costs, options->whole_bytes, &result, reterr);
        if (status != COLL_OK) {
            return coll_error_prepend(reterr, status, "%s of %d ranks",
                                      coll_algorithm_name(plan.algorithm), row->ranks);
        }
        row->simulated_us[i] = result.time_us;
        row->formula_us[i] = coll_cost_us(&options->costs, &layout, options->kind, plan.algorithm,
                                          options->whole_bytes);
    }
    return COLL_OK;
}

static void print_head(const sweep_options *options, FILE *out)
{
    (void)fprintf(out,
                  "# %s of %zu bytes, %d ranks per host; inside a host %g us, %g us per message, "
                  "%g ns per byte; between %g, %g, %g; combining %g ns per byte\n"
                  "# microseconds, simulated / by formula\n# %5s",
                  coll_kind_name(options->kind), options->whole_bytes, options->ranks_per_host,
                  options->costs.inside.latency_us, options->costs.inside.message_us,
                  options->costs.inside.byte_ns, options->costs.between.latency_us,
                  options->costs.between.message_us, options->costs.between.byte_ns,
                  options->costs.reduce_byte_ns, "ranks");
    for (int i = COLL_ALGORITHM_RING; i <= COLL_ALGORITHM_LAST; i++) {
        (void)fprintf(out, " %21s", coll_algorithm_name((coll_algorithm)i));
    }
    (void)fputc('\n', out);
}

static void print_row(const sweep_row *row, FILE *out)
{
    (void)fprintf(out, "%7d", row->ranks);
    for (int i = COLL_ALGORITHM_RING; i <= COLL_ALGORITHM_LAST; i++) {
        (void)fprintf(out, " %10.1f/%10.1f", row->simulated_us[i], row->formula_us[i]);
    }
    (void)fputc('\n', out);
    (void)fflush(out);
}

coll_status sweep_run(const sweep_options *options, FILE *out, sweep *result, coll_error *reterr)
{
    result->row_count = 0;
    print_head(options, out);
    for (int ranks = 2; ranks <= options->ranks_max && result->row_count < SWEEP_ROWS_MAX;) {
        sweep_row *row = &result->rows[result->row_count];
        *row = (sweep_row){.ranks = ranks};
        const coll_status status = run_row(options, row, reterr);
        if (status != COLL_OK) {
            return status;
        }
        result->row_count++;
        print_row(row, out);
        const bool power = (ranks & (ranks - 1)) == 0;
        ranks = power ? ranks + ranks / 2 : ranks / 3 * 4; /* 2 3 4 6 8 12 … */
    }
    return COLL_OK;
}

coll_status sweep_trace(const sweep_options *options, FILE *out, coll_error *reterr)
{
    static trace_result played;
    host_tables tables;
    coll_hosts hosts;
    const coll_plan plan = {.algorithm = options->trace.algorithm,
                            .kind = options->kind,
                            .ranks = options->trace.ranks,
                            .hosts = &hosts};
    share_out(plan.ranks, options->ranks_per_host, &tables, &hosts);
    const coll_status status = trace_run(&plan, &played, reterr);
    if (status != COLL_OK) {
        return status;
    }
    trace_print(&played, out);
    return options->plot_path[0] == '\0' ? COLL_OK
                                         : trace_draw_write(&played, options->plot_path, reterr);
}

/* Points of what was simulated, lines of the formulas, in one colour for each algorithm. */
static void fill(chart_figure *figure, const sweep *result)
{
    for (int i = COLL_ALGORITHM_RING; i <= COLL_ALGORITHM_LAST; i++) {
        const char *name = coll_algorithm_name((coll_algorithm)i);
        const char *colour = chart_colour(i - COLL_ALGORITHM_RING);
        chart_series *simulated = chart_figure_add(figure, name, colour, CHART_STROKE_DOTS);
        chart_series *formula = chart_figure_add(figure, NULL, colour, CHART_STROKE_LINE);
        for (int r = 0; r < result->row_count; r++) {
            const sweep_row *row = &result->rows[r];
            chart_point *point = chart_series_add(simulated, row->ranks, row->simulated_us[i]);
            (void)chart_series_add(formula, row->ranks, row->formula_us[i]);
            (void)snprintf(point->hint, sizeof point->hint, "%s, %d ranks: %.1f us", name,
                           row->ranks, row->simulated_us[i]);
        }
    }
}

coll_status sweep_plot(const sweep_options *options, const sweep *result, coll_error *reterr)
{
    char title[128];
    double low = 0;
    double high = 0;
    chart_figure *figure =
        chart_figure_make("Time against ranks", "ranks", "us (points simulated, lines by formula)",
                          2 * COLL_ALGORITHM_LAST, SWEEP_ROWS_MAX);
    if (figure == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory to draw %s", options->plot_path);
    }
    (void)snprintf(title, sizeof title, "%s of %zu bytes, %d ranks per host",
                   coll_kind_name(options->kind), options->whole_bytes, options->ranks_per_host);
    fill(figure, result);
    chart_figure_keep_positive(figure);
    if (chart_figure_range(figure, &low, &high)) {
        figure->height = 460;
        figure->x = chart_axis_doubling(result->rows[0].ranks,
                                        result->rows[result->row_count - 1].ranks, false);
        figure->y = chart_axis_log(low, high);
    }
    const coll_status status = (coll_status)chart_picture_write(
        &(chart_picture){title, "", &(const chart_figure *){figure}, 1}, options->plot_path,
        base_error_of(reterr));
    free(figure);
    return status;
}
