/* The plots that gnuplot draws. Their data and a script are always written, the pictures only if
 * gnuplot is installed. */
#ifndef LAUNCH_PLOTS_H
#define LAUNCH_PLOTS_H

#include "record/figure.h"
#include "record/run_info.h"

/* A figure, NAME.dat and NAME.png. */
typedef struct launch_plot_files {
    const char *name;
    launch_figure *figure; /* NULL: no memory */
} launch_plot_files;

/* Writes the data of each figure, and plots.gp. Frees the figures. */
BASE_MUST_CHECK base_status launch_plots_write(const char *directory, launch_plot_files *plots,
                                               int count, const launch_run_info *info,
                                               base_error *reterr);

/* Runs gnuplot on plots.gp in the directory, whose path the notes name, without a shell, for
 * timeout_ns at most. A failure is not an error but a line in notes: there is no gnuplot, it
 * complained, or it took too long. */
void launch_plots_draw(int directory_fd, const char *path, int64_t timeout_ns, base_buffer *notes);

#endif
