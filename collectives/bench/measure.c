/* Times a cell on all ranks and summarizes the samples. Called by rank.c for each row; tests call
 * the summary alone. */
#include "measure.h"

#include <stdlib.h>

#include "team.h"

enum {
    BATCH_MAX = 500,
    SAMPLES_MIN = 20,
    SAMPLES_SLOW_MIN = 5, /* where one takes longer than SLOW_US */
};

#define SPEND_US 1e5
#define SLOW_US  5e4

typedef struct measuring {
    const bench_options *options;
    const bench_cell *cell;
    bench_shared *shared;
    bench_sample *samples; /* this rank's */
    coll_error *error;
    int rank;
} measuring;

static coll_status pass(const measuring *m)
{
    return bench_team_pass(m->shared, m->cell->comm, m->error);
}

/* `batch` operations, timed together; above one, each is chained to the one before. */
static coll_status take(const measuring *m, int batch, bench_sample *sample)
{
    coll_status status = bench_cell_dirty(m->cell, m->error);
    if (status == COLL_OK) {
        status = pass(m);
    }
    sample->begin = bench_ticks();
    for (int i = 0; status == COLL_OK && i < batch; i++) {
        if (i > 0) {
            bench_cell_chain(m->cell);
        }
        status = bench_cell_run(m->cell, m->error);
    }
    if (status == COLL_OK) {
        status = bench_cell_wait(m->cell, m->error);
    }
    sample->end = bench_ticks();
    return status;
}

void bench_choose_samples(int iterations, bool chains, double us, int *samples, int *batch)
{
    int count = iterations;
    if (count == 0) {
        const int least = us > SLOW_US ? SAMPLES_SLOW_MIN : SAMPLES_MIN;
        const int most = BENCH_SAMPLES_AUTO_MAX * (chains ? BATCH_MAX : 1);
        const double wanted = SPEND_US / (us + 0.001);
        count = wanted < least ? least : wanted > most ? most : (int)wanted;
    }
    *samples = chains ? (count + BATCH_MAX - 1) / BATCH_MAX : count;
    *batch = (count + *samples - 1) / *samples;
}

static coll_status warm_up(const measuring *m)
{
    /* Two more than asked for tell how long an operation takes. */
    const int trials = m->options->warm_up + (m->options->iterations == 0 ? 2 : 0);
    const int batch = bench_cell_chains(m->cell) ? SAMPLES_MIN : 1;
    double best_us = 1e12;
    coll_status status = COLL_OK;
    for (int i = 0; status == COLL_OK && i < trials; i++) {
        const uint64_t begin = bench_ticks();
        status = take(m, batch, &m->samples[0]);
        const double us = (double)(bench_ticks() - begin) / bench_ticks_per_us() / batch;
        best_us = us < best_us ? us : best_us;
    }
    if (m->rank == 0) {
        bench_choose_samples(m->options->iterations, bench_cell_chains(m->cell), best_us,
                             &m->shared->samples, &m->shared->batch);
    }
    return status == COLL_OK ? bench_team_agree(m->shared, m->cell->comm, m->error) : status;
}

static int compare_samples(const void *a, const void *b)
{
    const uint64_t x = ((const bench_sample *)a)->end;
    const uint64_t y = ((const bench_sample *)b)->end;
    return (x > y) - (x < y);
}

void bench_summarise(bench_shared *shared, int ranks, uint64_t cost_ticks, double ticks_per_us,
                     double *mean_us, double *median_us)
{
    bench_sample *first = shared->sample;
    double total = 0.0;
    for (int i = 0; i < shared->samples; i++) {
        uint64_t begin = 0;
        uint64_t end = 0;
        for (int r = 0; r < ranks; r++) {
            const bench_sample *sample =
                &shared->sample[(size_t)r * (size_t)shared->samples_max + (size_t)i];
            begin = sample->begin > begin ? sample->begin : begin;
            end = sample->end > end ? sample->end : end;
        }
        begin += cost_ticks;
        first[i] = (bench_sample){.end = end > begin ? end - begin : 0};
        total += (double)first[i].end;
    }
    qsort(first, (size_t)shared->samples, sizeof first[0], compare_samples);
    const double scale = 1.0 / (ticks_per_us * shared->batch);
    *mean_us = total / shared->samples * scale;
    const int middle = shared->samples / 2;
    *median_us = (double)first[middle].end * scale;
}

/* The result that is there, and of as many more operations as asked for. */
static coll_status check(const measuring *m)
{
    const char *corrupt = getenv("COLL_BENCH_CORRUPT"); /* a rank whose result tests spoil */
    coll_status status = COLL_OK;
    bench_sample unused;
    int64_t wrong = 0;
    for (int i = 0; status == COLL_OK && i < m->options->checks; i++) {
        /* a run on a device may have added to its own output, in place */
        if (i > 0 || m->cell->device != NULL) {
            status = take(m, 1, &unused);
        }
        if (status == COLL_OK) {
            status = bench_cell_fetch(m->cell, m->error);
        }
        if (corrupt != NULL && strtol(corrupt, NULL, 10) == m->rank) {
            bench_cell_spoil(m->cell);
        }
        wrong += (int64_t)bench_cell_wrong(m->cell);
    }
    m->shared->wrong[m->rank] = wrong;
    return status == COLL_OK ? bench_team_collect(m->shared, m->cell->comm, m->error) : status;
}

static void summarise(const measuring *m, bench_column *column)
{
    const bool checked = m->options->checks > 0 && m->cell->checkable;
    int64_t wrong = 0;
    for (int r = 0; r < m->options->ranks; r++) {
        wrong += m->shared->wrong[r];
    }
    if (m->shared->apart) { /* merged already, in nanoseconds */
        bench_summarise(m->shared, 1, 0, 1e3, &column->time_us, &column->time_us_p50);
    } else {
        bench_summarise(m->shared, m->options->ranks, bench_ticks_cost(), bench_ticks_per_us(),
                        &column->time_us, &column->time_us_p50);
    }
    const double bytes = (double)m->cell->layout.size_bytes;
    column->algbw = column->time_us > 0 ? bytes / column->time_us / 1e3 : 0;
    column->busbw = column->algbw * bench_bus_factor(m->options->kind, m->options->ranks);
    column->wrong = checked ? wrong : -1;
}

coll_status bench_measure(const bench_options *options, const bench_cell *cell,
                          bench_shared *shared, bench_column *column, coll_error *reterr)
{
    const int rank = coll_comm_rank(cell->comm);
    const measuring m = {.options = options,
                         .cell = cell,
                         .shared = shared,
                         .samples = &shared->sample[(size_t)rank * (size_t)shared->samples_max],
                         .error = reterr,
                         .rank = rank};
    coll_status status = warm_up(&m);
    const int samples = status == COLL_OK ? shared->samples : 0;
    for (int i = 0; status == COLL_OK && i < samples; i++) {
        status = take(&m, shared->batch, &m.samples[i]);
    }
    if (status == COLL_OK) {
        status = check(&m);
    }
    if (status == COLL_OK && rank == 0) {
        summarise(&m, column);
    }
    return status == COLL_OK ? pass(&m) : status;
}
