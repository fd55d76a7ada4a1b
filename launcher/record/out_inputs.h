/* What lies in the output directory: a run's own files, and what the job reads there. For
 * out_directory.c. */
#ifndef LAUNCH_OUT_INPUTS_H
#define LAUNCH_OUT_INPUTS_H

#include <limits.h>
#include <stdbool.h>

#include "record/out_directory.h"

/* The name of a file that a run writes, or of the temporary one on the way to it. */
bool launch_out_is_ours(const char *name);

/* The name, below the directory, of a file that the job reads. */
bool launch_out_is_input(const launch_out_directory *directory, const char *name);

/* What of `path` is below the directory, which is given without links; NULL when it lies elsewhere.
 * Links in the name of path's own directory are followed. Points into `real`. */
const char *launch_out_below(const char *directory, const char *path, char real[PATH_MAX]);

/* Notes the inputs that lie in the directory; BASE_ERR_INVALID for one that the run would write
 * over from its beginning. */
BASE_MUST_CHECK base_status launch_out_find_inputs(const launch_out_options *options,
                                                   const char *real_directory,
                                                   launch_out_directory *directory,
                                                   base_error *reterr);

/* Puts links where the inputs were before the directory was moved. */
BASE_MUST_CHECK base_status launch_out_link_inputs(const launch_out_directory *directory,
                                                   base_error *reterr);

/* Removes the directories of path that are longer than stood_bytes, from the innermost; full ones
 * stay. Shortens path. */
void launch_out_remove_directories(char *path, size_t stood_bytes);

#endif
