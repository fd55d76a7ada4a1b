/* What lies in the output folder: a run's own files, and what the job reads there. For
 * out_folder.c. */
#ifndef LAUNCH_OUT_INPUTS_H
#define LAUNCH_OUT_INPUTS_H

#include <limits.h>
#include <stdbool.h>

#include "record/out_folder.h"

/* The name of a file that a run writes, or of the temporary one on the way to it. */
bool launch_out_is_ours(const char *name);

/* The name, below the folder, of a file that the job reads. */
bool launch_out_is_input(const launch_out_folder *folder, const char *name);

/* What of `path` is below the folder, which is given without links; NULL when it lies elsewhere.
 * Links in the name of path's own folder are followed. Points into `real`. */
const char *launch_out_below(const char *folder, const char *path, char real[PATH_MAX]);

/* Notes the inputs that lie in the folder; BASE_ERR_INVALID for one that the run would write over
 * from its beginning. */
BASE_MUST_CHECK base_status launch_out_find_inputs(const launch_out_options *options,
                                                   const char *real_folder,
                                                   launch_out_folder *folder, base_error *reterr);

/* Puts links where the inputs were before the folder was moved. */
BASE_MUST_CHECK base_status launch_out_link_inputs(const launch_out_folder *folder,
                                                   base_error *reterr);

/* Removes the folders of path that are longer than stood_bytes, from the innermost; full ones stay.
 * Shortens path. */
void launch_out_remove_folders(char *path, size_t stood_bytes);

#endif
