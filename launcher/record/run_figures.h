/* The charts of a training as data. The caller frees them with free(); NULL: no memory. Pure. */
#ifndef LAUNCH_RUN_FIGURES_H
#define LAUNCH_RUN_FIGURES_H

#include "chart/figure.h"
#include "record/run.h"

enum { LAUNCH_CHART_COLUMNS_MAX = 240 };

chart_figure *launch_loss_figure(const launch_run *run, bool logarithmic);

/* The share of held-out sentences that are corrected exactly. No points without --eval-every. */
chart_figure *launch_accuracy_figure(const launch_run *run);

chart_figure *launch_scaling_figure(const launch_run *run);

/* Whether the job's ranks exchange something inside of forward and backward. */
bool launch_exchanges_inside(const proto_job *job);

/* The mean step in parts: of the last to arrive, and of each rank, at most
 * LAUNCH_CHART_RANKS_MAX. */
chart_figure *launch_step_figure(const launch_run *run);

/* Puts the parts of the step over the whole run, as areas: of each step, or of the mean of several in
 * each of LAUNCH_CHART_COLUMNS_MAX columns. A sentence if no step was finished. */
void launch_chart_step_times(base_buffer *text, const launch_run *run);

#endif
