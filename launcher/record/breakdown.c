/* Computes where the time of an average step went. Called by summary.c, scaling.c and the
 * charts. */
#include "record/breakdown.h"

#include <math.h>

#include "base/assert.h"
#include "record/steps.h"

static const double MS_PER_NS = 1e-6;

/* How long the rank was in the exchange after backward, and in the barrier before it. */
static int64_t exposed_ns(const launch_step_times *step)
{
    return step->allreduce_exposed_ns + step->barrier_ns;
}

/* The rank that came last to the exchange: it was in it for the shortest time, which is the time of
 * the exchange itself. Of several the one with the longest step. */
static int last_to_arrive(const launch_steps *steps, size_t index)
{
    int last = 0;
    for (int r = 1; r < steps->world_size; r++) {
        const int64_t own_ns = exposed_ns(&steps->ranks[r].times[index]);
        const int64_t least_ns = exposed_ns(&steps->ranks[last].times[index]);
        if (own_ns < least_ns ||
            (own_ns == least_ns &&
             steps->ranks[r].times[index].step_ns > steps->ranks[last].times[index].step_ns)) {
            last = r;
        }
    }
    return last;
}

/* How long each other rank waited for the last one, in the mean. */
static double others_waiting_ms(const launch_steps *steps, int last, size_t index)
{
    double sum_ms = 0;
    for (int r = 0; r < steps->world_size; r++) {
        sum_ms += (double)(exposed_ns(&steps->ranks[r].times[index]) -
                           exposed_ns(&steps->ranks[last].times[index])) *
                  MS_PER_NS;
    }
    return steps->world_size > 1 ? sum_ms / (steps->world_size - 1) : 0;
}

/* Adds a step that took so long; stage: of a pipeline, else NULL. A rank's figures are not trusted. If its parts are longer than the
 * step, the step is made as long as the parts, so that the parts add up. */
static void add_step(launch_breakdown *sum, const launch_step_times *step,
                     const launch_stage_step *stage, int64_t alone_ns, int64_t whole_ns)
{
    const int64_t neighbour_ns = stage != NULL ? stage->neighbour_ns : 0;
    const int64_t overlapped_ns = step->allreduce_ns > step->allreduce_exposed_ns
                                      ? step->allreduce_ns - step->allreduce_exposed_ns
                                      : 0;
    const double parts_ms[LAUNCH_PARTS] = {
        [LAUNCH_PART_COMPUTE] = (double)step->compute_ns * MS_PER_NS,
        [LAUNCH_PART_OVERLAPPED] = (double)overlapped_ns * MS_PER_NS,
        [LAUNCH_PART_EXCHANGE] = (double)alone_ns * MS_PER_NS,
        [LAUNCH_PART_WAITING] = (double)(exposed_ns(step) - alone_ns + neighbour_ns) * MS_PER_NS,
        [LAUNCH_PART_OPTIMIZER] = (double)step->optimizer_ns * MS_PER_NS,
    };
    double known_ms = 0;
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        sum->part_ms[p] += parts_ms[p];
        known_ms += parts_ms[p];
    }
    const double other_ms = fmax(0, (double)whole_ns * MS_PER_NS - known_ms);
    sum->part_ms[LAUNCH_PART_OTHER] += other_ms;
    sum->step_ms += known_ms + other_ms;
    sum->context_ms += (double)step->context_ns * MS_PER_NS;
    sum->expert_ms += (double)step->expert_ns * MS_PER_NS;
    sum->tensor_ms += stage != NULL ? (double)stage->tensor_ns * MS_PER_NS : 0;
    sum->compute_cpu_ms +=
        step->compute_cpu_ns > 0 ? (double)step->compute_cpu_ns * MS_PER_NS : NAN;
}

static void scale(launch_breakdown *breakdown, double factor)
{
    breakdown->step_ms *= factor;
    breakdown->compute_cpu_ms *= factor;
    breakdown->context_ms *= factor;
    breakdown->expert_ms *= factor;
    breakdown->tensor_ms *= factor;
    breakdown->others_waiting_ms *= factor;
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        breakdown->part_ms[p] *= factor;
    }
}

/* Asserts what the header promises: no part is negative, and the parts add up to the step. */
static void check(const launch_breakdown *breakdown)
{
    double sum_ms = 0;
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        BASE_ASSERT(!(breakdown->part_ms[p] < 0));
        sum_ms += breakdown->part_ms[p];
    }
    BASE_ASSERT(!(fabs(sum_ms - breakdown->step_ms) > 1e-6 * (sum_ms + 1)));
}

launch_breakdown launch_breakdown_of(const launch_steps *steps, int rank, size_t first,
                                     size_t count)
{
    launch_breakdown made = {0};
    BASE_ASSERT(first + count <= launch_steps_count(steps));
    for (size_t i = first; i < first + count; i++) {
        const int last = last_to_arrive(steps, i);
        const bool of_step = rank == LAUNCH_LAST_TO_ARRIVE;
        const launch_rank_steps *shown = &steps->ranks[of_step ? last : rank];
        const launch_step_times *step = &shown->times[i];
        add_step(&made, step, steps->stages > 0 ? &shown->stages[i] : NULL,
                 exposed_ns(&steps->ranks[last].times[i]),
                 of_step ? launch_steps_slowest_ns(steps, i) : step->step_ns);
        made.others_waiting_ms += of_step ? others_waiting_ms(steps, last, i) : NAN;
    }
    scale(&made, count > 0 ? 1 / (double)count : NAN);
    check(&made);
    return made;
}

double launch_breakdown_allreduce_ms(const launch_breakdown *breakdown)
{
    return breakdown->part_ms[LAUNCH_PART_OVERLAPPED] + launch_breakdown_exposed_ms(breakdown);
}

double launch_breakdown_exposed_ms(const launch_breakdown *breakdown)
{
    return breakdown->part_ms[LAUNCH_PART_EXCHANGE] + breakdown->part_ms[LAUNCH_PART_WAITING];
}

static const struct {
    const char *name;
    const char *key;
} PARTS[LAUNCH_PARTS] = {
    [LAUNCH_PART_COMPUTE] = {"forward and backward", "compute"},
    [LAUNCH_PART_OVERLAPPED] = {"all-reduce while backward ran", "overlapped"},
    [LAUNCH_PART_EXCHANGE] = {"all-reduce after backward", "exchange"},
    [LAUNCH_PART_WAITING] = {"waiting for other ranks", "waiting"},
    [LAUNCH_PART_OPTIMIZER] = {"optimizer", "optimizer"},
    [LAUNCH_PART_OTHER] = {"other", "other"},
};

const char *launch_part_name(launch_part part)
{
    return PARTS[part].name;
}

const char *launch_part_key(launch_part part)
{
    return PARTS[part].key;
}

double launch_breakdown_inner_ms(const launch_breakdown *breakdown)
{
    return fmin(breakdown->context_ms + breakdown->expert_ms + breakdown->tensor_ms,
                breakdown->part_ms[LAUNCH_PART_COMPUTE]);
}

void launch_breakdown_shown(const launch_breakdown *breakdown, double ms[LAUNCH_SHOWN_PARTS])
{
    ms[LAUNCH_SHOWN_INNER] = launch_breakdown_inner_ms(breakdown);
    ms[LAUNCH_SHOWN_COMPUTE] = breakdown->part_ms[LAUNCH_PART_COMPUTE] - ms[LAUNCH_SHOWN_INNER];
    for (int p = LAUNCH_PART_COMPUTE + 1; p < LAUNCH_PARTS; p++) {
        ms[p + 1] = breakdown->part_ms[p];
    }
}

const char *launch_shown_name(int shown, bool exchanges_inside)
{
    return shown > LAUNCH_SHOWN_INNER    ? PARTS[shown - 1].name
           : shown == LAUNCH_SHOWN_INNER ? "exchanging in forward and backward"
           : exchanges_inside            ? "computing"
                                         : PARTS[LAUNCH_PART_COMPUTE].name;
}

const char *launch_shown_key(int shown)
{
    return shown > LAUNCH_SHOWN_INNER    ? PARTS[shown - 1].key
           : shown == LAUNCH_SHOWN_INNER ? "inner"
                                         : PARTS[LAUNCH_PART_COMPUTE].key;
}
