#include "stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"

enum { RECENT_STEPS = 64, FIRST_CAPACITY = 256, QUANTITIES = 3 };

typedef struct step_sums {
    int reported;
    double loss;
    uint64_t tokens;
    int64_t step_ns;      /* of the slowest rank */
    int64_t allreduce_ns; /* sums over the ranks */
    int64_t compute_ns;
} step_sums;

struct launch_stats {
    int ranks;
    uint64_t *next_step; /* (ranks) */
    step_sums *steps;
    size_t capacity;
    size_t complete; /* steps [0, complete) are told by all ranks */
};

base_status launch_stats_create(int ranks, launch_stats **stats, base_error *reterr)
{
    launch_stats *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->ranks = ranks;
        made->capacity = FIRST_CAPACITY;
        made->next_step = calloc((size_t)ranks, sizeof made->next_step[0]);
        made->steps = calloc(made->capacity, sizeof made->steps[0]);
    }
    if (made == NULL || made->next_step == NULL || made->steps == NULL) {
        launch_stats_destroy(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the steps' figures");
    }
    *stats = made;
    return BASE_OK;
}

void launch_stats_destroy(launch_stats *stats)
{
    if (stats != NULL) {
        free(stats->next_step);
        free(stats->steps);
        free(stats);
    }
}

static base_status grow(launch_stats *stats, base_error *reterr)
{
    step_sums *grown = calloc(stats->capacity * 2, sizeof grown[0]);
    if (grown == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the figures of %zu steps",
                         stats->capacity * 2);
    }
    for (size_t i = 0; i < stats->capacity; i++) {
        grown[i] = stats->steps[i];
    }
    free(stats->steps);
    stats->steps = grown;
    stats->capacity *= 2;
    return BASE_OK;
}

base_status launch_stats_add(launch_stats *stats, const launch_step *step, base_error *reterr)
{
    BASE_ASSERT(step->rank >= 0 && step->rank < stats->ranks);
    uint64_t *next = &stats->next_step[step->rank];
    if (step->step != *next) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "rank %d reports step %" PRIu64 " where step %" PRIu64 " is due",
                         step->rank, step->step, *next);
    }
    if (*next == stats->capacity) {
        const base_status status = grow(stats, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    *next += 1;
    step_sums *sums = &stats->steps[step->step];
    sums->reported++;
    sums->loss = step->loss_global;
    sums->tokens += step->tokens;
    sums->step_ns = step->step_ns > sums->step_ns ? step->step_ns : sums->step_ns;
    sums->allreduce_ns += step->allreduce_ns;
    sums->compute_ns += step->compute_ns;
    while (stats->complete < stats->capacity &&
           stats->steps[stats->complete].reported == stats->ranks) {
        stats->complete++;
    }
    return BASE_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nearest rank, of sorted values. */
static double quantile(const double *sorted, size_t count, double q)
{
    const double position = ceil(q * (double)count);
    const size_t index = position < 1 ? 0 : (size_t)position - 1;
    return sorted[index < count ? index : count - 1];
}

/* Figures over the steps [from, complete). */
static void figures_from(const launch_stats *stats, size_t from, launch_figures *figures)
{
    const size_t count = stats->complete - from;
    *figures = (launch_figures){.steps = (int64_t)stats->complete,
                                .loss_first = NAN,
                                .loss_last = NAN,
                                .tokens_per_second = NAN,
                                .step_ms_p50 = NAN,
                                .allreduce_ms_p50 = NAN,
                                .allreduce_ms_p95 = NAN,
                                .compute_ms_p50 = NAN};
    double *values = count > 0 ? calloc(count * QUANTITIES, sizeof values[0]) : NULL;
    if (values == NULL) {
        return;
    }
    double *step_ms = values;
    double *allreduce_ms = values + count;
    double *compute_ms = values + 2 * count;
    uint64_t tokens = 0;
    int64_t elapsed_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const step_sums *sums = &stats->steps[from + i];
        tokens += sums->tokens;
        elapsed_ns += sums->step_ns;
        step_ms[i] = (double)sums->step_ns / BASE_NS_PER_MS;
        allreduce_ms[i] = (double)sums->allreduce_ns / BASE_NS_PER_MS / stats->ranks;
        compute_ms[i] = (double)sums->compute_ns / BASE_NS_PER_MS / stats->ranks;
    }
    for (int i = 0; i < QUANTITIES; i++) {
        qsort(values + (size_t)i * count, count, sizeof values[0], compare_doubles);
    }
    figures->loss_first = stats->steps[0].loss;
    figures->loss_last = stats->steps[stats->complete - 1].loss;
    if (elapsed_ns > 0) {
        figures->tokens_per_second = (double)tokens * BASE_NS_PER_S / (double)elapsed_ns;
    }
    figures->step_ms_p50 = quantile(step_ms, count, 0.5);
    figures->allreduce_ms_p50 = quantile(allreduce_ms, count, 0.5);
    figures->allreduce_ms_p95 = quantile(allreduce_ms, count, 0.95);
    figures->compute_ms_p50 = quantile(compute_ms, count, 0.5);
    free(values);
}

void launch_stats_figures(const launch_stats *stats, launch_figures *figures)
{
    figures_from(stats, stats->complete / 2, figures);
}

void launch_stats_recent(const launch_stats *stats, launch_figures *figures)
{
    const size_t complete = stats->complete;
    figures_from(stats, complete > RECENT_STEPS ? complete - RECENT_STEPS : complete / 2, figures);
}
