/* Estimates one layout. Called by search.c, and for the layout that is shown. */
#include "plan/estimate.h"

#include "plan/step.h"

const char *launch_memory_name(launch_memory use)
{
    static const char *const names[] = {"weights",     "gradients", "optimizer",
                                        "activations", "cache",     "work"};
    return names[use];
}

/* What a rank of a training would hold with recompute. */
static double with_recompute(const launch_ask *ask, const launch_estimate *made)
{
    launch_ask again = *ask;
    launch_estimate other = *made;
    again.recompute = true;
    other.total_bytes = 0;
    launch_step_training_memory(&again, &other);
    return other.total_bytes;
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
    if (status == BASE_OK && !estimate->fits && !ask->decode && !ask->recompute) {
        const double least = with_recompute(ask, estimate);
        estimate->recompute_bytes = least <= ask->device.memory_bytes ? least : 0;
    }
    return status;
}

void launch_estimate_fini(launch_estimate *estimate)
{
    launch_pipeline_run_fini(&estimate->run);
}
