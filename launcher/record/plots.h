/* The plots that gnuplot draws: their data and one script are always written, the pictures when
 * gnuplot is there. */
#ifndef LAUNCH_PLOTS_H
#define LAUNCH_PLOTS_H

#include "record/out_directory.h"
#include "record/run.h"
#include "record/text.h"

/* Writes scaling.dat, loss.dat, steptime.dat and plots.gp. */
BASE_MUST_CHECK base_status launch_plots_write(const launch_out_directory *directory,
                                               const launch_run *run, base_error *reterr);

/* Runs gnuplot on the script, without a shell, for timeout_ns at most. What goes wrong is no error
 * but a line in notes: no gnuplot, its complaint, or that it took too long. */
void launch_plots_draw(const launch_out_directory *directory, int64_t timeout_ns,
                       launch_text *notes);

#endif
