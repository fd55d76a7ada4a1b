/* Asks the rank program whether it would refuse a job, before any rank is started, or a model. Private. */
#ifndef LAUNCH_PREFLIGHT_H
#define LAUNCH_PREFLIGHT_H

#include "launch/options.h"

/* Blocks until the check is done. BASE_EXIT_DONE: nothing is wrong, or the mode has nothing to
 * check. Otherwise the error has been logged, and this is the exit code: BASE_EXIT_USAGE if the job
 * is at fault, BASE_EXIT_NO_GPU if this host has nothing to run it with (not with --write-job and
 * --dry-run, which start nothing). */
int launch_preflight(const launch_options *options, const char *rank_path);

/* Whether the rank program knows the model that config.json in that directory describes. BASE_EXIT_DONE:
 * it does. BASE_EXIT_USAGE: it does not, and *reterr names the file and the flaw. BASE_EXIT_ERROR: nobody
 * knows, and *reterr says why. Blocks until the check is done. */
int launch_preflight_model(const char *directory, const char *rank_path, base_error *reterr);

#endif
