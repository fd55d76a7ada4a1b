/* Prints coll-bench's header, rows and footer in nccl-tests' form. Called by rank.c on rank 0, and
 * by run.c at the end. */
#include "table.h"

#include <stdlib.h>

#include "options.h"

enum { NUMBER_BYTES = 32 };

/* As many decimals as the width holds. */
static const char *number(double value, int width, char text[NUMBER_BYTES])
{
    const int decimals = value < 10.0 && width > 6 ? 3 : 2;
    int whole = 1;
    for (double rest = value; rest >= 10.0 && whole < NUMBER_BYTES; rest /= 10.0) {
        whole++;
    }
    const int room = width - 1 - whole;
    (void)snprintf(text, NUMBER_BYTES, "%*.*f", width,
                   room < 0          ? 0
                   : room < decimals ? room
                                     : decimals,
                   value);
    return text;
}

static void print_roofline(FILE *out, const bench_roofline *roofline)
{
    (void)fprintf(out,
                  "# Roofline of this host : read %.1f GB/s, copy %.1f GB/s with one processor",
                  roofline->read_one, roofline->copy_one);
    if (roofline->processors > 1) {
        (void)fprintf(out, "; read %.1f, copy %.1f with %d", roofline->read_all, roofline->copy_all,
                      roofline->processors);
    }
    if (roofline->core_to_core_ns > 0.0) {
        (void)fprintf(out, "; core to core %.0f ns", roofline->core_to_core_ns);
    }
    (void)fputc('\n', out);
}

static void print_ranks(FILE *out, const bench_options *options, const bench_shared *shared)
{
    (void)fprintf(out, "# Using ranks\n");
    for (int r = 0; r < options->ranks; r++) {
        (void)fprintf(out, "#  Rank %2d Group  0 Pid %6d on %10s processor %2d\n", r,
                      (int)shared->pids[r], shared->hosts[r], shared->processors[r]);
    }
}

/* Who has chosen the algorithm, if the command line has not. */
static const char *chooser(const bench_options *options, const bench_shared *shared)
{
    const char *named = getenv("RINGFENCE_COLL_ALGORITHM");
    if (options->algorithm != COLL_ALGORITHM_AUTO || shared->algorithm == COLL_ALGORITHM_AUTO) {
        return "";
    }
    return named != NULL && named[0] != '\0' ? " (RINGFENCE_COLL_ALGORITHM)" : " (auto)";
}

void bench_table_header(FILE *out, const bench_options *options, const bench_shared *shared,
                        const bench_roofline *roofline)
{
    static const char columns[] = "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s "
                                  " %6s\n";
    const bool by_factor = options->step_bytes == 0;
    (void)fprintf(out, "# Collective test starting: coll-bench %s\n",
                  bench_kind_name(options->kind));
    (void)fprintf(out, "# nThread 1 nRanks %d minBytes %zu maxBytes %zu step: %zu(%s)",
                  options->ranks, options->begin_bytes, options->end_bytes,
                  by_factor ? options->factor : options->step_bytes,
                  by_factor ? "factor" : "bytes");
    (void)fprintf(out, " warmup iters: %d iters: ", options->warm_up);
    if (options->iterations > 0) {
        (void)fprintf(out, "%d", options->iterations);
    } else {
        (void)fputs("by time", out);
    }
    (void)fprintf(out, " agg iters: 1 validation: %d graph: 0\n#\n", options->checks);
    print_ranks(out, options, shared);
    (void)fprintf(out, "# Transport %s, algorithm %s%s, buffers in %s%s\n",
                  bench_transport_name((int)shared->transport),
                  coll_algorithm_name(shared->algorithm), chooser(options, shared),
                  bench_memory_name(options), options->by_counts ? ", with counts" : "");
    if (roofline != NULL) {
        print_roofline(out, roofline);
    }
    (void)fputs("#\n", out);
    if (options->tune) {
        return;
    }
    (void)fprintf(out, "# %10s  %12s  %8s  %6s  %6s           %-32s %-21s\n", "", "", "", "", "",
                  "out-of-place", "in-place");
    (void)fprintf(out, columns, "size", "count", "type", "redop", "root", "time", "algbw", "busbw",
                  "#wrong", "time", "algbw", "busbw", "#wrong");
    (void)fprintf(out, columns, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "",
                  "(us)", "(GB/s)", "(GB/s)", "");
    (void)fflush(out);
}

void bench_table_row_begin(FILE *out, const bench_row *row)
{
    (void)fprintf(out, "%12zu  %12zu  %8s  %6s  %6d", row->size_bytes, row->count,
                  coll_type_name(row->type),
                  row->reduce != 0 ? coll_reduce_op_name(row->reduce) : "none", row->root);
}

void bench_table_column(FILE *out, const bench_column *column)
{
    char time[NUMBER_BYTES];
    char algbw[NUMBER_BYTES];
    char busbw[NUMBER_BYTES];
    (void)fprintf(out, "  %s  %s  %s", number(column->time_us, 7, time),
                  number(column->algbw, 6, algbw), number(column->busbw, 6, busbw));
    if (column->wrong >= 0) {
        (void)fprintf(out, "  %6lld", (long long)column->wrong);
    } else {
        (void)fprintf(out, "  %6s", "N/A");
    }
    (void)fflush(out);
}

void bench_table_row_end(FILE *out)
{
    (void)fputc('\n', out);
    (void)fflush(out);
}

int64_t bench_total_wrong(const bench_shared *shared)
{
    int64_t wrong = 0;
    for (int i = 0; i < shared->row_count; i++) {
        for (int place = 0; place < 2; place++) {
            const int64_t found = shared->rows[i].columns[place].wrong;
            wrong += found > 0 ? found : 0;
        }
    }
    return wrong;
}

void bench_table_footer(FILE *out, const bench_options *options, const bench_shared *shared,
                        const bench_roofline *roofline)
{
    const int64_t wrong = bench_total_wrong(shared);
    double total = 0.0;
    double best = 0.0;
    bool is_checked = false;
    for (int i = 0; i < shared->row_count; i++) {
        for (int place = 0; place < 2; place++) {
            const bench_column *column = &shared->rows[i].columns[place];
            total += column->busbw;
            best = column->busbw > best ? column->busbw : best;
            is_checked = is_checked || column->wrong >= 0;
        }
    }
    if (is_checked) {
        (void)fprintf(out, "# %-20s : %lld %s\n", "Out of bounds values", (long long)wrong,
                      wrong == 0 ? "OK" : "FAILED");
    } else {
        (void)fprintf(out, "# %-20s : not checked\n", "Out of bounds values");
    }
    (void)fprintf(out, "# %-20s : %g \n", "Avg bus bandwidth",
                  shared->row_count > 0 ? total / (2.0 * shared->row_count) : 0.0);
    (void)fprintf(out, "# %-20s : %g", "Best bus bandwidth", best);
    if (roofline != NULL) {
        (void)fprintf(out, " (one processor copies %.1f GB/s)", roofline->copy_one);
    }
    (void)fputs("\n#\n", out);
    (void)fprintf(out, "# Collective test concluded: coll-bench %s\n#\n",
                  bench_kind_name(options->kind));
    (void)fflush(out);
}
