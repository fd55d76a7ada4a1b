/* Which files in the output directory are a run's own, and which ones the job reads. For
 * out_directory.c. */
#ifndef LAUNCH_OUT_INPUTS_H
#define LAUNCH_OUT_INPUTS_H

#include <limits.h>
#include <stdbool.h>

#include "record/out_directory.h"

/* timings.jsonl of steps that have no place in it (record.c), with the step that came next. */
#define LAUNCH_TIMINGS_BEFORE "timings-before-"

/* Whether a run writes a file of this name, or of this temporary name. */
bool launch_out_is_ours(const char *name);

/* Removes the adapters that a --lora-merge has written below its model. */
BASE_MUST_CHECK base_status launch_out_remove_adapters(const launch_out_directory *directory,
                                                       base_error *reterr);

/* Whether it is a rank's state. */
bool launch_out_is_state(const char *name, uint64_t *rank);

/* Whether the job reads the file of this name, below the directory. */
bool launch_out_is_input(const launch_out_directory *directory, const char *name);

/* The part of `path` below the directory; NULL if it is elsewhere. The directory is given without
 * links. Links in the name of path's own directory are followed. Points into `real`. */
const char *launch_out_below(const char *directory, const char *path, char real[PATH_MAX]);

/* Notes which inputs are in the directory. BASE_ERR_INVALID if the run would overwrite one from its
 * beginning. */
BASE_MUST_CHECK base_status launch_out_find_inputs(const launch_out_options *options,
                                                   const char *real_directory,
                                                   launch_out_directory *directory,
                                                   base_error *reterr);

/* Makes links in the places from which the inputs were moved. */
BASE_MUST_CHECK base_status launch_out_link_inputs(const launch_out_directory *directory,
                                                   base_error *reterr);

/* Removes the directories of path that are longer than stood_bytes, the innermost first, if they
 * are empty. Shortens path. */
void launch_out_remove_directories(char *path, size_t stood_bytes);

#endif
