/* Schedules as text and as SVG: a row for each stage, time from left to right. */
#ifndef LAUNCH_PIPELINE_PICTURE_H
#define LAUNCH_PIPELINE_PICTURE_H

#include <stdio.h>

#include "pipeline/timeline.h"

/* A line for each stage. A column is as long as the shortest task, or longer where the step would
 * have more than 100 columns. */
void launch_pipeline_picture_text(const launch_pipeline_run *run, FILE *out);

/* The time that a column of it is. */
int64_t launch_pipeline_column_ns(const launch_pipeline_run *run);

/* One SVG of all runs, on a common time axis, for light and dark pages. */
void launch_pipeline_picture_svg(const launch_pipeline_run *runs, int count, FILE *out);

/* The same into a file. BASE_ERR_IO. */
BASE_MUST_CHECK base_status launch_pipeline_picture_write(const launch_pipeline_run *runs,
                                                          int count, const char *path,
                                                          base_error *reterr);

/* Whether a picture may have this name, as --plot gives it, and could be written there. BASE_ERR_INVALID: it
 * does not end with .svg; else as base_file_check_writable. */
BASE_MUST_CHECK base_status launch_pipeline_picture_check(const char *path, base_error *reterr);

#endif
