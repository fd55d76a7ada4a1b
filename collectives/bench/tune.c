/* Prints the cost model's prediction beside the measured time of each algorithm. Called by rank.c
 * for --tune. */
#include "tune.h"

#include "options.h"

static void print_link(FILE *out, const char *where, const coll_link_cost *cost)
{
    (void)fprintf(out, "#  %-14s : %.3f us latency, %.3f us per message, %.4f ns per byte\n", where,
                  cost->latency_us, cost->message_us, cost->byte_ns);
}

static void print_header(FILE *out, const coll_costs *costs)
{
    (void)fprintf(out, "# Cost model\n");
    print_link(out, "inside a host", &costs->inside);
    print_link(out, "between hosts", &costs->between);
    (void)fprintf(out, "#  %-14s : %.4f ns per byte\n#\n", "combining", costs->reduce_byte_ns);
    (void)fprintf(out, "# %10s  %-18s  %10s  %10s  %9s  %s\n", "size", "algorithm", "predicted",
                  "measured", "measured", "auto");
    (void)fprintf(out, "# %10s  %-18s  %10s  %10s  %9s\n", "(B)", "", "(us)", "(us)", "/predicted");
    (void)fflush(out);
}

static void print_row(FILE *out, const bench_tune_row *row)
{
    const coll_tune_row *of = &row->compared;
    const double ratio = of->predicted_us > 0.0 ? of->measured_us / of->predicted_us : 0.0;
    (void)fprintf(out, "%12zu  %-18s  %10.2f  %10.2f  %10.2f  %s\n", row->size_bytes,
                  coll_algorithm_name(row->algorithm), of->predicted_us, of->measured_us, ratio,
                  of->chosen     ? "chosen"
                  : of->eligible ? "eligible"
                                 : "another order");
    (void)fflush(out);
}

coll_status bench_tune(const bench_options *options, coll_context *context, bench_shared *shared,
                       FILE *out, coll_error *reterr)
{
    coll_comm *comm = coll_context_world(context);
    const bool prints = coll_comm_rank(comm) == 0;
    const coll_costs *known = coll_tune_costs(context);
    coll_costs costs = known != NULL ? *known : (coll_costs){.reduce_byte_ns = 0.0};
    coll_status status = known != NULL ? COLL_OK : coll_tune_measure(comm, &costs, reterr);
    if (status == COLL_OK && prints) {
        print_header(out, &costs);
    }
    size_t bytes = options->begin_bytes;
    do {
        for (int a = COLL_ALGORITHM_RING; status == COLL_OK && a <= COLL_ALGORITHM_LAST; a++) {
            bench_tune_row row = {.size_bytes = bytes, .algorithm = (coll_algorithm)a};
            const coll_tune_case which = {
                .kind = options->kind, .algorithm = row.algorithm, .whole_bytes = bytes};
            status = coll_tune_compare(comm, &costs, &which, &row.compared, reterr);
            if (status == COLL_OK && prints) {
                print_row(out, &row);
                shared->tune_rows[shared->tune_row_count++] = row;
            }
        }
        bytes = bench_next_size(options, bytes);
    } while (status == COLL_OK && bytes != 0);
    return status;
}
