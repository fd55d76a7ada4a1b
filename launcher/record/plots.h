/* The plots of a record: each figure as columns of numbers and as a picture. */
#ifndef LAUNCH_PLOTS_H
#define LAUNCH_PLOTS_H

#include "chart/figure.h"
#include "record/run_info.h"

/* A figure, NAME.dat and NAME.svg. */
typedef struct launch_plot_files {
    const char *name;
    chart_figure *figure; /* NULL: no memory */
} launch_plot_files;

/* Writes both files of each figure; no picture of one without points. Frees the figures. */
BASE_MUST_CHECK base_status launch_plots_write(const char *directory, launch_plot_files *plots,
                                               int count, const launch_run_info *info,
                                               base_error *reterr);

#endif
