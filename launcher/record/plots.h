/* The plots that gnuplot draws. Their data and a script are always written, the pictures only if
 * gnuplot is installed. */
#ifndef LAUNCH_PLOTS_H
#define LAUNCH_PLOTS_H

#include "record/out_directory.h"
#include "record/run.h"
#include "record/text.h"

/* Writes scaling.dat, loss.dat, steptime.dat and plots.gp. */
BASE_MUST_CHECK base_status launch_plots_write(const launch_out_directory *directory,
                                               const launch_run *run, base_error *reterr);

/* Runs gnuplot on plots.gp in the directory, whose path the notes name, without a shell, for
 * timeout_ns at most. A failure is not an error but a line in notes: there is no gnuplot, it
 * complained, or it took too long. */
void launch_plots_draw(int directory_fd, const char *path, int64_t timeout_ns, launch_text *notes);

/* The beginning of plots.gp, also for an inference run. */
extern const char LAUNCH_PLOTS_HEAD[];

#define LAUNCH_CURVE_PNG  "scaling-curve.png"
#define LAUNCH_CURVE_DATA "scaling-curve.dat"

#endif
