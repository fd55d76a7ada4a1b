/* The charts of a training as data. The caller frees them with free(); NULL: no memory. Pure. */
#ifndef LAUNCH_RUN_FIGURES_H
#define LAUNCH_RUN_FIGURES_H

#include "record/figure.h"
#include "record/run.h"

launch_figure *launch_loss_figure(const launch_run *run, bool logarithmic);

/* The share of held-out sentences that are corrected exactly. No points without --eval-every. */
launch_figure *launch_accuracy_figure(const launch_run *run);

launch_figure *launch_scaling_figure(const launch_run *run);

/* The mean step in parts: of the last to arrive, and of each rank, at most
 * LAUNCH_CHART_RANKS_MAX. */
launch_figure *launch_step_figure(const launch_run *run);

#endif
