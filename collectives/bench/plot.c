/* Draws latency and bandwidth against size by gnuplot. Called by run.c for --plot. */
#include "plot.h"

#include "base/gnuplot.h"
#include "options.h"
#include "ringfence/coll_error.h"

/* Rows of one type, operation and root follow each other: the row after the last of `first`'s. */
static int series_end(const bench_shared *shared, int first)
{
    const bench_row *row = &shared->rows[first];
    int at = first + 1;
    while (at < shared->row_count && shared->rows[at].type == row->type &&
           shared->rows[at].reduce == row->reduce && shared->rows[at].root == row->root) {
        at++;
    }
    return at;
}

/* The bus bandwidth of the median time, which is the one that is drawn. */
static double median_busbw(const bench_column *column)
{
    return column->time_us_p50 > 0 ? column->busbw * column->time_us / column->time_us_p50 : 0;
}

static void put_data(FILE *out, const bench_shared *shared)
{
    for (int first = 0; first < shared->row_count; first = series_end(shared, first)) {
        (void)fprintf(out, "$series%d << END\n", first);
        for (int i = first; i < series_end(shared, first); i++) {
            const bench_row *row = &shared->rows[i];
            (void)fprintf(out, "%zu %.4f %.4f %.4f %.4f\n", row->size_bytes,
                          row->columns[0].time_us_p50, row->columns[1].time_us_p50,
                          median_busbw(&row->columns[0]), median_busbw(&row->columns[1]));
        }
        (void)fputs("END\n", out);
    }
}

/* Draws columns `column` (out of place) and the next one (in place) of every series. */
static void put_curves(FILE *out, const bench_shared *shared, int column)
{
    for (int first = 0; first < shared->row_count; first = series_end(shared, first)) {
        const bench_row *row = &shared->rows[first];
        for (int place = 0; place < 2; place++) {
            (void)fprintf(
                out, "%s $series%d using 1:%d with linespoints linewidth 2 pointtype 7 title \"%s",
                first == 0 && place == 0 ? "plot" : ",", first, column + place,
                coll_type_name(row->type));
            if (row->reduce != 0) {
                (void)fprintf(out, " %s", coll_reduce_name(row->reduce));
            }
            if (row->root >= 0) {
                (void)fprintf(out, " root %d", row->root);
            }
            (void)fprintf(out, ", %s\"", place == 0 ? "out of place" : "in place");
        }
    }
    (void)fputc('\n', out);
}

void bench_plot_script(FILE *out, const char *path, const bench_options *options,
                       const bench_shared *shared)
{
    base_gnuplot_put_head(out, path, 900, 900);
    put_data(out, shared);
    (void)fprintf(out,
                  "set multiplot layout 2,1 title \"%s, %d ranks, %s, %s, %s\"\n"
                  "set logscale x 2\nset logscale y\nset grid\nset key left top Left reverse\n"
                  "set xtics 1,4\nset format x \"%%.0b%%B\"\nset xlabel \"bytes\"\n"
                  "set ylabel \"microseconds, median\"\n",
                  bench_kind_name(options->kind), options->ranks,
                  coll_transport_name(shared->transport), coll_algorithm_name(shared->algorithm),
                  options->arena ? "arena" : "ordinary memory");
    put_curves(out, shared, 2);
    (void)fputs("unset logscale y\nset yrange [0:*]\nset ylabel \"bus bandwidth, GB/s\"\n", out);
    put_curves(out, shared, 4);
    (void)fputs("unset multiplot\n", out);
}

/* Sizes are drawn by powers of two, which zero is none of. */
static bool has_sizes(const bench_shared *shared)
{
    for (int i = 0; i < shared->row_count; i++) {
        if (shared->rows[i].size_bytes > 0) {
            return true;
        }
    }
    return false;
}

/* What bench_plot_script is called with. */
typedef struct plot {
    const char *path;
    const bench_options *options;
    const bench_shared *shared;
} plot;

static void write_script(FILE *out, const void *user)
{
    const plot *p = user;
    bench_plot_script(out, p->path, p->options, p->shared);
}

coll_status bench_plot_draw(const char *path, const bench_options *options,
                            const bench_shared *shared, coll_error *reterr)
{
    base_error error;
    if (!has_sizes(shared)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "no plot: all sizes are 0");
    }
    return coll_from_base(
        base_gnuplot_draw(path, write_script, &(plot){path, options, shared}, &error), &error,
        reterr);
}
