/* Estimates one layout. Called by search.c, and for the layout that is shown. */
#include "plan/estimate.h"

#include "plan/step.h"

const char *launch_memory_name(launch_memory use)
{
    static const char *const names[] = {"weights",     "gradients", "optimizer",
                                        "activations", "cache",     "work"};
    return names[use];
}

/* Whether a training fits that way. If so, keeps it. */
static bool try_way(const launch_ask *ask, int64_t zero, bool recompute, launch_estimate *made)
{
    launch_ask other = *ask;
    launch_estimate held = *made;
    other.zero = zero;
    other.recompute = recompute;
    held.total_bytes = 0;
    launch_step_training_memory(&other, &held);
    if (held.total_bytes > ask->device.memory_bytes) {
        return false;
    }
    made->ways[made->way_count++] = (launch_way){zero, recompute, held.total_bytes};
    return true;
}

/* The lowest of the higher stages of ZeRO with which it fits. */
static void try_zero(const launch_ask *ask, bool recompute, launch_estimate *made)
{
    bool found = false;
    for (int64_t zero = launch_layout_zero(ask, &made->layout) + 1;
         zero <= launch_layout_zero_most(ask, &made->layout) && !found; zero++) {
        found = try_way(ask, zero, recompute, made);
    }
}

/* Each flag alone, and both together where neither is enough. */
static void find_ways(const launch_ask *ask, launch_estimate *made)
{
    const bool recomputes = !ask->recompute && !proto_pipeline_splits(&made->run.pipeline);
    try_zero(ask, ask->recompute, made);
    if (recomputes) {
        (void)try_way(ask, launch_layout_zero(ask, &made->layout), true, made);
    }
    if (recomputes && made->way_count == 0) {
        try_zero(ask, true, made);
    }
}

base_status launch_estimate_make(const launch_ask *ask, const launch_layout *layout,
                                 launch_estimate *estimate, base_error *reterr)
{
    *estimate = (launch_estimate){.layout = *layout};
    base_status status = launch_layout_check(ask, layout, reterr);
    if (status == BASE_OK && ask->decode) {
        launch_step_decoding(ask, estimate);
    } else if (status == BASE_OK) {
        status = launch_step_training(ask, estimate, reterr);
    }
    estimate->fits = estimate->total_bytes <= ask->device.memory_bytes;
    if (status == BASE_OK && !estimate->fits && !ask->decode) {
        find_ways(ask, estimate);
    }
    return status;
}

void launch_estimate_fini(launch_estimate *estimate)
{
    launch_pipeline_run_fini(&estimate->run);
}
