/* Schedules as text and as SVG: a row for each stage, time from left to right. */
#ifndef RANK_BENCH_PIPELINE_PICTURE_H
#define RANK_BENCH_PIPELINE_PICTURE_H

#include <stdio.h>

#include "parallel/pipeline/timeline.h"

/* A schedule that has been played. */
typedef struct pipeline_run {
    rank_pipeline pipeline;
    rank_pipeline_costs costs;
    rank_pipeline_result result;
    const rank_pipeline_span *spans; /* as rank_pipeline_play has left them */
} pipeline_run;

/* A line for each stage. A column is one forward of a chunk, or more where the step would have more
 * than 100 columns. */
void pipeline_picture_text(const pipeline_run *run, FILE *out);

/* One SVG of all runs, on a common time axis, for light and dark pages. */
void pipeline_picture_svg(const pipeline_run *runs, int count, FILE *out);

#endif
